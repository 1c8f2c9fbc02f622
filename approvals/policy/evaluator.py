"""From a document and a request to a decision.

The order is fixed: deny, ask, "a command nobody could read meets rules about commands", allow,
and then what the mode says of requests no rule matches. The order of rules and how specific they
are decide nothing. Reading commands deeper than a plain chain can only tighten the outcome.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from functools import partial, reduce
from typing import NamedTuple

from approvals.policy.capabilities import CAPABILITIES
from approvals.policy.commands.line import CommandLine, SimpleCommand
from approvals.policy.commands.parse import read_command
from approvals.policy.decision import (
    NO_CONSTRAINTS,
    Allow,
    Ask,
    AuthorityRequest,
    Constraints,
    Deny,
    Effect,
    PolicyDecision,
    ReasonCode,
)
from approvals.policy.document import PolicyDocument
from approvals.policy.explain import explain
from approvals.policy.matching import CompiledRule, compile_rule

logger = logging.getLogger(__name__)


class Bucket:
    """The rules of one effect that speak about one capability; those on commands by their words."""

    def __init__(self) -> None:
        self.rules: list[CompiledRule] = []
        self.plain: list[CompiledRule] = []
        self.on_commands: list[CompiledRule] = []
        self._by_words: dict[tuple[str, str | None], list[CompiledRule]] = {}
        self._by_program: dict[str, list[CompiledRule]] = {}

    def add(self, rule: CompiledRule) -> None:
        """File one rule; rules come in document order."""
        self.rules.append(rule)
        if rule.command is None:
            self.plain.append(rule)
            return
        self.on_commands.append(rule)
        for key in rule.command.filed_under():
            self._by_words.setdefault(key, []).append(rule)
        for program in rule.command.programs:
            self._by_program.setdefault(program, []).append(rule)

    def holding(self, request: AuthorityRequest) -> list[CompiledRule]:
        """Return the rules without a command part that hold."""
        return [rule for rule in self.plain if rule.holds(request)]

    def meeting(self, command: SimpleCommand, request: AuthorityRequest) -> Sequence[CompiledRule]:
        """Return the command rules that hold and whose words one command could start with."""
        candidates = self._candidates(command)
        return candidates and [
            rule
            for rule in candidates
            if rule.command and rule.command.matches(command) and rule.holds(request)
        ]

    def _candidates(self, command: SimpleCommand) -> Sequence[CompiledRule]:
        program = command.program
        if program is None:
            return self.on_commands
        if program not in self._by_program:
            return ()
        if len(command.words) < 2:
            return self._by_words.get((program, None), ())
        second = command.words[1]
        if second is None:
            return self._by_program[program]
        narrow = self._by_words.get((program, second), ())
        wide = self._by_words.get((program, None), ())
        return [*wide, *narrow] if wide and narrow else wide or narrow


class Slice(NamedTuple):
    """All rules that speak about one capability."""

    deny: Bucket
    ask: Bucket
    allow: Bucket

    def on_commands(self) -> Iterator[CompiledRule]:
        """Yield the rules with a command part, whatever they say."""
        for bucket in self:
            yield from bucket.on_commands


class Match(NamedTuple):
    """The rules of one bucket that match. `deeper` only do so by what a plain reading misses."""

    rules: list[CompiledRule]
    deeper: list[CompiledRule]


class CompiledPolicy:
    """A policy ready to decide; holds no state between requests."""

    def __init__(self, document: PolicyDocument) -> None:
        self.document = document
        self.mode = document.mode
        self._rules = [compile_rule(rule, effect, at) for effect, at, rule in document.each_rule()]
        self._exhausted = document.budget is not None and document.budget.exhausted
        self._slices = {name: self._slice(name) for name in CAPABILITIES}

    def evaluate(self, request: AuthorityRequest) -> PolicyDecision:
        """Return the decision on a request; an error inside is a deny, never an allow."""
        try:
            return self._decide(request)
        except Exception as error:
            logger.exception("policy %r could not be evaluated", self.document.name)
            return Deny(
                reason_code=ReasonCode.POLICY_ERROR,
                reason=f"The policy could not be evaluated ({type(error).__name__}), so nothing is allowed.",
            )

    def rules_for(self, capability: str) -> Slice:
        """Return the rules that speak about a capability, known to the catalogue or not."""
        return self._slices.get(capability) or self._slice(capability)

    def _slice(self, capability: str) -> Slice:
        buckets = Slice(Bucket(), Bucket(), Bucket())
        for rule in self._rules:
            if rule.covers(capability):
                getattr(buckets, rule.effect).add(rule)
        return buckets

    def _decide(self, request: AuthorityRequest) -> PolicyDecision:
        if self._exhausted:
            return Deny(
                reason_code=ReasonCode.BUDGET_EXCEEDED,
                reason="The budget of this policy is used up.",
            )
        rules = self.rules_for(request.capability)
        # Where no rule speaks of commands the decision is the same whatever the line says.
        line = None
        if request.command is not None and any(rules.on_commands()):
            line = read_command(request.command)
        finish = _Finish(self, rules, request, line)
        denying = _refusing(rules.deny, request, line)
        if denying.rules or denying.deeper:
            return finish.matched(Deny, *denying)
        asking = _refusing(rules.ask, request, line)
        if asking.rules:
            return finish.matched(Ask, *asking)
        decision = self._without_refusal(finish)
        if asking.deeper and decision.effect is not Effect.DENY:
            return finish.matched(Ask, *asking)
        return decision

    def _without_refusal(self, finish: _Finish) -> PolicyDecision:
        """Decide where no deny and no plain ask rule matched."""
        request, line, rules = finish.request, finish.line, finish.rules
        proving = _covering(rules.allow, request, line) if line else []
        if (
            line is not None
            and line.opaque
            and not proving
            and _meets_command_rules(rules, request)
        ):
            return finish.opaque(line.opaque_reasons)
        allowing = rules.allow.holding(request) + proving
        return finish.matched(Allow, allowing) if allowing else finish.unmatched()


def _refusing(bucket: Bucket, request: AuthorityRequest, line: CommandLine | None) -> Match:
    """Return the deny or ask rules that match a request."""
    rules = bucket.holding(request)
    if line is None or not bucket.on_commands:
        return Match(rules, [])
    plainly: dict[int, CompiledRule] = {}
    deeper: dict[int, CompiledRule] = {}
    for command in line.commands:
        if met := bucket.meeting(command, request):
            seen = deeper if line.opaque or command.reached else plainly
            seen.update((rule.order, rule) for rule in met)
    only_deeper = [rule for order, rule in deeper.items() if order not in plainly]
    return Match(_in_order([*rules, *plainly.values()]), _in_order(only_deeper))


def _covering(bucket: Bucket, request: AuthorityRequest, line: CommandLine) -> list[CompiledRule]:
    """Return the command-allow rules if together they cover every command of the line."""
    if not line.provable:
        return []
    used: dict[int, CompiledRule] = {}
    for command in line.commands:
        covering = [
            rule
            for rule in bucket.meeting(command, request)
            if rule.command and rule.command.covers(command)
        ]
        if not covering:
            return []
        used.update((rule.order, rule) for rule in covering)
    return _in_order(list(used.values()))


def _meets_command_rules(rules: Slice, request: AuthorityRequest) -> bool:
    return any(rule.holds(request) for rule in rules.on_commands())


def _in_order(rules: list[CompiledRule]) -> list[CompiledRule]:
    return sorted(rules, key=lambda rule: rule.order) if len(rules) > 1 else rules


def _merged(rules: Sequence[CompiledRule]) -> Constraints:
    if len(rules) == 1:
        return rules[0].constraints
    return reduce(Constraints.merged, (rule.constraints for rule in rules), NO_CONSTRAINTS)


class _Finish(NamedTuple):
    """Puts decisions together, each able to explain itself."""

    policy: CompiledPolicy
    rules: Slice
    request: AuthorityRequest
    line: CommandLine | None

    def matched(
        self,
        kind: type[PolicyDecision],
        rules: Sequence[CompiledRule],
        deeper: Sequence[CompiledRule] = (),
    ) -> PolicyDecision:
        """Return the decision of these rules; the deeper ones decide only where no other does.

        Beside others they still add their constraints: what they ask of approvers stays asked.
        """
        named = rules or deeper
        reason = next((rule.reason for rule in named if rule.reason), None)
        return kind(
            reason_code=ReasonCode(f"matched_{kind.effect}"),
            reason=reason or f"Matched {kind.effect} policy rule.",
            matched_rules=tuple(rule.rule_id for rule in named),
            constraints=_merged([*rules, *deeper]),
            explain=partial(explain, self.rules, self.request, kind.effect, tuple(named)),
        )

    def opaque(self, reasons: Sequence[str]) -> PolicyDecision:
        kind = Deny if self.policy.mode == "strict" else Ask
        why = f"Part of this command could not be read ({', '.join(reasons)}), and this policy has rules about commands."
        return kind(
            reason_code=ReasonCode.COMMAND_OPAQUE,
            reason=why,
            explain=partial(explain, self.rules, self.request, kind.effect, (), why),
        )

    def unmatched(self) -> PolicyDecision:
        kind, text = _MODE_DEFAULTS[self.policy.mode]
        why = text.format(capability=self.request.capability)
        return kind(
            reason_code=ReasonCode.UNKNOWN_CAPABILITY,
            reason=why,
            explain=partial(explain, self.rules, self.request, kind.effect, (), why),
        )


_MODE_DEFAULTS: dict[str, tuple[type[PolicyDecision], str]] = {
    "permissive": (
        Allow,
        "Allowed by permissive policy: no rule matches this {capability} request.",
    ),
    "interactive": (Ask, "No rule matches this {capability} request, so a person decides."),
    "strict": (Deny, "Denied by strict policy: no rule matches this {capability} request."),
}


def compile_policy(document: PolicyDocument) -> CompiledPolicy:
    """Return the document compiled; do this once per version and keep the result."""
    return CompiledPolicy(document)
