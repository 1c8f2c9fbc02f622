"""What a replay found, as JSON that pages and the API show: counts, groups, and examples."""

from __future__ import annotations

import uuid
from collections.abc import Iterable
from typing import Any

from approvals.models import Decision
from approvals.policy.decision import AuthorityRequest
from approvals.policy.simulate import Flip, Tally, is_looser, ordered_directions
from approvals.services.decisions import target_text
from omniweb.accounts.models import AgentIdentity
from omniweb.core.errors import InvalidInput
from omniweb.core.ids import ref
from trajectories.models import Step, Trajectory
from trajectories.steps import StepKind

LONGEST_TEXT = 300


def findings(tally: Tally) -> dict[str, Any]:
    """Return the result of a replay; what became looser comes first."""
    order = {direction: at for at, direction in enumerate(ordered_directions())}
    shown = {
        flip.key: tally.repeats[direction, question]
        for direction in order
        for question, flip in sorted(
            tally.examples.get(direction, {}).items(),
            key=lambda item: -tally.repeats[direction, item[0]],
        )
    }
    firsts = sorted(tally.first_in_run.values(), key=lambda flip: (order[flip.direction], flip.key))
    found = told([*_examples(tally), *firsts])
    by_rule = sorted(tally.by_rule.items(), key=lambda item: (order[item[0][0]], -item[1]))
    return {
        "seen": tally.seen,
        "unjudged": tally.unjudged,
        "flips": tally.flips,
        "looser": sum(tally.directions[one] for one in order if is_looser(one)),
        "ungrouped": tally.ungrouped,
        "directions": [
            direction_dict(one) | {"count": tally.directions[one]}
            for one in order
            if tally.directions[one]
        ],
        "by_rule": [
            direction_dict(direction) | {"was_by": was, "now_by": now, "count": count}
            for (direction, was, now), count in by_rule
        ],
        "by_agent": _by_agent(tally, order),
        "first_in_run": [found[flip.key] for flip in firsts if flip.key in found],
        "runs_beyond": tally.runs_beyond,
        "examples": [found[key] | {"times": times} for key, times in shown.items() if key in found],
    }


def _examples(tally: Tally) -> Iterable[Flip]:
    return (flip for kept in tally.examples.values() for flip in kept.values())


def direction_dict(direction: str) -> dict[str, Any]:
    """Return a direction of flips as JSON."""
    was, _, now = direction.partition(">")
    return {"was": was, "now": now, "looser": is_looser(direction)}


def _by_agent(tally: Tally, order: Iterable[str]) -> list[dict[str, Any]]:
    agents = AgentIdentity.objects.in_bulk({agent for agent, _ in tally.by_agent})
    rows = []
    for key, agent in agents.items():
        counts = [
            direction_dict(one) | {"count": tally.by_agent[key, one]}
            for one in order
            if tally.by_agent[key, one]
        ]
        total = sum(count["count"] for count in counts)
        looser = sum(count["count"] for count in counts if count["looser"])
        row = {"agent": agent.ref, "name": agent.name, "count": total}
        row |= {"looser": looser, "stricter": total - looser}
        rows.append(row | {"directions": counts})
    return sorted(rows, key=lambda row: (-row["looser"], -row["count"], row["name"]))


def told(flips: Iterable[Flip]) -> dict[uuid.UUID, dict[str, Any]]:
    """Return each flip in full: what was asked, by whom, and where in which run it stands."""
    wanted = {flip.key: flip for flip in flips}
    decisions = Decision.objects.select_related("agent").in_bulk(wanted)
    places, runs = _places(decisions.values()), _runs(decisions.values())
    return {
        key: {
            "decision": row.ref,
            "at": row.created_at.isoformat(),
            "agent": row.agent.name,
            "capability": row.capability,
            "asked": asked_text(row)[:LONGEST_TEXT],
            "was": flip.was,
            "now": flip.now,
            "direction": flip.direction,
            "looser": is_looser(flip.direction),
            "was_by": flip.was_by,
            "now_by": flip.now_by,
            "trajectory": ref(Trajectory.PREFIX, row.trajectory_id),
            "run": runs.get(row.trajectory_id, ""),
            "step": places.get(row.ref),
        }
        for key, flip in wanted.items()
        if (row := decisions.get(key))
    }


def asked_text(decision: Decision) -> str:
    """Return in a few words what a recorded decision was about."""
    try:
        request = AuthorityRequest.from_dict(decision.authority_request)
    except InvalidInput:
        return ""
    return target_text(request)


def _places(decisions: Iterable[Decision]) -> dict[str, int]:
    """Return the step at which each decision stands in its record."""
    rows = list(decisions)
    steps = Step.objects.filter(
        trajectory_id__in={row.trajectory_id for row in rows},
        about__in={row.subject_id for row in rows},
        kind=StepKind.AUTHORITY_DECISION,
    )
    return {step.payload["decision"]: step.seq for step in steps}


def _runs(decisions: Iterable[Decision]) -> dict[uuid.UUID, str]:
    """Return the run of each trajectory that has one."""
    opened = Step.objects.filter(
        trajectory_id__in={row.trajectory_id for row in decisions}, kind=StepKind.RUN_OPENED
    )
    return {step.trajectory_id: step.payload.get("run", "") for step in opened}
