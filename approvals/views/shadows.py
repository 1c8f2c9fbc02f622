"""Versions in the shadow: letting one decide beside the one in force, and what it said."""

from __future__ import annotations

from django.contrib import messages
from django.http import HttpResponse, HttpResponseRedirect
from django.urls import reverse
from django.views.decorators.http import require_GET, require_POST

from approvals.forms_history import ShadowForm
from approvals.selectors import policies_visible, shadows_visible, version_of
from approvals.services.shadows import shadow_end, shadow_start
from approvals.shade import shadow_findings
from omniweb.accounts.http import Request, door
from omniweb.accounts.permissions import Action
from omniweb.core.errors import InvalidInput
from omniweb.core.htmx import page


@require_POST
@door(Action.CONFIGURE)
def shadow_start_view(request: Request, ref: str) -> HttpResponse:
    """Let a version decide in the shadow for a while."""
    policy = policies_visible(request.actor).by_ref(ref)
    form = ShadowForm(request.POST)
    if not form.is_valid():
        raise InvalidInput("Say which version, and for how many hours")
    shadow = shadow_start(
        actor=request.actor,
        policy=policy,
        version=version_of(request.actor, policy.ref, form.cleaned_data["version"]),
        hours=form.cleaned_data["hours"],
    )
    messages.success(
        request, f"Version {shadow.version.number} decides in the shadow. Nobody obeys it."
    )
    return HttpResponseRedirect(reverse("shadow", args=[shadow.ref]))


@require_GET
@door(Action.VIEW)
def shadow_view(request: Request, ref: str) -> HttpResponse:
    """What a version in the shadow said, beside what was decided."""
    shadow = shadows_visible(request.actor).by_ref(ref)
    context = {
        "shadow": shadow,
        "policy": shadow.policy,
        "result": shadow_findings(shadow),
        "origin": f"from={shadow.version.number}",
        "may_configure": request.actor.may(Action.CONFIGURE),
    }
    return page(request, "approvals/shadow.html", context)


@require_POST
@door(Action.CONFIGURE)
def shadow_end_view(request: Request, ref: str) -> HttpResponse:
    """End a shadow before its time."""
    shadow = shadows_visible(request.actor).by_ref(ref)
    shadow_end(actor=request.actor, shadow=shadow)
    return HttpResponseRedirect(reverse("shadow", args=[shadow.ref]))
