"""Whether one rule meets one request, test by test, so that a miss can name what kept it.

The comparisons are held to recorded decisions in tests/policy/vectors.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from posixpath import normpath
from typing import TYPE_CHECKING, Any

from approvals.policy.commands.line import Kind
from approvals.policy.decision import (
    ApprovalTerms,
    AuthorityRequest,
    Constraints,
    Effect,
)
from approvals.policy.globs import Matcher, compile_glob

if TYPE_CHECKING:
    from approvals.policy.commands.line import CommandLine, Risk, SimpleCommand
    from approvals.policy.document import CommandMatcher, Conditions, ConstraintsRule, Rule

type Holds = Callable[[AuthorityRequest], bool]


@dataclass(frozen=True, slots=True)
class Test:
    """One thing a rule wants of a request: `holds` decides, `wants` says it in words."""

    wants: str
    holds: Holds


@dataclass(frozen=True, slots=True)
class CommandTest:
    """The first words a command must have, as sets of alternatives per word.

    `writes` are the files its output may go to and `env` the variables that may be set for it;
    both only count for an allow, which must cover everything a command comes with.
    """

    words: tuple[frozenset[str], ...]
    programs: frozenset[str]
    writes: tuple[Matcher, ...] = ()
    env: tuple[Matcher, ...] = ()

    def filed_under(self) -> Iterator[tuple[str, str | None]]:
        """Yield what to file this under: each program with each second word, None for any."""
        seconds = self.words[1] if len(self.words) > 1 else (None,)
        for program in self.programs:
            for second in seconds:
                yield program, second

    def matches(self, command: SimpleCommand) -> bool:
        """Tell whether a command could start with these words, its program in any folder.

        A word nobody knows could be this one, or several, or none: from there on all is open.
        """
        program = command.program
        if program is None:
            return True
        if program not in self.programs:
            return False
        rest = command.words[1:]
        for at, allowed in enumerate(self.words[1:]):
            if at >= len(rest):
                return False
            word = rest[at]
            if word is None:
                return True
            if word not in allowed:
                return False
        return True

    def covers(self, command: SimpleCommand) -> bool:
        """Tell whether an allow rule with these words proves a command harmless.

        The words it names must be there as they stand, the program without a folder, and nothing
        may come with them that the rule does not speak of.
        """
        named = command.words[: len(self.words)]
        if not command.bare or None in named or named[0] not in self.words[0]:
            return False
        return (
            self.matches(command)
            and all(risk.at < len(self.words) or self._may_write(risk) for risk in command.risks)
            and all(_meets(target, self.writes) for target in command.writes)
            and all(_meets(name, self.env) for name in command.env)
        )

    def _may_write(self, risk: Risk) -> bool:
        return risk.kind is Kind.WRITE and _meets(risk.target, self.writes)


def _meets(value: str | None, patterns: tuple[Matcher, ...]) -> bool:
    # A file is compared by where it is, so that a pattern for a folder covers nothing above it.
    return value is not None and any(match(normpath(value)) for match in patterns)


@dataclass(frozen=True, slots=True)
class CompiledRule:
    """A rule made ready: `order` is its place in its bucket, `covers` its capability glob."""

    rule_id: str
    effect: Effect
    order: int
    reason: str | None
    capability: str
    covers: Matcher
    tests: tuple[Test, ...]
    command: CommandTest | None
    constraints: Constraints

    def holds(self, request: AuthorityRequest) -> bool:
        """Tell whether everything but the capability and the command meets the request."""
        return all(test.holds(request) for test in self.tests)

    def first_miss(self, request: AuthorityRequest) -> str | None:
        """Return what this rule wants and the request lacks, None when all of it holds."""
        missed = (test.wants for test in self.tests if not test.holds(request))
        return next(missed, None)

    def meets_command(self, line: CommandLine | None) -> bool:
        """Tell whether a command rule meets the line: any command for deny and ask, all for allow."""
        if self.command is None:
            return True
        if line is None:
            return False
        if self.effect is Effect.ALLOW:
            return (
                line.provable
                and bool(line.commands)
                and all(map(self.command.covers, line.commands))
            )
        return any(map(self.command.matches, line.commands))


def compile_rule(rule: Rule, effect: Effect, order: int) -> CompiledRule:
    """Return the rule ready to be matched; `effect` is the bucket it stands in."""
    tests = [*_condition_tests(rule.conditions, effect)] if rule.conditions else []
    if rule.target:
        tests += _target_tests(rule.target.model_dump(exclude_none=True))
    return CompiledRule(
        rule_id=rule.rule_id,
        effect=effect,
        order=order,
        reason=rule.reason or None,
        capability=rule.capability,
        covers=compile_glob(rule.capability),
        tests=tuple(tests),
        command=compile_command(rule.command) if rule.command else None,
        constraints=_constraints(rule.constraints),
    )


def compile_command(matcher: CommandMatcher) -> CommandTest:
    """Return the test of a command matcher's words."""
    words = tuple(frozenset(alternatives) for alternatives in matcher.words)
    return CommandTest(
        words,
        frozenset(word.rpartition("/")[2] for word in words[0]),
        tuple(map(compile_glob, matcher.writes)),
        tuple(map(compile_glob, matcher.env)),
    )


