"""The queue: what waits, riskiest first, each in a line."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.db.models import Count, Q

from approvals.models import Request, RequestKind, Verdict
from approvals.selectors import inbox
from omniweb.accounts.permissions import Actor
from omniweb.core.text import ascii_host

QUEUE_SIZE = 40
# Which edge a row has: colour says how much is at stake.
_EDGES = {"critical": "high", "high": "med"}
_ROW_FIELDS = (
    *("created_at", "kind", "risk", "candidate", "lines", "terms"),
    *("agent__name", "trajectory__title"),
)


@dataclass(frozen=True, kw_only=True)
class Row:
    """A request in the queue."""

    ref: str
    since: datetime
    what: str
    who: str
    edge: str
    need: str


@dataclass(frozen=True, kw_only=True)
class Queue:
    """One page of the queue, and the counts of its filters."""

    rows: list[Row]
    kind: str
    page: int
    counts: Mapping[str, int]

    @property
    def total(self) -> int:
        """How many requests pass the filter."""
        return self.counts[self.kind]

    @property
    def older(self) -> int | None:
        """The number of the next page, if there is one."""
        return self.page + 1 if self.page * QUEUE_SIZE < self.total else None

    @property
    def newer(self) -> int | None:
        """The number of the page before, if there is one."""
        return self.page - 1 if self.page > 1 else None


def queue_of(actor: Actor, *, kind: str = "", page: int = 1) -> Queue:
    """Return a page of what waits: riskiest first, then oldest; `kind` is one of RequestKind."""
    waiting = inbox(actor)
    counts = waiting.aggregate(
        all=Count("id"), **{name: Count("id", filter=Q(kind=name)) for name in RequestKind.values}
    )
    counts[""] = counts.pop("all")
    kind = kind if kind in counts else ""
    start = (max(page, 1) - 1) * QUEUE_SIZE
    # Sorting keys alone: the rows themselves are wide, and thousands may wait.
    keys = list(inbox(actor, kind).values_list("pk", flat=True)[start : start + QUEUE_SIZE])
    narrow = inbox(actor).filter(pk__in=keys).select_related(None)
    rows = (
        narrow.select_related("agent", "trajectory")
        .only(*_ROW_FIELDS)
        .annotate(approvals=Count("votes", filter=Q(votes__verdict=Verdict.APPROVE)))
    )
    return Queue(rows=list(map(_row, rows)), kind=kind, page=max(page, 1), counts=counts)


def _row(request: Any) -> Row:
    needed = request.votes_needed
    task = request.trajectory.title
    who = (request.agent.name, task, request.candidate.get("environment", ""))
    return Row(
        ref=request.ref,
        since=request.created_at,
        what=summary(request),
        who=" · ".join(part for part in who if part),
        edge=_EDGES.get(request.risk, ""),
        need=f"{request.approvals} of {needed}" if needed > 1 else "1 vote",
    )


def summary(request: Request) -> str:
    """Return in a few words what a request is about: the command, or what a sandbox would get."""
    if request.kind == RequestKind.EXECUTION:
        return str(request.candidate.get("command", ""))
    return ", ".join(f"{said} {what}" for what, said in map(asked_for, request.lines))


def asked_for(line: Mapping[str, Any]) -> tuple[str, str]:
    """Return what a sandbox is to get, and what kind of thing that is."""
    target, details = line.get("target", {}), line.get("metadata", {})
    resource = target.get("resource", "")
    match line.get("capability"):
        case "sandbox.network.configure":
            host = target.get("host", "*")
            if host == "*":
                return "every host", "network to"
            verb = "no network to" if details.get("mode") == "deny" else "network to"
            return ascii_host(host), verb
        case "sandbox.image.use":
            return resource, "image"
        case "sandbox.filesystem.mount":
            mode = "read and write" if details.get("mode") == "read_write" else "read only"
            return f"{resource} → {target.get('path', '')}", f"folder of the host, {mode}:"
        case "sandbox.environment.set":
            return ", ".join(details.get("names", [])), "variables"
        case "sandbox.resources.set":
            given = (f"{name} {value}" for name, value in details.items() if value)
            return ", ".join(given), "resources"
        case "secret.use":
            hosts = ", ".join(map(ascii_host, details.get("hosts", ())))
            what = "secret its commands can read:" if details.get("is_readable") else "secret:"
            return f"{resource} → {hosts}" if hosts else resource, what
        case other:
            return " ".join(map(str, target.values())), str(other)
