"""Whether one rule lies within another: whatever meets the inner one meets the outer one, too.

The answer is a proof or nothing: False only says that none was found.
"""

from __future__ import annotations

import re

from approvals.policy.decision import Effect
from approvals.policy.document import CommandMatcher, Conditions, Rule, TargetMatcher
from approvals.policy.globs import compile_glob, has_glob

_SPECIAL = re.compile(r"[*?\[]")
_NO_CONDITIONS = Conditions()
_NO_TARGET = TargetMatcher()


def glob_within(inner: str, outer: str) -> bool:
    """Tell whether every text a glob matches is provably matched by another."""
    if inner == outer:
        return True
    if not has_glob(inner):
        return compile_glob(outer)(inner)
    head, star, rest = outer.partition("*")
    is_prefix = bool(star) and not rest.strip("*") and not has_glob(head)
    return is_prefix and _SPECIAL.split(inner, maxsplit=1)[0].startswith(head)


def rule_within(inner: Rule, effect: Effect, outer: Rule) -> bool:
    """Tell whether a refusing rule provably meets every request the inner rule meets.

    `effect` is the inner rule's bucket; the outer one stands in deny or ask.
    """
    return (
        glob_within(inner.capability, outer.capability)
        and _command_within(inner.command, outer.command)
        and _conditions_within(inner, effect, outer.conditions or _NO_CONDITIONS)
        and _target_within(inner, outer.target or _NO_TARGET)
    )


def _command_within(inner: CommandMatcher | None, outer: CommandMatcher | None) -> bool:
    if outer is None:
        return True
    if inner is None or len(outer.words) > len(inner.words):
        return False
    first = {_program(word) for word in outer.words[0]}
    if not first.issuperset(map(_program, inner.words[0])):
        return False
    rest = zip(inner.words[1:], outer.words[1:], strict=False)
    return all(set(ours) <= set(theirs) for ours, theirs in rest)


def _program(word: str) -> str:
    return word.rpartition("/")[2]


def _conditions_within(inner: Rule, effect: Effect, outer: Conditions) -> bool:
    given = inner.conditions or _NO_CONDITIONS
    return (
        _risk_within(given, outer)
        and _data_within(given, effect, outer)
        and _surface_within(given, outer)
        and all(_excluded(inner, pattern) for pattern in outer.exclude_capability)
        and outer.provider in (None, given.provider)
        and outer.mcp_server in (None, given.mcp_server)
        and (outer.method is None or _method_within(given, outer.method))
        and (outer.host is None or _host_within(inner, outer.host))
    )


def _risk_within(inner: Conditions, outer: Conditions) -> bool:
    if not outer.risk_level:
        return True
    return bool(inner.risk_level) and set(inner.risk_level) <= set(outer.risk_level)


def _data_within(inner: Conditions, effect: Effect, outer: Conditions) -> bool:
    if not outer.data_classes:
        return True
    # An allow also meets requests without any class, which a refusal never does.
    if effect is Effect.ALLOW or not inner.data_classes:
        return False
    return set(inner.data_classes) <= set(outer.data_classes)


def _surface_within(inner: Conditions, outer: Conditions) -> bool:
    if outer.execution_surface not in (None, inner.execution_surface):
        return False
    excluded = set(outer.exclude_execution_surface)
    if inner.execution_surface is not None:
        return inner.execution_surface not in excluded
    return excluded <= set(inner.exclude_execution_surface)


def _method_within(inner: Conditions, outer: str) -> bool:
    return inner.method is not None and inner.method.casefold() == outer.casefold()


def _excluded(inner: Rule, pattern: str) -> bool:
    """Tell whether a rule provably meets no capability of a pattern."""
    if not has_glob(pattern) and not compile_glob(inner.capability)(pattern):
        return True
    if not has_glob(inner.capability) and not compile_glob(pattern)(inner.capability):
        return True
    given = inner.conditions or _NO_CONDITIONS
    return any(glob_within(pattern, ours) for ours in given.exclude_capability)


def _host_within(inner: Rule, outer: str) -> bool:
    ours = ((inner.conditions or _NO_CONDITIONS).host, (inner.target or _NO_TARGET).host)
    return any(host is not None and glob_within(host, outer) for host in ours)


def _target_within(inner: Rule, outer: TargetMatcher) -> bool:
    given = inner.target or _NO_TARGET
    for name in ("path", "resource", "tool_name"):
        theirs, ours = getattr(outer, name), getattr(given, name)
        if theirs is not None and (ours is None or not glob_within(ours, theirs)):
            return False
    if outer.host is not None and not _host_within(inner, outer.host):
        return False
    return outer.mcp_server is None or _server_within(inner, outer.mcp_server)


def _server_within(inner: Rule, outer: str) -> bool:
    ours = (inner.target or _NO_TARGET).mcp_server
    if ours is not None and glob_within(ours, outer):
        return True
    named = (inner.conditions or _NO_CONDITIONS).mcp_server
    # A request that names no server is compared by its target's instead.
    return named is not None and named != "" and compile_glob(outer)(named)
