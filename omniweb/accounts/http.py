"""What views need of accounts: the typed request and the door to every page."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Concatenate

from django.contrib.auth.views import redirect_to_login
from django.http import HttpRequest, HttpResponse, QueryDict
from django_htmx.middleware import HtmxDetails

from omniweb.accounts.permissions import Action, Actor
from omniweb.core.errors import InvalidInput


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
            _refuse_nulls(request.GET)
            _refuse_nulls(request.POST)
            return view(request, *args, **kwargs)

        return guarded

    return decorate


def _refuse_nulls(sent: QueryDict) -> None:
    # Nobody types one, and PostgreSQL keeps none: it would fail wherever it is looked for.
    if any("\0" in text for _, texts in sent.lists() for text in texts):
        raise InvalidInput("Text must not contain null characters")
