"""The audit log, and verifying every record of a team."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

from django.http import HttpResponse
from django.urls import reverse
from django.views.decorators.http import require_GET, require_POST

from omniweb.accounts.http import Request, door
from omniweb.accounts.permissions import Action
from omniweb.core.htmx import page
from omniweb.core.ids import parse_ref
from omniweb.core.models import AuditEntry
from omniweb.core.pagination import paginate
from omniweb.core.text import natural
from trajectories.ledger import Verification, verify
from trajectories.models import Trajectory
from trajectories.selectors import trajectories_visible

# One answer verifies for about this long; the page then asks for the next slice.
SLICE_SECONDS = 1.0

# First part of an act's subject → the page that shows it.
PAGE_OF = {
    "run": "run",
    "env": "environment",
    "sbx": "sandbox",
    "agt": "agent",
    "pol": "policy",
    "req": "request",
}


@require_GET
@door(Action.VIEW)
def audit_view(request: Request) -> HttpResponse:
    """Who did what, newest first, by the filters of the address."""
    return page(request, "web/audit.html", _context(request))


def _context(request: Request) -> dict[str, Any]:
    entries = AuditEntry.objects.filter(team_id=request.actor.team_id)
    acts = entries.order_by("act").values_list("act", flat=True).distinct()
    who, act = request.GET.get("actor", "").strip(), request.GET.get("act", "")
    subject = request.GET.get("subject", "").strip()
    if who:
        entries = entries.filter(actor__icontains=who)
    if act:
        entries = entries.filter(act=act)
    if subject:
        entries = entries.filter(subject=subject)
    found = paginate(entries, request.GET.get("cursor"))
    return {
        "entries": [(entry, _page_of(entry.subject), _details(entry)) for entry in found.items],
        "next_cursor": found.next_cursor,
        "acts": acts,
        "chosen": {"actor": who, "act": act, "subject": subject},
        "may_verify": request.actor.may(Action.RECORD_AUDIT),
        "slice": None,
    }


def _page_of(subject: str) -> str:
    name = PAGE_OF.get(subject.partition("_")[0])
    return reverse(name, args=[subject]) if name else ""


def _details(entry: AuditEntry) -> list[tuple[str, str]]:
    words = {
        name: ", ".join(map(str, value)) if isinstance(value, list) else str(value)
        for name, value in entry.detail.items()
        if value not in (None, "", [], {})
    }
    return [(name.replace("_", " "), text) for name, text in words.items()]


@dataclass(frozen=True, kw_only=True)
class Slice:
    """How far verifying has come: totals over all slices, and what this one found broken."""

    records: int
    steps: int
    broken: int
    total: int
    found: list[tuple[Trajectory, Verification]]
    after: str

    @property
    def is_done(self) -> bool:
        """Whether every record has been read."""
        return not self.after


@require_POST
@door(Action.RECORD_AUDIT)
def verify_view(request: Request) -> HttpResponse:
    """Verify the next slice of the team's records; without htmx, on the page itself."""
    done = _slice(request)
    if request.htmx:
        return page(request, "web/audit.html", {"slice": done, "may_verify": True})
    return page(request, "web/audit.html", _context(request) | {"slice": done})


def _slice(request: Request) -> Slice:
    records, steps, broken = (_count(request, name) for name in ("records", "steps", "broken"))
    rows = trajectories_visible(request.actor).order_by("id")
    total = rows.count()
    after = parse_ref(Trajectory.PREFIX, request.POST.get("after", ""))
    if after:
        rows = rows.filter(id__gt=after)
    found: list[tuple[Trajectory, Verification]] = []
    until = time.monotonic() + SLICE_SECONDS
    for trajectory in rows.iterator(chunk_size=50):
        verification = verify(trajectory)
        records, steps = records + 1, steps + verification.steps
        if not verification.ok:
            broken += 1
            found.append((trajectory, verification))
        if time.monotonic() > until:
            return Slice(
                records=records,
                steps=steps,
                broken=broken,
                total=total,
                found=found,
                after=trajectory.ref,
            )
    return Slice(records=records, steps=steps, broken=broken, total=total, found=found, after="")


def _count(request: Request, name: str) -> int:
    return natural(request.POST.get(name, "")) or 0
