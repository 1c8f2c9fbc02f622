"""One decision, explained."""

from __future__ import annotations

import json

from django.http import HttpResponse
from django.views.decorators.http import require_GET

from approvals.bisect import Answer, answers
from approvals.lens import command_lens
from approvals.models import Decision, Policy
from approvals.policy.decision import AuthorityRequest
from approvals.policy.simulate import recorded_request
from approvals.selectors import decisions_visible, versions_asked
from approvals.services.decisions import command_text
from omniweb.accounts.http import Request, door
from omniweb.accounts.permissions import Action
from omniweb.core.htmx import page
from trajectories.models import Step
from trajectories.steps import StepKind


@require_GET
@door(Action.VIEW)
def decision_view(request: Request, ref: str) -> HttpResponse:
    """What was asked, what the policy answered, and which rules had a part in it."""
    decision = decisions_visible(request.actor).by_ref(ref)
    asked, told = decision.authority_request, decision.explanation
    argv = asked.get("command")
    lens = command_lens(argv, command_text(argv), told.get("parts", [])) if argv else None
    opened = Step.objects.filter(
        trajectory_id=decision.trajectory_id, kind=StepKind.RUN_OPENED
    ).first()
    question = recorded_request(json.dumps(asked))
    policy = decision.version.policy
    context = {
        "decision": decision,
        "policy": policy,
        "is_masked": question is None,
        "answers": _answers(request, policy, question),
        "may_configure": request.actor.may(Action.CONFIGURE),
        "lens": lens,
        "target": asked.get("target", {}),
        "told": told,
        "run": opened.payload.get("run", "") if opened else "",
        "step": _step_of(decision),
    }
    return page(request, "approvals/decision.html", context)


def _answers(
    request: Request, policy: Policy, question: AuthorityRequest | None
) -> list[Answer] | None:
    """Ask every version where that is wanted (`?versions=1`): it takes a while where many are."""
    if question is None or "versions" not in request.GET:
        return None
    return answers(versions_asked(policy), question)[::-1]


def _step_of(decision: Decision) -> int | None:
    """Return the place of a decision in the record of its run."""
    steps = Step.objects.filter(
        trajectory_id=decision.trajectory_id,
        about=decision.subject_id,
        kind=StepKind.AUTHORITY_DECISION,
    )
    return next((step.seq for step in steps if step.payload["decision"] == decision.ref), None)
