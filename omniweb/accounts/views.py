"""Signing in by link, and one's own account; passwords are allauth's."""

from __future__ import annotations

from allauth.account.internal.flows.login import record_authentication
from django.contrib.auth import login
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.http import require_GET, require_http_methods

from omniweb.accounts import services
from omniweb.accounts.http import Request, door
from omniweb.accounts.permissions import ACTION_WORDS, Action

BACKEND = "allauth.account.auth_backends.AuthenticationBackend"


@require_http_methods(["GET", "POST"])
def link_view(request: HttpRequest, secret: str) -> HttpResponse:
    """Show a button that spends the link: mail scanners and previews follow GETs."""
    if request.method == "GET":
        return render(request, "accounts/link.html")
    user = services.link_use(secret=secret)
    login(request, user, backend=BACKEND)
    record_authentication(request, user, method="link")
    return redirect("overview")


@require_GET
@door(Action.VIEW)
def account_view(request: Request) -> HttpResponse:
    """Who one is here, and how one signs in."""
    acts = [words for action, words in ACTION_WORDS.items() if request.actor.may(action)]
    return render(request, "accounts/account.html", {"acts": acts})
