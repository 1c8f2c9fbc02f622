"""Policies and their versions: reading, saving and activating them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from django.contrib import messages
from django.http import HttpResponse, HttpResponseRedirect
from django.urls import reverse
from django.views.decorators.http import require_GET, require_http_methods, require_POST

from approvals.forms import ActivateForm, PolicyForm, VersionForm
from approvals.models import Policy, PolicyVersion
from approvals.rules import rule_counts, rule_rows
from approvals.selectors import policies_listed, policies_visible, versions_visible
from approvals.services.policies import policy_create, version_activate, version_create
from omniweb.accounts.http import Request, door
from omniweb.accounts.permissions import Action
from omniweb.core.errors import Conflict, InvalidInput, NotFound, Problem
from omniweb.core.htmx import page

STARTER = """\
name: our-rules
# What no rule speaks of: permissive allows it, interactive asks, strict denies.
mode: interactive
rules:
  deny:
    - rule_id: deny_credentials
      capability: "*"
      conditions:
        data_classes: [credential]
      reason: Credentials never leave.
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


@dataclass(frozen=True, kw_only=True)
class Flaw:
    """A problem of a document with the line it is on, to be shown beside the text."""

    problem: Problem
    excerpt: str


@require_GET
@door(Action.VIEW)
def policies_view(request: Request) -> HttpResponse:
    """Every policy with its active version and how much it is used."""
    policies = policies_listed(request.actor)
    rows = [
        (policy, document, rule_counts(document))
        for policy in policies
        if policy.active_version
        for document in [policy.active_version.policy_document()]
    ]
    return page(request, "approvals/policies.html", {"rows": rows})


@require_GET
@door(Action.VIEW)
def policy_view(request: Request, ref: str, number: int | None = None) -> HttpResponse:
    """A policy in its active version, or in the version named."""
    policy = _policy(request, ref)
    version = _version(request, policy, number) if number else policy.active_version
    if version is None:
        raise NotFound(f"{policy} has no version yet")
    version.policy = policy
    document = version.policy_document()
    context = {
        "policy": policy,
        "version": version,
        "document": document,
        "is_active": version.pk == policy.active_version_id,
        "rules": rule_rows(document),
        "counts": rule_counts(document),
        "versions": versions_visible(request.actor).filter(policy=policy),
        "form": ActivateForm(),
        "may_configure": request.actor.may(Action.CONFIGURE),
    }
    return page(request, "approvals/policy.html", context)


@require_http_methods(["GET", "POST"])
@door(Action.CONFIGURE)
def policy_new_view(request: Request) -> HttpResponse:
    """Write a new policy, perhaps starting from another one's text (`?from=pol_…`)."""
    origin = request.GET.get("from", "")
    parent = _policy(request, origin) if origin else None
    form = PolicyForm(request.POST or None, initial=_start(parent))

    def save() -> Policy:
        return policy_create(actor=request.actor, **form.cleaned_data)

    context = {"form": form, "heading": "New policy", "parent": parent, "back": reverse("policies")}
    return _saving(request, form, save, context)


@require_http_methods(["GET", "POST"])
@door(Action.CONFIGURE)
def version_new_view(request: Request, ref: str) -> HttpResponse:
    """Write the next version of a policy; saving makes it the active one."""
    policy = _policy(request, ref)
    if policy.is_builtin:
        raise Conflict(f"{policy.name} is built in and read-only: duplicate it to edit")
    source = policy.active_version.source if policy.active_version else STARTER
    form = VersionForm(request.POST or None, initial={"source": source})

    def save() -> Policy:
        version_create(actor=request.actor, policy=policy, **form.cleaned_data)
        return policy

    back = reverse("policy", args=[policy.ref])
    context = {"form": form, "heading": f"New version of {policy}", "back": back}
    return _saving(request, form, save, context)


@require_POST
@door(Action.CONFIGURE)
def activate_view(request: Request, ref: str, number: int) -> HttpResponse:
    """Make a version the active one."""
    policy = _policy(request, ref)
    version = _version(request, policy, number)
    form = ActivateForm(request.POST)
    if not form.is_valid():
        raise InvalidInput("A note has at most 500 characters")
    version_activate(actor=request.actor, version=version, note=form.cleaned_data["note"])
    messages.success(
        request, f"Version {version.number} is active. Runs that are open keep theirs."
    )
    return HttpResponseRedirect(reverse("policy", args=[policy.ref]))


def _policy(request: Request, ref: str) -> Policy:
    return policies_visible(request.actor).by_ref(ref)


def _version(request: Request, policy: Policy, number: int) -> PolicyVersion:
    found = versions_visible(request.actor).filter(policy=policy, number=number).first()
    if found is None:
        raise NotFound(f"{policy} has no version {number}")
    return found


def _start(parent: Policy | None) -> dict[str, str]:
    if parent is None or parent.active_version is None:
        return {"source": STARTER}
    return {"source": parent.active_version.source, "name": f"{parent.name}-copy"}


def _saving(
    request: Request,
    form: VersionForm,
    save: Callable[[], Policy],
    context: dict[str, object],
) -> HttpResponse:
    """Save and go to the policy; or show the form again with everything in it and what is wrong."""
    flaws: list[Flaw] = []
    if request.method == "POST" and form.is_valid():
        try:
            policy = save()
        except InvalidInput as error:
            flaws = _flaws(form, error)
        except Conflict as error:
            form.add_error("name", error.detail)
        else:
            messages.success(request, f"Saved. {policy.name} has a new active version.")
            return HttpResponseRedirect(reverse("policy", args=[policy.ref]))
    status = 422 if form.errors or flaws else 200
    return page(request, "approvals/editor.html", context | {"flaws": flaws}, status=status)


def _flaws(form: VersionForm, error: InvalidInput) -> list[Flaw]:
    lines = form.cleaned_data["source"].splitlines()
    flaws = []
    for problem in error.problems:
        if problem.path == "name" and problem.line is None and "name" in form.fields:
            form.add_error("name", problem.message)
            continue
        is_inside = problem.line is not None and 0 < problem.line <= len(lines)
        excerpt = lines[problem.line - 1].strip() if is_inside and problem.line else ""
        flaws.append(Flaw(problem=problem, excerpt=excerpt))
    if flaws:
        form.add_error("source", "Not saved: see what is wrong beside the text.")
    return flaws