def _constraints(rule: ConstraintsRule) -> Constraints:
    values = dict(rule)
    if rule.approvals:
        values["approvals"] = ApprovalTerms(**dict(rule.approvals))
    return Constraints(**values)


def _condition_tests(given: Conditions, effect: Effect) -> Iterator[Test]:
    if given.risk_level:
        risks = frozenset(given.risk_level)
        yield Test(f"risk_level in {_words(given.risk_level)}", lambda r: r.risk_level in risks)
    if given.data_classes:
        yield _data_class_test(frozenset(given.data_classes), effect)
    if given.provider is not None:
        yield _equals("provider", given.provider)
    if given.execution_surface is not None:
        yield _equals("execution_surface", given.execution_surface)
    if given.exclude_execution_surface:
        surfaces = frozenset(given.exclude_execution_surface)
        wants = f"execution_surface not in {_words(given.exclude_execution_surface)}"
        yield Test(wants, lambda r: r.execution_surface not in surfaces)
    if given.exclude_capability:
        excluded = [compile_glob(pattern) for pattern in given.exclude_capability]
        wants = f"capability not in {_words(given.exclude_capability)}"
        yield Test(wants, lambda r: not any(match(r.capability) for match in excluded))
    if given.mcp_server is not None:
        yield _equals("mcp_server", given.mcp_server)
    if given.method is not None:
        method = given.method.casefold()
        yield Test(f"method {given.method}", lambda r: (r.method or "").casefold() == method)
    if given.host is not None:
        yield _host_test(given.host)


def _words(names: tuple[str, ...]) -> str:
    return ", ".join(names)


def _equals(name: str, wanted: str) -> Test:
    return Test(f"{name} {wanted}", lambda request: getattr(request, name) == wanted)


def _data_class_test(classes: frozenset[str], effect: Effect) -> Test:
    names = _words(tuple(sorted(classes)))
    if effect is Effect.ALLOW:
        # An allow must be true of all the data; a refusal is due as soon as some of it is meant.
        return Test(f"only data classes {names}", lambda r: classes.issuperset(r.data_classes))
    return Test(f"any data class of {names}", lambda r: not classes.isdisjoint(r.data_classes))


def _target_tests(given: dict[str, str]) -> Iterator[Test]:
    for name, pattern in given.items():
        if name == "host":
            yield _host_test(pattern)
        elif name == "mcp_server":
            yield _server_test(pattern)
        else:
            yield _target_part_test(name, pattern)


def _host_test(pattern: str) -> Test:
    match = compile_glob(pattern)

    def holds(request: AuthorityRequest) -> bool:
        return match(request.host or (request.target and request.target.host) or "")

    return Test(f"host {pattern}", holds)


def _server_test(pattern: str) -> Test:
    match = compile_glob(pattern)

    def holds(request: AuthorityRequest) -> bool:
        return match(request.mcp_server or (request.target and request.target.mcp_server) or "")

    return Test(f"mcp_server {pattern}", holds)


def _target_part_test(name: str, pattern: str) -> Test:
    match = compile_glob(pattern)

    def holds(request: AuthorityRequest) -> bool:
        target: Any = request.target
        return target is not None and match(getattr(target, name) or "")

    return Test(f"target {name} {pattern}", holds)
