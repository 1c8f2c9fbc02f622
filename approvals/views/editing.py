"""The editor: writing a policy or its next version, checked while it is written and when it is saved."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from django.contrib import messages
from django.http import HttpResponse, HttpResponseRedirect, JsonResponse
from django.shortcuts import render
from django.urls import reverse
from django.views.decorators.http import require_GET, require_http_methods, require_POST

from approvals.checked import checked
from approvals.forms import MAX_COMMAND, PolicyForm, VersionForm
from approvals.models import Policy, PolicyVersion
from approvals.policy.textdiff import text_diff
from approvals.policy.vocabulary import vocabulary
from approvals.selectors import policies_visible, version_of, versions_visible
from approvals.services.policies import policy_create, version_create
from approvals.views.drafts import text_to_edit
from omniweb.accounts.http import Request, door
from omniweb.accounts.permissions import Action
from omniweb.core.errors import Conflict, InvalidInput, NotPermitted, Overtaken
from omniweb.core.htmx import page

STARTER = """\
name: our-rules
# What no rule speaks of: permissive allows it, interactive asks, strict denies.
mode: interactive
rules:
  deny:
    - rule_id: deny_deleting
      capability: process.exec
      command:
        program: [rm, shred]
      reason: Nothing is deleted for good.
  ask:
    - rule_id: ask_publishing
      capability: process.exec
      command:
        prefix: [git, push]
      reason: Publishing needs a person.
  allow:
    - rule_id: allow_looking
      capability: process.exec
      command:
        program: [ls, cat, grep, git]
      conditions:
        execution_surface: sandbox
"""


@require_http_methods(["GET", "POST"])
@door(Action.CONFIGURE)
def policy_new_view(request: Request) -> HttpResponse:
    """Write a new policy, perhaps starting from another one's text (`?from=pol_…`)."""
    origin = request.GET.get("from", "")
    parent = policies_visible(request.actor).by_ref(origin) if origin else None
    form = PolicyForm(request.POST or None, request.FILES or None, initial=_start(request, parent))

    def save() -> PolicyVersion:
        policy = policy_create(actor=request.actor, **form.saved())
        return versions_visible(request.actor).get(policy=policy)

    back = reverse("policy", args=[parent.ref]) if parent else reverse("policies")
    context = {"form": form, "heading": "New policy", "parent": parent, "back": back}
    return _editing(request, form, save, context)


@require_http_methods(["GET", "POST"])
@door(Action.CONFIGURE)
def version_new_view(request: Request, ref: str) -> HttpResponse:
    """Write the next version of a policy, starting from the active one or from `?from=2`.

    Other pages send people here with something to add: see `drafts`.
    """
    policy = policies_visible(request.actor).by_ref(ref)
    if policy.is_builtin:
        raise Conflict(f"{policy.name} is built in and read-only: duplicate it to edit")
    newest = versions_visible(request.actor).filter(policy=policy).first()
    origin = _origin(request, policy) or newest
    source = text_to_edit(request, policy, origin.source if origin else STARTER)
    initial = {"source": source, "base": newest and newest.number}
    form = VersionForm(request.POST or None, request.FILES or None, initial=initial)

    def save() -> PolicyVersion:
        return version_create(
            actor=request.actor, policy=policy, base=form.cleaned_data["base"], **form.saved()
        )

    context = {
        "form": form,
        "heading": f"New version of {policy}",
        "policy": policy,
        "origin": origin,
        "newest": newest,
        "back": reverse("policy", args=[policy.ref]),
    }
    return _editing(request, form, save, context)


def _origin(request: Request, policy: Policy) -> PolicyVersion | None:
    number = request.GET.get("from", "")
    if number.isascii() and number.isdigit() and len(number) < 10:
        return version_of(request.actor, policy.ref, int(number))
    return policy.active_version


@require_POST
@door(Action.CONFIGURE)
def check_view(request: Request) -> HttpResponse:
    """What is to be said of the text as it is now; for the part of the page beside it."""
    check = checked(request.POST.get("source", ""), request.POST.get("command", "")[:MAX_COMMAND])
    context = {"check": check, "is_live": True, "is_edited": True}
    return render(request, "approvals/check.html", context)


@require_GET
@door(Action.VIEW)
def vocabulary_view(request: Request) -> HttpResponse:
    """The keys and values a document may have, for the editor to complete."""
    return JsonResponse(dict(vocabulary()))


def _start(request: Request, parent: Policy | None) -> dict[str, str]:
    if parent is None:
        return {"source": STARTER}
    newest = versions_visible(request.actor).filter(policy=parent).first()
    origin = parent.active_version or newest
    return {"source": origin.source if origin else STARTER, "name": f"{parent.name}-copy"}


def _editing(
    request: Request,
    form: VersionForm,
    save: Callable[[], PolicyVersion],
    context: dict[str, Any],
) -> HttpResponse:
    """Save and go to what was saved; or show the form with everything in it and what is wrong."""
    status = 200
    if request.method == "POST" and (not form.is_valid() or form.is_to_be_saved):
        status = 422
        if form.is_valid():
            try:
                return _saved(request, save())
            except InvalidInput as error:
                form.refuse(error)
            except Overtaken as error:
                status = error.status
                context |= _overtaken(request, form, context["policy"], error)
            except Conflict as error:
                form.add_error("name" if "name" in form.fields else None, error.detail)
            except NotPermitted as error:
                form.add_error(None, error.detail)
    check = checked(form.text(), str(form["command"].value() or "")[:MAX_COMMAND])
    context |= {"check": check, "is_refused": status != 200, "is_edited": True}
    return page(request, "approvals/editor.html", context, status=status)


def _saved(request: Request, version: PolicyVersion) -> HttpResponseRedirect:
    policy = version.policy
    if version.pk == policy.active_version_id:
        messages.success(request, f"Saved. {policy.name} has a new active version.")
        return HttpResponseRedirect(reverse("policy", args=[policy.ref]))
    messages.success(request, f"Saved version {version.number} of {policy.name} as a draft.")
    return HttpResponseRedirect(reverse("policy_version", args=[policy.ref, version.number]))


def _overtaken(
    request: Request, form: VersionForm, policy: Policy, error: Overtaken
) -> dict[str, Any]:
    """Return what someone else saved meanwhile; saved again, the text goes on top of that."""
    latest = version_of(request.actor, policy.ref, error.extra["latest"])
    versions = versions_visible(request.actor).filter(policy=policy)
    theirs = versions.filter(number=form.cleaned_data["base"]).first()
    form.rebase(latest.number)
    lines = text_diff(theirs.source, latest.source) if theirs else []
    return {"overtaken": latest, "newest": latest, "theirs": theirs, "lines": lines}
