"""All steps about one command as one block."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from django.utils.safestring import SafeString, mark_safe

from trajectories.commands import CommandSteps
from trajectories.models import Step
from trajectories.selectors import Excerpt
from trajectories.steps import StepKind
from trajectories.viewer.ansi import ansi_html
from trajectories.viewer.lines import Line, Phrase, decision_phrases, line_of

# How much of an output the page shows; the whole is a download.
HEAD_BYTES, TAIL_BYTES = 6000, 2000

# State → (tone of the block, word, what there is to add).
_UNSTARTED = {
    "waiting": ("wait", "waiting", "not run yet"),
    "queued": ("busy", "queued", "not run yet"),
    "denied": ("bad", "denied", "not run"),
    "rejected": ("bad", "rejected", "not run"),
    "expired": ("plain", "expired", "not run"),
    "withdrawn": ("plain", "withdrawn", "not run"),
    "superseded": ("unsure", "stale", "not run"),
    "stale": ("unsure", "stale", "not run"),
    "cancelled": ("plain", "cancelled", "not run"),
    "failed": ("bad", "not started", "not run"),
}
_ENDED = {
    "timed_out": ("bad", "timed out"),
    "failed": ("bad", "provider failed"),
    "cancelled": ("plain", "cancelled"),
    "unknown": ("unsure", "may have run"),
}
_UNFINISHED = frozenset({"waiting", "queued", "running"})
# The bytes of a UTF-8 character after its first.
_CONTINUATION = bytes(range(0x80, 0xC0))


@dataclass(frozen=True, kw_only=True)
class OutputView:
    """One stream as shown: HTML that is safe, and what is left out of it."""

    stream: str
    head: SafeString
    tail: SafeString
    left_out: int
    dropped: int
    digest: str

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to show."""
        return not self.head and not self.left_out


@dataclass(frozen=True, kw_only=True)
class ExecutionView:
    """A command with what was asked, decided and came of it.

    `before` are the lines that led to it (asked, approved). `tone` colours the block, `word`
    says how it stands (`exit 0`, `rejected`), `remark` adds `not run`. `explanation` is why it
    did not run or did not end well. `also` lists the steps it stands for besides `seq`.
    """

    seq: int
    first_seq: int
    at: datetime
    reference: str
    command: str
    cwd: str
    state: str
    tone: str
    word: str
    remark: str = ""
    duration_ms: float | None = None
    before: list[Line] = field(default_factory=list)
    outputs: list[OutputView] = field(default_factory=list)
    explanation: str = ""
    footer: list[Phrase] = field(default_factory=list)
    also: list[int] = field(default_factory=list)
    icon: str = "command"

    @property
    def is_unfinished(self) -> bool:
        """Whether more is to come."""
        return self.state in _UNFINISHED

    @property
    def word_style(self) -> str:
        """The class of the word."""
        return "" if self.tone == "plain" else self.tone


def execution_view(steps: Sequence[Step], excerpts: Mapping[str, Excerpt]) -> ExecutionView:
    """Return all steps about one command, in order, as its block."""
    of = CommandSteps(steps)
    state = of.state()
    tone, word, remark = _look(state, of)
    # The block stands for the latest of these, so that each line before it keeps its own.
    shown = of.started or of.decided or of.request or of.decision or steps[0]
    before = _before(of, state)
    ended = of.ended.payload if of.ended else {}
    taken = {shown.seq, *(line.seq for line in before)}
    return ExecutionView(
        seq=shown.seq,
        first_seq=steps[0].seq,
        at=(of.ended or of.started or steps[0]).at,
        reference=of.reference,
        command=of.written,
        cwd=of.started.payload.get("cwd", "") if of.started else "",
        state=state,
        tone=tone,
        word=word,
        remark=remark,
        duration_ms=ended.get("duration_ms"),
        before=before,
        outputs=[output for step in of.outputs if (output := _output(step, excerpts))],
        explanation=_explanation(of, state),
        footer=_footer(of),
        also=[step.seq for step in steps if step.seq not in taken],
    )


def _look(state: str, of: CommandSteps) -> tuple[str, str, str]:
    if of.started is None:
        return _UNSTARTED.get(state, ("plain", state.replace("_", " "), "not run"))
    if of.ended is None:
        return ("busy", "running", "")
    if state in _ENDED:
        return (*_ENDED[state], "")
    code = of.ended.payload.get("exit_code")
    return ("good" if code == 0 else "bad", f"exit {code}", "")


def _footer(of: CommandSteps) -> list[Phrase]:
    """Say which rule allowed a command nobody was asked about."""
    if of.decision is None or of.decision.payload["effect"] != "allow":
        return []
    return decision_phrases(of.decision.payload, target=False)


def _before(of: CommandSteps, state: str) -> list[Line]:
    lines = []
    rejected = state == "rejected"
    for step in of.all:
        if step.kind == StepKind.AUTHORITY_DECISION and step.payload["effect"] == "ask":
            line = line_of(step)
            phrases = decision_phrases(step.payload, target=False)
            lines.append(Line(seq=line.seq, at=line.at, icon=line.icon, phrases=phrases))
        elif step.kind == StepKind.VOTE and not (rejected and step.payload["verdict"] != "approve"):
            lines.append(line_of(step, of.opened_at.get(step.payload["request"])))
        elif step.kind == StepKind.GRANT_USED:
            lines.append(line_of(step))
    return lines


def _explanation(of: CommandSteps, state: str) -> str:
    if of.ended and of.ended.payload.get("error"):
        return str(of.ended.payload["error"])
    if state == "denied" and of.decision:
        rules = ", ".join(of.decision.payload.get("matched_rules", [])) or "the default"
        return f"Denied by {rules}: {of.decision.payload.get('reason', '')}".rstrip(": ")
    if state in ("rejected", "expired", "withdrawn", "superseded", "stale") and of.decided:
        reason = of.decided.payload.get("reason", "")
        by = f" by {of.decided.payload['by']}" if state == "rejected" else ""
        return f"{state.capitalize()}{by}: {reason}".rstrip(": ")
    return ""


def _output(step: Step, excerpts: Mapping[str, Excerpt]) -> OutputView | None:
    data: Mapping[str, Any] = step.payload
    excerpt = excerpts.get(data.get("digest", ""))
    if excerpt is None:
        return None
    shown = len(excerpt.head) + len(excerpt.tail)
    return OutputView(
        stream=data["stream"],
        head=_html(_without_torn_end(excerpt.head) if excerpt.tail else excerpt.head),
        tail=_html(excerpt.tail.lstrip(_CONTINUATION)),
        left_out=excerpt.size - shown,
        dropped=max(data.get("size", 0) - data.get("kept", 0), 0) if data.get("truncated") else 0,
        digest=excerpt.digest,
    )


def _without_torn_end(data: bytes) -> bytes:
    """Drop the pieces of a UTF-8 character that a cut went through."""
    whole = data.rstrip(_CONTINUATION)
    return whole[:-1] if whole[-1:] >= b"\xc0" else data


def _html(data: bytes) -> SafeString:
    return mark_safe(ansi_html(data.decode("utf-8", "replace")))  # noqa: S308 - it escapes all text
