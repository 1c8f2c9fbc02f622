"""How often rules decided, by the rows that are kept of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from itertools import pairwise

from django.db.models import Count

from approvals.bisect import readable
from approvals.models import Decision, Policy, PolicyVersion, RuleHit
from approvals.policy.document import Rule
from approvals.selectors import HITS_WITHIN, versions_asked
from omniweb.core.clock import now
from omniweb.core.errors import NotFound
from omniweb.core.ids import first_key

DAYS = 30
EXAMPLES = 20
# Up to so many rules each takes a short walk along the index; more share one through all of it.
MAX_WALKS = 50


@dataclass(frozen=True, kw_only=True)
class RuleHistory:
    """One rule of a policy as its newest version with it has it, and what it decided."""

    rule_id: str
    effect: str
    rule: Rule
    newest: PolicyVersion
    versions: list[PolicyVersion]
    # Oldest first.
    days: list[tuple[date, int]]
    last_hit: datetime | None
    examples: list[Decision]

    @property
    def total(self) -> int:
        """How often it decided in these days."""
        return sum(count for _, count in self.days)


def hits_lately(policy: Policy, rule_ids: Sequence[str]) -> dict[str, int]:
    """Return how often each of these rules decided in the last week."""
    since = first_key(now() - HITS_WITHIN)
    rows = RuleHit.objects.filter(policy=policy, decision_id__gte=since).order_by()
    if len(rule_ids) <= MAX_WALKS:
        return {rule_id: rows.filter(rule_id=rule_id).count() for rule_id in rule_ids}
    return dict(rows.values_list("rule_id").annotate(Count("pk")))


def rule_history(policy: Policy, rule_id: str) -> RuleHistory:
    """Return what is known of a rule; raises NotFound where no version has it."""
    having = [
        (version, effect.value, rule)
        for version in versions_asked(policy)
        if (document := readable(version))
        for effect, _, rule in document.each_rule()
        if rule.rule_id == rule_id
    ]
    if not having:
        raise NotFound(f"No version of {policy} has a rule {rule_id}")
    newest, effect, rule = having[-1]
    rows = RuleHit.objects.filter(policy=policy, rule_id=rule_id).order_by("-decision_id")
    found = Decision.objects.select_related("agent", "version").in_bulk(
        list(rows.values_list("decision_id", flat=True)[:EXAMPLES])
    )
    examples = sorted(found.values(), key=lambda row: row.pk, reverse=True)
    return RuleHistory(
        rule_id=rule_id,
        effect=effect,
        rule=rule,
        newest=newest,
        versions=[version for version, _, _ in having],
        days=_days(policy, rule_id),
        last_hit=examples[0].created_at if examples else None,
        examples=examples,
    )


def _days(policy: Policy, rule_id: str) -> list[tuple[date, int]]:
    """Count day by day in UTC: each is a short walk along the index."""
    midnight = now().replace(hour=0, minute=0, second=0, microsecond=0)
    starts = [midnight - timedelta(days=DAYS - 1 - back) for back in range(DAYS + 1)]
    rows = RuleHit.objects.filter(policy=policy, rule_id=rule_id)
    return [
        (
            start.date(),
            rows.filter(decision_id__gte=first_key(start), decision_id__lt=first_key(end)).count(),
        )
        for start, end in pairwise(starts)
    ]


def numbers_in_words(versions: Sequence[PolicyVersion]) -> str:
    """Return the numbers of versions, oldest first, as ranges: `1 to 4, 6`."""
    ranges: list[list[int]] = []
    for version in versions:
        if ranges and ranges[-1][1] == version.number - 1:
            ranges[-1][1] = version.number
        else:
            ranges.append([version.number, version.number])
    return ", ".join(
        str(first) if first == last else f"{first} to {last}" for first, last in ranges
    )
