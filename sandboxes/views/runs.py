"""Runs: the list, and the page of one."""

from __future__ import annotations

from typing import Any

from django.contrib import messages
from django.http import HttpResponse, HttpResponseRedirect, JsonResponse
from django.urls import reverse
from django.views.decorators.http import require_GET, require_POST

from omniweb.accounts.http import Request, door
from omniweb.accounts.permissions import Action
from omniweb.accounts.selectors import agents_visible
from omniweb.core.htmx import page
from omniweb.core.pagination import paginate
from omniweb.core.text import natural
from sandboxes.costs import written
from sandboxes.holdups import holdup_of
from sandboxes.models import Run, RunState
from sandboxes.providers.registry import provider_specs
from sandboxes.selectors import run_facts, runs_found, runs_visible
from sandboxes.services.prices import run_cost
from sandboxes.services.runs import run_end
from sandboxes.views.running import running_in
from sandboxes.views.words import lasted, place_of, shown_manifest, shown_options
from trajectories.nested import nested_trajectory
from trajectories.viewer.presenters import window
from trajectories.viewer.story import story
from trajectories.viewer.timeline import strip_of

FILTERS = ("state", "agent", "provider", "text")


@require_GET
@door(Action.VIEW)
def runs_view(request: Request) -> HttpResponse:
    """The runs of the team, newest first, by the filters of the address."""
    chosen = {name: request.GET.get(name, "").strip() for name in FILTERS}
    found = paginate(runs_found(request.actor, **chosen), request.GET.get("cursor"))
    context = {
        "runs": [_row(run) for run in found.items],
        "next_cursor": found.next_cursor,
        "chosen": chosen,
        "is_filtered": any(chosen.values()),
        "states": RunState.values,
        "agents": agents_visible(request.actor).order_by("name").values_list("name", flat=True),
        "providers": [spec.name for spec in provider_specs()],
    }
    return page(request, "sandboxes/runs.html", context)


def _row(run: Run) -> dict[str, Any]:
    tally = run.trajectory.tally
    return {
        "run": run,
        "place": place_of(run),
        "lasted": lasted(run),
        "decisions": tally.allowed + tally.asked + tally.denied,
    }


@require_GET
@door(Action.VIEW)
def run_view(request: Request, ref: str) -> HttpResponse:
    """One run: its story, its record as it grows, and what runs in it now."""
    run = runs_visible(request.actor).by_ref(ref)
    context: dict[str, Any] = {
        "run": run,
        "trajectory": run.trajectory,
        "verification": None,
        "may_end": request.actor.may(Action.RUN_END),
    }
    match request.GET.get("part") if request.htmx else None:
        case "now":
            context |= {"running": running_in(run.executions.all())}
        case "live":
            context |= _facts(run)
        case _:
            context |= _facts(run) | {"running": running_in(run.executions.all())}
            context |= window(run.trajectory, at=natural(request.GET.get("at", "")))
    return page(request, "sandboxes/run.html", context)


def _facts(run: Run) -> dict[str, Any]:
    """Return what the head and the side of the page say."""
    return {
        "story": story(run.trajectory),
        "tally": run.trajectory.tally,
        "strip": strip_of(run.trajectory),
        "place": place_of(run),
        "lasted": lasted(run),
        "holdup": holdup_of(run),
        "cost": written(run_cost(run)),
        "sandbox": run.sandboxes.first(),
        "manifest": shown_manifest(run.manifest),
        "options": shown_options(run.provider, run.options),
    }


@require_POST
@door(Action.RUN_END)
def end_view(request: Request, ref: str) -> HttpResponse:
    """End a run and go back to it."""
    run = runs_visible(request.actor).by_ref(ref)
    ended = run_end(
        actor=request.actor,
        run=run,
        outcome=RunState.CANCELLED,
        reason=f"Ended by {request.actor.label}",
    )
    words = "The run is being ended." if ended else "The run was over already."
    messages.success(request, words)
    return HttpResponseRedirect(reverse("run", args=[run.ref]))


@require_GET
@door(Action.VIEW)
def trajectory_view(request: Request, ref: str) -> HttpResponse:
    """The whole record of a run as nested JSON, as a download."""
    run = runs_visible(request.actor).by_ref(ref)
    body = nested_trajectory(run.trajectory, run_facts=run_facts(run))
    response = JsonResponse(body, json_dumps_params={"indent": 2})
    response["Content-Disposition"] = f'attachment; filename="{run.ref}.json"'
    response["Cache-Control"] = "private, no-store"
    return response
