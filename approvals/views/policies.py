"""Policies and their versions: reading and activating them."""

from __future__ import annotations

from django.contrib import messages
from django.http import HttpResponse, HttpResponseRedirect
from django.urls import reverse
from django.views.decorators.http import require_GET, require_POST

from approvals.checked import checked
from approvals.forms import ActivateForm
from approvals.hits import hits_lately
from approvals.models import Policy, PolicyVersion
from approvals.policy.diff import policy_changes
from approvals.rules import rule_counts, rule_rows
from approvals.selectors import (
    activations,
    policies_kept,
    policies_listed,
    policies_visible,
    shadows_visible,
    version_of,
    versions_visible,
)
from approvals.services.policies import (
    policy_archive,
    policy_restore,
    policy_second_person,
    version_activate,
)
from approvals.shade import shadow_counts
from omniweb.accounts.http import Request, door
from omniweb.accounts.permissions import Action
from omniweb.core.errors import InvalidInput, NotFound
from omniweb.core.htmx import page


@require_GET
@door(Action.VIEW)
def policies_view(request: Request) -> HttpResponse:
    """Every policy with its active version and how much it is used; `?show=archive` the others."""
    is_archive = request.GET.get("show") == "archive"
    rows = []
    for policy in policies_listed(request.actor, archived=is_archive):
        active = policy.active_version
        document = active.policy_document() if active else None
        rows.append((policy, document, rule_counts(document) if document else None))
    context = {
        "rows": rows,
        "is_archive": is_archive,
        "archived": policies_kept(request.actor, archived=True).count(),
    }
    return page(request, "approvals/policies.html", context)


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
    rules = rule_rows(document)
    hits = hits_lately(policy, [row.rule_id for row in rules])
    shadow = shadows_visible(request.actor).filter(policy=policy, ended_at__isnull=True).first()
    shadow = shadow if shadow and shadow.is_deciding else None
    context = {
        "policy": policy,
        "version": version,
        "shadow": shadow,
        "shadow_counts": shadow_counts(shadow) if shadow else {},
        "rules": [(row, hits.get(row.rule_id, 0)) for row in rules],
        "document": document,
        "is_active": version.pk == policy.active_version_id,
        "check": checked(version.source),
        "counts": rule_counts(document),
        "versions": versions,
        "newest": versions.first(),
        "activations": activations(policy)[:5],
        "form": ActivateForm(),
        "may_configure": request.actor.may(Action.CONFIGURE) and policy.archived_at is None,
        "may_restore": request.actor.may(Action.CONFIGURE) and policy.archived_at is not None,
        "may_administer": request.actor.may(Action.ADMINISTER),
        "needs_other": _needs_other(request, version),
        "loosened": _loosened(policy, version),
    }
    return page(request, "approvals/policy.html", context)


def _loosened(policy: Policy, version: PolicyVersion) -> int:
    """Return how many known requests a version decides less strictly than the active one."""
    active = policy.active_version
    if active is None or active.pk == version.pk:
        return 0
    flips = policy_changes(active.compiled(), version.compiled()).flips
    return sum(flip.is_loosened for flip in flips)


def _needs_other(request: Request, version: PolicyVersion) -> bool:
    """Tell whether it takes someone else than the reader to activate a version."""
    is_author = version.created_by is not None and version.created_by == request.actor.user
    return version.policy.needs_second_person and is_author


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


@require_POST
@door(Action.CONFIGURE)
def archive_view(request: Request, ref: str) -> HttpResponse:
    """Take a policy out of the lists."""
    policy = policies_visible(request.actor).by_ref(ref)
    policy_archive(actor=request.actor, policy=policy)
    messages.success(request, f"{policy} is in the archive. What was decided under it stays.")
    return HttpResponseRedirect(reverse("policies"))


@require_POST
@door(Action.CONFIGURE)
def restore_view(request: Request, ref: str) -> HttpResponse:
    """Take a policy back out of the archive."""
    policy = policies_visible(request.actor).by_ref(ref)
    policy_restore(actor=request.actor, policy=policy)
    messages.success(request, f"{policy} can be chosen again.")
    return HttpResponseRedirect(reverse("policy", args=[policy.ref]))


@require_POST
@door(Action.CONFIGURE)
def second_person_view(request: Request, ref: str) -> HttpResponse:
    """Say whether a version takes someone else than its author to become active."""
    policy = policies_visible(request.actor).by_ref(ref)
    is_needed = request.POST.get("needed", "yes") == "yes"
    policy_second_person(actor=request.actor, policy=policy, is_needed=is_needed)
    words = "takes someone else than its author" if is_needed else "may be done by its author"
    messages.success(request, f"Activating a version of {policy} {words}.")
    return HttpResponseRedirect(reverse("policy", args=[policy.ref]))
