"""Reads that start from what the actor may see."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import timedelta
from typing import Any

from django.db.models import Case, Count, IntegerField, OuterRef, QuerySet, Subquery, Value, When
from django.db.models.functions import Coalesce

from approvals.models import (
    Decision,
    Grant,
    Policy,
    PolicyVersion,
    Request,
    RequestKind,
    RequestState,
    Shadow,
    Simulation,
)
from omniweb.accounts.models import Team
from omniweb.accounts.permissions import Actor
from omniweb.core.clock import now
from omniweb.core.errors import NotFound
from omniweb.core.ids import first_key
from omniweb.core.models import AuditEntry, RowQuerySet

# Of a policy with more versions the newest so many are asked.
MAX_ASKED = 500
HITS_WITHIN = timedelta(days=7)
RISK_ORDER = Case(
    When(risk="critical", then=Value(0)),
    When(risk="high", then=Value(1)),
    When(risk="medium", then=Value(2)),
    default=Value(3),
    output_field=IntegerField(),
)


def policies_visible(actor: Actor) -> RowQuerySet[Policy]:
    """The policies of an actor's team, with those in the archive: records go on naming them."""
    policies = Policy.objects.filter(team=actor.team)
    return policies.select_related("active_version").order_by("name")


def policies_kept(actor: Actor, *, archived: bool = False) -> RowQuerySet[Policy]:
    """The policies to list and to choose from, or those in the archive."""
    return policies_visible(actor).filter(archived_at__isnull=not archived)


def policies_listed(actor: Actor, *, archived: bool = False) -> Iterable[Any]:
    """The policies with `agents` that run under them, what is `waiting`, and last week's `hits`.

    `newest` is the number of the last version that was saved.
    """
    newest = PolicyVersion.objects.filter(policy=OuterRef("pk")).values("number")[:1]
    lately = first_key(now() - HITS_WITHIN)
    hits = Decision.objects.filter(version__policy=OuterRef("pk"), pk__gte=lately)
    waiting = Request.objects.filter(version__policy=OuterRef("pk"), state=RequestState.OPEN)
    # `profiles` are the room's above: it says which agent runs under which policy.
    return policies_kept(actor, archived=archived).annotate(
        agents=Count("profiles"),
        hits=_count(hits),
        waiting=_count(waiting),
        newest=Subquery(newest),
    )


def _count(rows: QuerySet[Any]) -> Coalesce:
    # Without the model's own order, which would split the one group into many.
    counted = rows.order_by().values("version__policy").annotate(found=Count("pk")).values("found")
    return Coalesce(Subquery(counted, output_field=IntegerField()), 0)


def versions_visible(actor: Actor) -> RowQuerySet[PolicyVersion]:
    """The policy versions of an actor's team."""
    return PolicyVersion.objects.filter(policy__team=actor.team).select_related(
        "policy", "created_by"
    )


def version_of(actor: Actor, policy: str, number: int | None = None) -> PolicyVersion:
    """Return a version of a policy by reference, the active one by default; raises NotFound."""
    row = policies_visible(actor).by_ref(policy)
    versions = versions_visible(actor).filter(policy=row)
    same = {"active_for": row} if number is None else {"number": number}
    version = versions.filter(**same).first()
    if version is None:
        raise NotFound(
            f"{row} has no {'active version' if number is None else f'version {number}'}"
        )
    return version


def versions_asked(policy: Policy) -> list[PolicyVersion]:
    """Return the versions that are asked when a change is looked for, oldest first."""
    rows = PolicyVersion.objects.filter(policy=policy).select_related("policy", "created_by")
    return list(rows.order_by("-number")[:MAX_ASKED])[::-1]


def simulations_visible(actor: Actor) -> RowQuerySet[Simulation]:
    """The simulations of an actor's team."""
    return Simulation.objects.filter(team=actor.team).select_related(
        "policy__active_version", "version", "created_by"
    )


def activations(policy: Policy) -> QuerySet[AuditEntry]:
    """When versions of a policy became active, by whom and why, newest first."""
    return AuditEntry.objects.filter(
        team_id=policy.team_id, subject=policy.ref, act="policy.activate"
    )


def versions_compared(
    actor: Actor, policy: str, before: int | None = None, after: int | None = None
) -> tuple[PolicyVersion, PolicyVersion]:
    """Return two versions of a policy: by default the newest, and the one saved before it.

    Raises NotFound for a version that does not exist.
    """
    row = policies_visible(actor).by_ref(policy)
    versions = versions_visible(actor).filter(policy=row)
    later = versions.first() if after is None else versions.filter(number=after).first()
    if later is None:
        raise NotFound(f"{row} has no version {after or ''}")
    if before is None:
        return versions.filter(number__lt=later.number).first() or later, later
    return version_of(actor, policy, before), later


def shadows_visible(actor: Actor) -> RowQuerySet[Shadow]:
    """The versions that decide, or did, in the shadow of an actor's team."""
    return Shadow.objects.filter(team=actor.team).select_related(
        "policy__active_version", "version", "created_by"
    )


def policy_for(team: Team, name: str) -> Policy:
    """Return a team's policy by name; raises NotFound."""
    policy = Policy.objects.filter(team=team, name=name).select_related("active_version").first()
    if policy is None:
        raise NotFound(f"There is no policy named {name} in {team}")
    return policy


def policy_named(*, name: str) -> PolicyVersion:
    """Return the active version of the first policy with this name; for commands on one machine."""
    policy = Policy.objects.filter(name=name, active_version__isnull=False).order_by("id").first()
    if policy is None or policy.active_version is None:
        raise NotFound(f"There is no policy named {name}")
    return policy.active_version


def requests_visible(actor: Actor) -> RowQuerySet[Request]:
    """The requests an actor may see: their team's, or for an agent its own."""
    requests = Request.objects.filter(team=actor.team).select_related(
        "agent", "owner", "trajectory", "version__policy", "decided_by"
    )
    return requests.filter(agent=actor.agent) if actor.agent else requests


def inbox(actor: Actor, kind: str = "") -> RowQuerySet[Request]:
    """What waits for a decision: riskiest first, then oldest."""
    requests = requests_visible(actor).filter(state=RequestState.OPEN)
    if kind:
        requests = requests.filter(kind=kind)
    return requests.order_by(RISK_ORDER, "id")


def inbox_count(actor: Actor) -> int:
    """How many requests wait; the number on the badge."""
    return Request.objects.filter(team=actor.team, state=RequestState.OPEN).count()


def decisions_visible(actor: Actor) -> RowQuerySet[Decision]:
    """The decisions an actor may see: their team's, or for an agent its own."""
    decisions = Decision.objects.filter(team=actor.team).select_related(
        "agent", "version__policy", "request", "trajectory"
    )
    return decisions.filter(agent=actor.agent) if actor.agent else decisions


def grants_visible(actor: Actor) -> RowQuerySet[Grant]:
    """The standing yeses of an actor's team."""
    return Grant.objects.filter(team=actor.team).select_related("request", "agent", "given_by")


def earlier_like(request: Request) -> QuerySet[Request]:
    """Return earlier decided requests of the agent for exactly the same thing, newest first."""
    decided = [RequestState.APPROVED, RequestState.REJECTED, RequestState.SPENT]
    same = Request.objects.filter(agent_id=request.agent_id, state__in=decided)
    same = same.filter(kind=request.kind, sentence=request.sentence)
    if request.kind == RequestKind.EXECUTION:
        # The sentence names only the programs; the digest holds the run, so it never repeats.
        same = same.filter(candidate__argv=request.candidate["argv"])
    return same.exclude(pk=request.pk).order_by("-id")[:12]
