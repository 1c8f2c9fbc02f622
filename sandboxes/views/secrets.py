"""Secrets: written once, given to sandboxes by name, and never shown again."""

from __future__ import annotations

from django.contrib import messages
from django.http import HttpResponse, HttpResponseRedirect
from django.urls import reverse
from django.views.decorators.http import require_GET, require_http_methods, require_POST

from omniweb.accounts.http import Request, door
from omniweb.accounts.permissions import Action
from omniweb.core.errors import Conflict, OmniWebError
from omniweb.core.htmx import page
from sandboxes.forms.agents import refuse
from sandboxes.forms.secrets import SecretForm, ValueForm
from sandboxes.models import Secret
from sandboxes.selectors import environments_visible, secrets_visible
from sandboxes.services.secrets import (
    environments_using,
    secret_archive,
    secret_create,
    secret_replace,
)


@require_GET
@door(Action.VIEW)
def secrets_view(request: Request) -> HttpResponse:
    """The secrets of the team."""
    context = {
        "secrets": secrets_visible(request.actor),
        "may_configure": request.actor.may(Action.CONFIGURE),
    }
    return page(request, "sandboxes/secrets.html", context)


@require_http_methods(["GET", "POST"])
@door(Action.CONFIGURE)
def new_view(request: Request) -> HttpResponse:
    """Keep a new secret."""
    form = SecretForm(request.POST if request.method == "POST" else None)
    if request.method == "POST" and form.is_valid():
        try:
            secret = secret_create(actor=request.actor, **form.cleaned_data)
        except OmniWebError as error:
            refuse(form, error)
        else:
            messages.success(request, f"{secret} is kept. Environments can refer to it now.")
            return HttpResponseRedirect(reverse("secret", args=[secret.ref]))
    status = 422 if form.errors else 200
    return page(request, "sandboxes/secret_new.html", {"form": form}, status=status)


@require_GET
@door(Action.VIEW)
def secret_view(request: Request, ref: str) -> HttpResponse:
    """One secret: where it may go and who uses it."""
    return _secret_page(request, secrets_visible(request.actor).by_ref(ref), ValueForm())


@require_POST
@door(Action.CONFIGURE)
def replace_view(request: Request, ref: str) -> HttpResponse:
    """Give a secret another value."""
    secret = secrets_visible(request.actor).by_ref(ref)
    form = ValueForm(request.POST)
    if form.is_valid():
        try:
            secret_replace(actor=request.actor, secret=secret, **form.cleaned_data)
        except OmniWebError as error:
            refuse(form, error)
        else:
            messages.success(request, "Replaced. Sandboxes made from now on get the new value.")
            return HttpResponseRedirect(reverse("secret", args=[secret.ref]))
    return _secret_page(request, secret, form)


@require_POST
@door(Action.CONFIGURE)
def archive_view(request: Request, ref: str) -> HttpResponse:
    """Forget a secret that nothing uses."""
    secret = secrets_visible(request.actor).by_ref(ref)
    try:
        secret_archive(actor=request.actor, secret=secret)
    except Conflict as error:
        messages.warning(request, f"{error.detail}.")
        return HttpResponseRedirect(reverse("secret", args=[secret.ref]))
    messages.success(request, f"{secret} is archived and its value forgotten.")
    return HttpResponseRedirect(reverse("secrets"))


def _secret_page(request: Request, secret: Secret, form: ValueForm) -> HttpResponse:
    using = environments_visible(request.actor).filter(name__in=environments_using(secret))
    context = {
        "secret": secret,
        "form": form,
        "environments": using,
        "may_configure": request.actor.may(Action.CONFIGURE),
    }
    status = 422 if form.errors else 200
    return page(request, "sandboxes/secret.html", context, status=status)
