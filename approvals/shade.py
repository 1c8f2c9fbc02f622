"""What a version in the shadow said, beside what was decided."""

from __future__ import annotations

from typing import Any

from django.db.models import Count, QuerySet

from approvals.findings import direction_dict, told
from approvals.models import Shadow, ShadowDecision
from approvals.policy.simulate import Flip, is_looser, ordered_directions

# The newest so many that differ are looked at; what was asked more than once is shown once.
MAX_SEEN = 200


def shadow_counts(shadow: Shadow) -> dict[str, int]:
    """Return how many decisions it saw, how many `differ`, and how often it broke off."""
    rows = ShadowDecision.objects.filter(shadow=shadow)
    return {
        "seen": rows.count(),
        "flips": rows.filter(differs=True).count(),
        "errors": rows.filter(differs=False, effect="").count(),
    }


def shadow_findings(shadow: Shadow) -> dict[str, Any]:
    """Return counts, groups by rule and the newest differing decisions; looser ones first."""
    rows = ShadowDecision.objects.filter(shadow=shadow, differs=True)
    order = {direction: at for at, direction in enumerate(ordered_directions())}
    grouped = rows.order_by().values_list("was", "effect", "was_by", "effect_by")
    groups = sorted(
        (
            (f"{was}>{now}", was_by, now_by, count)
            for was, now, was_by, now_by, count in grouped.annotate(Count("pk"))
        ),
        key=lambda group: (order[group[0]], -group[3]),
    )
    totals: dict[str, int] = {}
    for direction, _, _, count in groups:
        totals[direction] = totals.get(direction, 0) + count
    return shadow_counts(shadow) | {
        "looser": sum(count for direction, count in totals.items() if is_looser(direction)),
        "directions": [direction_dict(one) | {"count": count} for one, count in totals.items()],
        "by_rule": [
            direction_dict(direction) | {"was_by": was_by, "now_by": now_by, "count": count}
            for direction, was_by, now_by, count in groups
        ],
        "examples": _examples(rows),
    }


def _examples(rows: QuerySet[ShadowDecision]) -> list[dict[str, Any]]:
    """Return the newest decision of each question, with how often it is among those looked at."""
    shown: dict[tuple[str, str, str], dict[str, Any]] = {}
    for one in told(_newest(rows)).values():
        key = one["direction"], one["capability"], one["asked"]
        shown.setdefault(key, one | {"times": 0})["times"] += 1
    return sorted(shown.values(), key=lambda one: (not one["looser"], -one["times"]))


def _newest(rows: QuerySet[ShadowDecision]) -> list[Flip]:
    found = rows.select_related("decision").order_by("-decision_id")[:MAX_SEEN]
    return [
        Flip(
            row.decision_id,
            row.decision.agent_id,
            row.decision.trajectory_id,
            row.was,
            row.effect,
            row.was_by,
            row.effect_by,
        )
        for row in found
    ]
