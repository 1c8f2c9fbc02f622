"""Recorded decisions put to another policy: which would come out differently, and by which rules.

Each distinct question is decided once. What a record no longer holds is not guessed: a question
with a masked secret where rules look is counted as not judged. Memory is bounded, however many
decisions are replayed: examples, groups and remembered questions have their limits.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any, NamedTuple

from approvals.policy.decision import AuthorityRequest, Effect, PolicyDecision, ReasonCode
from approvals.policy.evaluator import CompiledPolicy
from omniweb.core.errors import InvalidInput

# What a redactor leaves where a secret was.
MASK = "[REDACTED]"
MAX_REMEMBERED = 20_000
MAX_GROUPS = 200
MAX_EXAMPLES = 50
MAX_RUNS = 200

# A decision that becomes looser comes before one that becomes stricter, the widest step first.
DIRECTIONS = (
    (Effect.DENY, Effect.ALLOW),
    (Effect.ASK, Effect.ALLOW),
    (Effect.DENY, Effect.ASK),
    (Effect.ALLOW, Effect.DENY),
    (Effect.ASK, Effect.DENY),
    (Effect.ALLOW, Effect.ASK),
)
# Who decided where no rule did.
BY_MODE = "(mode)"
BY_UNREAD = "(not read)"
BY_SANDBOX = "(sandbox required)"
BY_ERROR = "(error)"
_WITHOUT_RULE = {
    ReasonCode.COMMAND_OPAQUE: BY_UNREAD,
    ReasonCode.POLICY_ERROR: BY_ERROR,
    ReasonCode.BUDGET_EXCEEDED: "(budget)",
}
_OUTSIDE = frozenset({"host", "none"})


class Recorded(NamedTuple):
    """One decision as it was kept; `question` is its authority request as JSON text."""

    key: Hashable
    agent: Hashable
    run: Hashable
    effect: str
    reason_code: str
    rules: tuple[str, ...]
    question: str


class Verdict(NamedTuple):
    """What the other policy says of a question; `effect` is None where it cannot be judged."""

    effect: Effect | None
    by: str
    needs_sandbox: bool = False
    is_outside: bool = False


class Flip(NamedTuple):
    """A decision that would come out differently, with who decided then and who would now."""

    key: Any
    agent: Any
    run: Any
    was: str
    now: str
    was_by: str
    now_by: str

    @property
    def direction(self) -> str:
        """Such as `deny>allow`."""
        return f"{self.was}>{self.now}"


def ordered_directions() -> list[str]:
    """Return every direction, those to look at first in front."""
    return [f"{was}>{now}" for was, now in DIRECTIONS]


def is_looser(direction: str) -> bool:
    """Tell whether a flip in this direction lets more happen."""
    was, _, now = direction.partition(">")
    return Effect(now).strictness < Effect(was).strictness


class Replay:
    """One policy that is asked recorded questions."""

    def __init__(self, policy: CompiledPolicy) -> None:
        self._policy = policy
        self._known: dict[str, Verdict] = {}

    def judge(self, question: str) -> Verdict:
        """Return what the policy says of a question; equal ones are decided once."""
        known = self._known.get(question)
        if known is None:
            if len(self._known) >= MAX_REMEMBERED:
                self._known.clear()
            known = self._known[question] = self._decide(question)
        return known

    def _decide(self, question: str) -> Verdict:
        request = recorded_request(question)
        if request is None:
            return Verdict(None, "")
        decision = self._policy.evaluate(request)
        return Verdict(
            decision.effect,
            responsible(decision),
            decision.constraints.sandbox_required,
            request.execution_surface in _OUTSIDE,
        )

    def answer(self, recorded: Recorded) -> Verdict:
        """Return what the policy would have said where the decision was made."""
        verdict = self.judge(recorded.question)
        has_none = verdict.is_outside or recorded.reason_code == ReasonCode.SANDBOX_REQUIRED
        if verdict.effect is Effect.ALLOW and verdict.needs_sandbox and has_none:
            return Verdict(Effect.DENY, BY_SANDBOX)
        return verdict


def recorded_request(question: str) -> AuthorityRequest | None:
    """Return the request a record holds, None if too much of it was masked to be asked again.

    It comes without metadata, at which no rule looks.
    """
    value = json.loads(question)
    value.pop("metadata", None)
    if MASK in question and _is_masked(value):
        return None
    command = value.pop("command", None)
    request = _without_command(json.dumps(value))
    if request is None or command is None:
        return request
    return replace(request, command=tuple(command)) if _is_words(command) else None


@lru_cache(maxsize=4_096)
def _without_command(question: str) -> AuthorityRequest | None:
    """Read what thousands of recorded questions have in common: all but the command."""
    try:
        return AuthorityRequest.from_dict(json.loads(question))
    except InvalidInput:
        return None


def _is_words(command: Any) -> bool:
    return isinstance(command, list) and all(isinstance(word, str) for word in command)


def _is_masked(value: Any) -> bool:
    """Tell whether a secret is missing anywhere."""
    if isinstance(value, str):
        return MASK in value
    if isinstance(value, Mapping):
        return any(_is_masked(item) for pair in value.items() for item in pair)
    return isinstance(value, list) and any(map(_is_masked, value))


def responsible(decision: PolicyDecision) -> str:
    """Return the rule a decision is due to, or in brackets what decided instead of one."""
    return recorded_by(decision.matched_rules, decision.reason_code)


def recorded_by(rules: tuple[str, ...], reason_code: str) -> str:
    """Return the first rule, or in brackets what decided instead of one."""
    if reason_code == ReasonCode.SANDBOX_REQUIRED:
        return BY_SANDBOX
    if rules:
        return rules[0]
    return next((by for code, by in _WITHOUT_RULE.items() if code == reason_code), BY_MODE)


@dataclass
class Tally:
    """What a replay has found so far."""

    seen: int = 0
    unjudged: int = 0
    directions: Counter[str] = field(default_factory=Counter)
    # (direction, who decided, who would) → how many.
    by_rule: Counter[tuple[str, str, str]] = field(default_factory=Counter)
    # (agent, direction) → how many.
    by_agent: Counter[tuple[Any, str]] = field(default_factory=Counter)
    # The flips that did not fit into the groups above.
    ungrouped: int = 0
    # The first flip of each run, in the order of the record.
    first_in_run: dict[Any, Flip] = field(default_factory=dict)
    runs_beyond: bool = False
    # Of each direction the first flip of a question, by the question.
    examples: dict[str, dict[str, Flip]] = field(default_factory=dict)
    # (direction, question) → how often it flipped, for those that have an example.
    repeats: Counter[tuple[str, str]] = field(default_factory=Counter)

    @property
    def flips(self) -> int:
        """How many decisions would come out differently."""
        return self.directions.total()

    def add(self, replay: Replay, some: Iterable[Recorded]) -> None:
        """Judge recorded decisions, oldest first, and count what flips."""
        for recorded in some:
            self.seen += 1
            verdict = replay.answer(recorded)
            if verdict.effect is None:
                self.unjudged += 1
            elif verdict.effect != recorded.effect:
                self._count(_flip(recorded, verdict.effect, verdict.by), recorded.question)

    def _count(self, flip: Flip, question: str) -> None:
        direction = flip.direction
        self.directions[direction] += 1
        rule, agent = (direction, flip.was_by, flip.now_by), (flip.agent, direction)
        if _has_room(self.by_rule, rule) and _has_room(self.by_agent, agent):
            self.by_rule[rule] += 1
            self.by_agent[agent] += 1
        else:
            self.ungrouped += 1
        if flip.run not in self.first_in_run:
            if len(self.first_in_run) < MAX_RUNS:
                self.first_in_run[flip.run] = flip
            else:
                self.runs_beyond = True
        kept = self.examples.setdefault(direction, {})
        if question in kept or len(kept) < MAX_EXAMPLES:
            kept.setdefault(question, flip)
            self.repeats[direction, question] += 1


def _flip(recorded: Recorded, effect: Effect, by: str) -> Flip:
    return Flip(
        recorded.key,
        recorded.agent,
        recorded.run,
        recorded.effect,
        effect.value,
        recorded_by(recorded.rules, recorded.reason_code),
        by,
    )


def _has_room(groups: Mapping[Any, int], group: Any) -> bool:
    return group in groups or len(groups) < MAX_GROUPS
