"""A trajectory in one sentence and a few numbers, from its totals alone."""

from __future__ import annotations

from omniweb.core.templatetags.ui import duration_ms
from trajectories.models import Trajectory
from trajectories.tally import Tally


def story(trajectory: Trajectory) -> str:
    """Return one sentence such as "5 commands, 1 failed; 1 approval by …, waited 2 min 14 s."."""
    tally = trajectory.tally
    parts = [part for part in (_commands(tally), _approvals(tally), *_rest(tally)) if part]
    if not parts:
        return "Nothing has happened yet." if not tally.steps else "No command was asked for."
    return "; ".join(parts) + "."


def _commands(tally: Tally) -> str:
    if not tally.commands:
        return ""
    facts = [_count(tally.commands, "command")]
    facts += [f"{tally.failed} failed"] if tally.failed else []
    facts += [f"{tally.unknown} may have run"] if tally.unknown else []
    return ", ".join(facts)


def _approvals(tally: Tally) -> str:
    if not tally.approved:
        return ""
    facts = _count(tally.approved, "approval")
    facts += f" by {' and '.join(tally.approvers)}" if len(tally.approvers) in (1, 2) else ""
    return f"{facts}, waited {duration_ms(tally.waited_ms)}"


def _rest(tally: Tally) -> list[str]:
    counts = {"denied": tally.denied, "rejected": tally.rejected, "expired": tally.expired}
    return [f"{count} {word}" for word, count in counts.items() if count]


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"
