"""What views need of accounts: the typed request and the door to every page."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Concatenate

from django.contrib.auth.views import redirect_to_login
from django.http import HttpRequest, HttpResponse
from django_htmx.middleware import HtmxDetails

from omniweb.accounts.permissions import Action, Actor


class Request(HttpRequest):
    """A request of someone who is signed in, as our middleware leaves it."""

    htmx: HtmxDetails
    actor: Actor


type View[**P] = Callable[Concatenate[Request, P], HttpResponse]


def door[**P](action: Action) -> Callable[[View[P]], View[P]]:
    """Let a view be reached only by people who may do `action`; others sign in or get a 403."""

    def decorate(view: View[P]) -> View[P]:
        @wraps(view)
        def guarded(request: Request, /, *args: P.args, **kwargs: P.kwargs) -> HttpResponse:
            if not request.actor:
                return redirect_to_login(request.get_full_path())
            request.actor.require(action)
            return view(request, *args, **kwargs)

        return guarded

    return decorate
