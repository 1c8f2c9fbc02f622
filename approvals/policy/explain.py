"""The story of a decision: which rules won, lost and nearly matched, and how each part fared."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Protocol

from approvals.policy.commands.does import does, part_does
from approvals.policy.commands.line import PROVABLE, CommandLine, OpaquePart, SimpleCommand
from approvals.policy.commands.parse import read_command
from approvals.policy.decision import AuthorityRequest, Effect, Explanation, Part, RuleNote
from approvals.policy.matching import CompiledRule

# A page can show this many; a policy can hold thousands of rules on one capability.
MAX_NEAR_MISSES = 50
# Why a part has no effect though it was read: told apart from parts that could not be.
NO_RULE = "no rule speaks of it"


class RuleSet(Protocol):
    """The rules that speak about one capability."""

    @property
    def rules(self) -> list[CompiledRule]:
        """All of them, in document order."""


def explain(
    buckets: Sequence[RuleSet],
    request: AuthorityRequest,
    effect: Effect,
    winners: tuple[CompiledRule, ...],
    default: str | None = None,
) -> Explanation:
    """Tell how `effect` came about; `default` says why when no rule decided."""
    line = None if request.command is None else read_command(request.command)
    rules = [rule for bucket in buckets for rule in bucket.rules]
    leading = next((rule for rule in winners if rule.reason), winners[0] if winners else None)
    lost, near = [], []
    for rule in rules:
        if rule in winners:
            continue
        miss = _miss(rule, request, line)
        if miss is None:
            lost.append(_note(rule, _lost_to(leading, effect)))
        else:
            near.append(_note(rule, miss))
    return Explanation(
        winner=_note(leading) if leading else None,
        matched=tuple(_note(rule) for rule in winners),
        lost=tuple(lost),
        near_misses=tuple(near[:MAX_NEAR_MISSES]),
        mode_default=default,
        parts=tuple(_parts(rules, request, line, effect, default)) if line else (),
    )


def _note(rule: CompiledRule, why: str = "") -> RuleNote:
    return RuleNote(rule.rule_id, rule.effect, rule.reason, why)


def _lost_to(leading: CompiledRule | None, effect: Effect) -> str:
    if leading is None:
        return "lost to a command that could not be read"
    return f"lost to {effect} rule {leading.rule_id}"


def _miss(rule: CompiledRule, request: AuthorityRequest, line: CommandLine | None) -> str | None:
    """Return what kept a rule from matching, None when it matches."""
    miss = rule.first_miss(request)
    if miss is not None:
        return f"wants {miss}"
    if rule.meets_command(line):
        return None
    if line is None or rule.command is None:
        return "wants a command"
    if rule.effect is not Effect.ALLOW:
        return "no command of the line begins with its words"
    if not line.provable:
        return f"the command could not be read: {', '.join(line.opaque_reasons)}"
    other = next((item for item in line.commands if not rule.command.covers(item)), None)
    if other is None:
        return "no command is run that it could cover"
    return f"does not cover `{' '.join(word or '?' for word in other.words)}`"


def _parts(
    rules: Sequence[CompiledRule],
    request: AuthorityRequest,
    line: CommandLine,
    effect: Effect,
    default: str | None,
) -> Iterator[Part]:
    holding = [rule for rule in rules if rule.holds(request)]
    unruled = NO_RULE if line.opaque else default or NO_RULE
    for command in line.commands:
        rule = next((rule for rule in holding if _speaks_of(rule, command)), None)
        decided = effect if default and not line.opaque else None
        yield Part(
            text=" ".join(word or "?" for word in command.words)
            if command.reached
            else command.text,
            start=command.start,
            end=command.end,
            reached=command.reached,
            effect=rule.effect if rule else decided,
            rule_id=rule.rule_id if rule else None,
            why=(rule.reason or "") if rule else unruled,
            does=does(command),
            program=command.program or "",
        )
    for part in line.opaque:
        yield _beyond_words(part, effect)


def _beyond_words(part: OpaquePart, effect: Effect) -> Part:
    """Tell of a part that is more than literal words: what was read of it is no mystery."""
    read = part.kind in PROVABLE
    return Part(
        text=part.text,
        start=part.start,
        end=part.end,
        reached=(),
        effect=effect if read and effect is Effect.ALLOW else None,
        rule_id=None,
        why=NO_RULE if read and effect is not Effect.ALLOW else part.reason,
        does=f"{part.reason}: {part_does(part)}",
    )


def _speaks_of(rule: CompiledRule, command: SimpleCommand) -> bool:
    """Tell whether a rule that holds would decide this command if it stood alone."""
    if rule.command is None:
        return True
    if rule.effect is Effect.ALLOW:
        return rule.command.covers(command)
    return rule.command.matches(command)
