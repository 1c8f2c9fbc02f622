"""The numbers of the overview. Each is one query over rows of the last days, found by key."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.db.models import Case, Count, Q, Value, When

from approvals.models import Decision, Policy, Request, RequestState
from approvals.selectors import inbox
from approvals.services.decisions import ACT_POLICY_ERROR
from omniweb.accounts.permissions import Actor
from omniweb.core.clock import now
from omniweb.core.ids import first_key, parse_ref
from omniweb.core.models import AuditEntry
from sandboxes.models import Execution, ExecutionState, Run, RunState, Sandbox, SandboxState
from sandboxes.models.run import ENDED

DAYS = 14
# Waits are taken from the newest of these: enough for a percentile, few enough to sort.
MAX_WAITS = 1000
FAILING_WITHIN = timedelta(hours=24)
# Effect → tone of its bar, in the order they are stacked.
TONES = {"allow": "good", "ask": "wait", "deny": "bad"}


@dataclass(frozen=True, kw_only=True)
class Waiting:
    """What waits now, and since when the oldest does."""

    count: int
    oldest: datetime | None


@dataclass(frozen=True, kw_only=True)
class Waits:
    """How long people took, in seconds; None when nothing was decided."""

    count: int
    p50: float | None
    p95: float | None


@dataclass(frozen=True, kw_only=True)
class Decisions:
    """Decisions by day and tone for `bars`, and their sums by effect."""

    days: list[tuple[str, dict[str, int]]]
    totals: dict[str, int]


@dataclass(frozen=True, kw_only=True)
class ProviderUse:
    """What ran on a provider; `failed` are its own failures, not those of commands."""

    provider: str
    executions: int
    failed: int

    @property
    def share(self) -> str:
        """Its failures in percent."""
        return f"{100 * self.failed / self.executions:.0f} %" if self.executions else "0 %"


@dataclass(frozen=True, kw_only=True)
class Failing:
    """A provider that has failed lately, with its last words."""

    provider: str
    count: int
    last_at: datetime
    reason: str


@dataclass(frozen=True, kw_only=True)
class BrokenPolicy:
    """A policy that could not answer, and how often."""

    policy: Policy
    count: int


def waiting(actor: Actor) -> Waiting:
    """Return what waits for people now."""
    requests = inbox(actor)
    first = requests.order_by("id").values_list("created_at", flat=True).first()
    return Waiting(count=requests.count(), oldest=first)


def runs_active(actor: Actor) -> int:
    """Return how many runs are under way."""
    # Named, so that the few are found by their state: most runs have ended.
    return Run.objects.filter(team=actor.team, state__in=set(RunState) - ENDED).count()


def waits(actor: Actor) -> Waits:
    """Return how long requests waited for the people who decided them."""
    decided = Request.objects.filter(
        team=actor.team,
        pk__gte=first_key(_since()),
        state__in=[RequestState.APPROVED, RequestState.SPENT, RequestState.REJECTED],
    )
    times = decided.order_by("-id").values_list("created_at", "decided_at")[:MAX_WAITS]
    seconds = sorted((end - start).total_seconds() for start, end in times if end)
    return Waits(count=len(seconds), p50=_percentile(seconds, 50), p95=_percentile(seconds, 95))


def _percentile(values: Sequence[float], percent: int) -> float | None:
    """Return the smallest value that `percent` of the sorted values do not exceed."""
    if not values:
        return None
    return values[max(0, -(-len(values) * percent // 100) - 1)]


def decisions(actor: Actor) -> Decisions:
    """Return how many decisions there were a day, by effect."""
    days = [_since() + timedelta(days=at) for at in range(DAYS)]
    # Keys sort by time. A database without dates of its own would call Python for each row.
    begun = [When(pk__gte=first_key(day), then=Value(at)) for at, day in enumerate(days)]
    rows = (
        Decision.objects.filter(team=actor.team, pk__gte=first_key(days[0]))
        .order_by()
        .annotate(day=Case(*reversed(begun)))
        .values_list("day", "effect")
        .annotate(found=Count("pk"))
    )
    amounts = [dict.fromkeys(TONES.values(), 0) for _ in days]
    totals = dict.fromkeys(TONES, 0)
    for at, effect, found in rows:
        amounts[at][TONES[effect]] += found
        totals[effect] += found
    names = [f"{day.day} {day:%b}" for day in days]
    return Decisions(days=list(zip(names, amounts, strict=True)), totals=totals)


def providers(actor: Actor) -> list[ProviderUse]:
    """Return how much ran where, the busiest first."""
    lost = [ExecutionState.FAILED, ExecutionState.UNKNOWN]
    rows = (
        Execution.objects.filter(
            team=actor.team, pk__gte=first_key(_since()), started_at__isnull=False
        )
        .order_by()
        .values_list("run__provider")
        .annotate(found=Count("pk"), failed=Count("pk", filter=Q(state__in=lost)))
        .order_by("-found")
    )
    return [ProviderUse(provider=name, executions=found, failed=bad) for name, found, bad in rows]


def failing(actor: Actor) -> list[Failing]:
    """Return the providers that could not make or keep a sandbox in the last day."""
    rows = Sandbox.objects.filter(
        team=actor.team,
        pk__gte=first_key(now() - FAILING_WITHIN),
        state__in=[SandboxState.FAILED, SandboxState.LOST],
    )
    found: dict[str, Failing] = {}
    for sandbox in rows.order_by("id")[:MAX_WAITS]:
        before = found.get(sandbox.provider)
        found[sandbox.provider] = Failing(
            provider=sandbox.provider,
            count=before.count + 1 if before else 1,
            last_at=sandbox.ended_at or sandbox.created_at,
            reason=sandbox.reason,
        )
    return sorted(found.values(), key=lambda item: item.last_at, reverse=True)


def broken(actor: Actor) -> list[BrokenPolicy]:
    """Return the policies that could not answer in the last day, and so denied what was asked."""
    rows = AuditEntry.objects.filter(
        team_id=actor.team_id, act=ACT_POLICY_ERROR, pk__gte=first_key(now() - FAILING_WITHIN)
    )
    counts = Counter(rows.order_by("-id").values_list("subject", flat=True)[:MAX_WAITS])
    keys = {key: ref for ref in counts if (key := parse_ref(Policy.PREFIX, ref))}
    return [
        BrokenPolicy(policy=policy, count=counts[keys[policy.pk]])
        for policy in Policy.objects.filter(team=actor.team, pk__in=keys).order_by("name")
    ]


def _since() -> datetime:
    """Return the beginning of the first day shown."""
    return now().replace(hour=0, minute=0, second=0, microsecond=0) - timedelta(days=DAYS - 1)
