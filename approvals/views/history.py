"""Looking back at what a policy decided, would have decided, and why."""

from __future__ import annotations

import json
from typing import Any

from django.http import HttpResponse, HttpResponseRedirect
from django.urls import reverse
from django.views.decorators.http import require_GET, require_http_methods, require_POST

from approvals.bisect import answers
from approvals.findings import asked_text
from approvals.forms_history import ExplainForm, TryForm, first_day
from approvals.hits import RuleHistory, numbers_in_words, rule_history
from approvals.lens import command_lens
from approvals.models import Policy, PolicyVersion, Simulation
from approvals.policy.decision import AuthorityRequest
from approvals.policy.document import PolicyDocument
from approvals.rules import rule_rows
from approvals.selectors import (
    decisions_visible,
    policies_visible,
    simulations_visible,
    version_of,
    versions_asked,
)
from approvals.services.decisions import command_text
from approvals.services.simulations import simulation_cancel, simulation_start
from omniweb.accounts.http import Request, door
from omniweb.accounts.permissions import Action
from omniweb.core.errors import InvalidInput, TooMany
from omniweb.core.htmx import page

LATEST = 8
MAX_ANSWERS = 50
TONES = {"allow": "good", "ask": "wait", "deny": "bad"}


@require_http_methods(["GET", "POST"])
@door(Action.CONFIGURE)
def try_view(request: Request, ref: str) -> HttpResponse:
    """Choose a text or a version, and the decisions to try it on; a POST begins."""
    policy = policies_visible(request.actor).by_ref(ref)
    form = TryForm(request.POST or None, policy=policy, initial=_start(request, policy))
    if request.method == "POST" and form.is_valid():
        try:
            simulation = _begin(request, policy, form)
        except InvalidInput as error:
            for problem in error.problems[:20]:
                form.add_error("source", str(problem))
        except TooMany as error:
            form.add_error(None, error.detail)
        else:
            return HttpResponseRedirect(reverse("simulation", args=[simulation.ref]))
    latest = simulations_visible(request.actor).filter(policy=policy)[:LATEST]
    context = {"policy": policy, "form": form, "latest": latest}
    return page(request, "approvals/try.html", context, status=422 if form.errors else 200)


def _start(request: Request, policy: Policy) -> dict[str, Any]:
    """Begin with the text of an earlier simulation (`?again=sim_…`), or the active version's."""
    again = request.GET.get("again", "")
    if again:
        earlier = simulations_visible(request.actor).filter(policy=policy).by_ref(again)
        return {"source": earlier.source, "since": first_day()}
    number = request.GET.get("version", "")
    active = policy.active_version
    return {
        "what": number or "draft",
        "source": active.source if active else "",
        "since": first_day(),
    }


def _begin(request: Request, policy: Policy, form: TryForm) -> Simulation:
    number = form.version_number
    version = None if number is None else version_of(request.actor, policy.ref, number)
    return simulation_start(
        actor=request.actor,
        policy=policy,
        source=form.cleaned_data["source"],
        version=version,
        over=form.over(),
    )


@require_GET
@door(Action.VIEW)
def simulation_view(request: Request, ref: str) -> HttpResponse:
    """How far a simulation is, and what it found."""
    simulation = simulations_visible(request.actor).by_ref(ref)
    context = {
        "simulation": simulation,
        "policy": simulation.policy,
        "result": simulation.result,
        "origin": f"simulation={simulation.ref}",
        "may_configure": request.actor.may(Action.CONFIGURE),
    }
    return page(request, "approvals/simulation.html", context)


@require_POST
@door(Action.CONFIGURE)
def simulation_cancel_view(request: Request, ref: str) -> HttpResponse:
    """Stop a simulation that is under way."""
    simulation = simulations_visible(request.actor).by_ref(ref)
    simulation_cancel(actor=request.actor, simulation=simulation)
    return HttpResponseRedirect(reverse("simulation", args=[simulation.ref]))


@require_http_methods(["GET", "POST"])
@door(Action.VIEW)
def explain_view(request: Request, ref: str) -> HttpResponse:
    """Ask a policy by hand; nothing happens and nothing is recorded."""
    policy = policies_visible(request.actor).by_ref(ref)
    sent = request.POST if request.method == "POST" else None
    form = ExplainForm(sent, policy=policy, initial=_asked_before(request))
    context: dict[str, Any] = {"policy": policy, "form": form}
    if request.method == "POST" and form.is_valid():
        try:
            asked = form.question()
            version = version_of(request.actor, policy.ref, form.cleaned_data["version"])
            context |= _explained(policy, version, asked)
        except InvalidInput as error:
            name = "command" if form.cleaned_data["command"].strip() else "request"
            for problem in error.problems[:20]:
                form.add_error(name, str(problem))
    return page(request, "approvals/explain.html", context, status=422 if form.errors else 200)


def _asked_before(request: Request) -> dict[str, Any]:
    """Begin with what was asked in a decision (`?decision=dec_…`)."""
    decision = request.GET.get("decision", "")
    if not decision:
        return {}
    asked = decisions_visible(request.actor).by_ref(decision).authority_request
    return {"request": json.dumps(asked, indent=2, ensure_ascii=False)}


def _explained(policy: Policy, version: PolicyVersion, asked: AuthorityRequest) -> dict[str, Any]:
    decision = version.compiled().evaluate(asked)
    others = versions_asked(policy)
    told, argv = decision.explanation.to_dict(), asked.command
    return {
        "version": version,
        "asked": asked,
        "decision": decision,
        "told": told,
        "lens": command_lens(argv, command_text(argv), told["parts"]) if argv else None,
        "constraints": decision.constraints.to_dict(),
        # A page that people wait for asks only so many.
        "answers": answers(others, asked)[::-1] if len(others) <= MAX_ANSWERS else None,
    }


@require_GET
@door(Action.VIEW)
def rule_view(request: Request, ref: str, rule_id: str) -> HttpResponse:
    """One rule: what it says, how often it decided, and what lately."""
    policy = policies_visible(request.actor).by_ref(ref)
    history = rule_history(policy, rule_id)
    context = {
        "policy": policy,
        "history": history,
        "row": next(row for row in rule_rows(_document(history)) if row.rule_id == rule_id),
        "versions": numbers_in_words(history.versions),
        "bars": [(f"{day:%d %b}", {TONES[history.effect]: count}) for day, count in history.days],
        "examples": [(row, asked_text(row)) for row in history.examples],
        "is_gone": history.newest.pk != policy.active_version_id
        and policy.active_version not in history.versions,
    }
    return page(request, "approvals/rule.html", context)


def _document(history: RuleHistory) -> PolicyDocument:
    return history.newest.compiled().document
