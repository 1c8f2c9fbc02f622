"""Which recorded decisions a simulation is about, and reading them."""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.db.models import QuerySet, TextField
from django.db.models.functions import Cast

from approvals.models import Decision, Policy, PolicyVersion
from approvals.policy.simulate import Recorded
from omniweb.accounts.models import AgentIdentity
from omniweb.core.ids import first_key

CHUNK = 2_000


@dataclass(frozen=True, kw_only=True)
class Over:
    """A choice among the decisions of a team; what is None or empty does not narrow it.

    `everywhere` takes those under other policies, too; `under` is the number of a version of the
    policy. `since` is included, `until` is not. A `capability` may end with `*`.
    """

    everywhere: bool = False
    agent: AgentIdentity | None = None
    since: datetime | None = None
    until: datetime | None = None
    capability: str = ""
    under: int | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return the choice as JSON, without what does not narrow it."""
        said = {
            "everywhere": self.everywhere,
            "agent": self.agent.ref if self.agent else None,
            "agent_name": self.agent.name if self.agent else None,
            "agent_id": str(self.agent.id) if self.agent else None,
            "since": self.since.isoformat() if self.since else None,
            "until": self.until.isoformat() if self.until else None,
            "capability": self.capability,
            "under": self.under,
        }
        return {name: value for name, value in said.items() if value}


def decisions_over(policy: Policy, over: Mapping[str, Any]) -> QuerySet[Decision]:
    """Return the decisions a kept choice (`Over.to_dict`) names."""
    rows = Decision.objects.filter(team_id=policy.team_id)
    if under := over.get("under"):
        version = PolicyVersion.objects.filter(policy=policy, number=under)
        rows = rows.filter(version__in=list(version.values_list("pk", flat=True)))
    elif not over.get("everywhere"):
        versions = PolicyVersion.objects.filter(policy=policy).values_list("pk", flat=True)
        rows = rows.filter(version__in=list(versions))
    if agent := over.get("agent_id"):
        rows = rows.filter(agent_id=uuid.UUID(agent))
    # Keys are ordered by time, so the same index narrows by it.
    if since := over.get("since"):
        rows = rows.filter(pk__gte=first_key(datetime.fromisoformat(since)))
    if until := over.get("until"):
        rows = rows.filter(pk__lt=first_key(datetime.fromisoformat(until)))
    capability = over.get("capability", "")
    if capability.endswith("*"):
        rows = rows.filter(capability__startswith=capability.rstrip("*"))
    elif capability:
        rows = rows.filter(capability=capability)
    return rows


def recorded(rows: QuerySet[Decision]) -> Iterator[list[Recorded]]:
    """Yield the decisions, oldest first, in chunks; what they asked stays text, mostly seen before."""
    read = rows.order_by("pk").values_list(
        "pk",
        "agent_id",
        "trajectory_id",
        "effect",
        "reason_code",
        "matched_rules",
        Cast("authority_request", TextField()),
    )
    after = uuid.UUID(int=0)
    while chunk := list(read.filter(pk__gt=after)[:CHUNK]):
        yield [
            Recorded(key, agent, run, effect, code, tuple(rules), question)
            for key, agent, run, effect, code, rules, question in chunk
        ]
        after = chunk[-1][0]
