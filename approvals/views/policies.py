"""Policies and their versions: reading and activating them."""

from __future__ import annotations

from django.contrib import messages
from django.http import HttpResponse, HttpResponseRedirect
from django.urls import reverse
from django.views.decorators.http import require_GET, require_POST

from approvals.checked import checked
from approvals.forms import ActivateForm
from approvals.rules import rule_counts
from approvals.selectors import policies_listed, policies_visible, version_of, versions_visible
from approvals.services.policies import version_activate
from omniweb.accounts.http import Request, door
from omniweb.accounts.permissions import Action
from omniweb.core.errors import InvalidInput, NotFound
from omniweb.core.htmx import page


@require_GET
@door(Action.VIEW)
def policies_view(request: Request) -> HttpResponse:
    """Every policy with its active version and how much it is used."""
    rows = []
    for policy in policies_listed(request.actor):
        active = policy.active_version
        document = active.policy_document() if active else None
        rows.append((policy, document, rule_counts(document) if document else None))
    return page(request, "approvals/policies.html", {"rows": rows})


@require_GET
@door(Action.VIEW)
def policy_view(request: Request, ref: str, number: int | None = None) -> HttpResponse:
    """A policy in its active version, or in the version named."""
    policy = policies_visible(request.actor).by_ref(ref)
    versions = versions_visible(request.actor).filter(policy=policy)
    wanted = number or (policy.active_version.number if policy.active_version else None)
    version = versions.filter(number=wanted).first() if wanted else versions.first()
    if version is None:
        raise NotFound(f"{policy} has no version {number or ''}")
    document = version.policy_document()
    context = {
        "policy": policy,
        "version": version,
        "document": document,
        "is_active": version.pk == policy.active_version_id,
        "check": checked(version.source),
        "counts": rule_counts(document),
        "versions": versions,
        "form": ActivateForm(),
        "may_configure": request.actor.may(Action.CONFIGURE),
    }
    return page(request, "approvals/policy.html", context)


@require_POST
@door(Action.CONFIGURE)
def activate_view(request: Request, ref: str, number: int) -> HttpResponse:
    """Make a version the active one; an older one is a way back."""
    version = version_of(request.actor, ref, number)
    form = ActivateForm(request.POST)
    if not form.is_valid():
        raise InvalidInput("A note has at most 500 characters")
    version_activate(actor=request.actor, version=version, note=form.cleaned_data["note"])
    messages.success(
        request, f"Version {version.number} is active. Runs that are open keep theirs."
    )
    return HttpResponseRedirect(reverse("policy", args=[version.policy.ref]))
