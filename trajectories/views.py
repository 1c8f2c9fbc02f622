"""Pieces of the run page, and the raw record behind them."""

from __future__ import annotations

import json

from django.http import HttpResponse, HttpResponseRedirect
from django.shortcuts import render
from django.utils.http import url_has_allowed_host_and_scheme
from django.views.decorators.http import require_GET, require_POST

from omniweb.accounts.http import Request, door
from omniweb.accounts.permissions import Action
from omniweb.core.text import natural
from trajectories.blobs import blob_read
from trajectories.ledger import verify
from trajectories.selectors import step_at, trajectory_named
from trajectories.services import annotation_add
from trajectories.viewer.presenters import MAX_WINDOWS, window


@require_GET
@door(Action.VIEW)
def steps_view(request: Request, ref: str) -> HttpResponse:
    """The window of steps that starts `from` a seq: one more, or the same again."""
    trajectory = trajectory_named(request.actor, ref)
    windows = min(natural(request.GET.get("windows", "")) or 1, MAX_WINDOWS)
    start = natural(request.GET.get("from", "")) or 1
    context = window(trajectory, start=start, windows=windows)
    return render(request, "trajectories/steps.html", context)


@require_GET
@door(Action.VIEW)
def step_view(request: Request, ref: str, seq: int) -> HttpResponse:
    """One step, exactly as it was hashed."""
    step = step_at(trajectory_named(request.actor, ref), seq)
    text = json.dumps(step.to_dict(), indent=2)
    return _inert(HttpResponse(text, content_type="application/json"))


@require_GET
@door(Action.VIEW)
def blob_view(request: Request, ref: str, digest: str) -> HttpResponse:
    """The bytes of an output or a file, as a download that no browser interprets."""
    trajectory = trajectory_named(request.actor, ref)
    blob = blob_read(team=trajectory.team, digest=digest)
    response = HttpResponse(bytes(blob.data), content_type="text/plain; charset=utf-8")
    response["Content-Disposition"] = f'attachment; filename="{blob.digest[:16]}.txt"'
    return _inert(response)


@require_POST
@door(Action.VIEW)
def verify_view(request: Request, ref: str) -> HttpResponse:
    """Check the whole chain now and say what came of it."""
    trajectory = trajectory_named(request.actor, ref)
    context = {"trajectory": trajectory, "verification": verify(trajectory)}
    return render(request, "trajectories/verified.html", context)


@require_POST
@door(Action.RECORD_AUDIT)
def annotation_view(request: Request, ref: str) -> HttpResponse:
    """Add a remark and go back to the step it is on."""
    trajectory = trajectory_named(request.actor, ref)
    step = annotation_add(
        actor=request.actor,
        trajectory=trajectory,
        text=request.POST.get("text", ""),
        seq=natural(request.POST.get("seq", "")),
    )
    back = request.POST.get("next", "")
    if not url_has_allowed_host_and_scheme(back, allowed_hosts=None):
        back = "/"
    return HttpResponseRedirect(f"{back}?at={step.seq}#s{step.seq}")


def _inert(response: HttpResponse) -> HttpResponse:
    # SecurityMiddleware adds it as well; here it must not depend on a setting.
    response["X-Content-Type-Options"] = "nosniff"
    response["Cache-Control"] = "private, no-store"
    return response
