"""What is allowed in a policy but hardly meant: rules that never decide, or that decide too much.

Conservative: what is said of a rule is proven, and what cannot be proven is not said.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from approvals.policy.capabilities import (
    CAPABILITIES,
    CARRIED,
    PROCESS_EXEC,
    RAISED,
    is_reserved,
    matching_capabilities,
)
from approvals.policy.decision import Effect
from approvals.policy.document import PolicyDocument, Rule
from approvals.policy.globs import compile_glob, has_glob
from approvals.policy.source import Path, Source, dotted
from approvals.policy.within import glob_within, rule_within

# Rules are compared in pairs; beyond this many the rest stays uncompared.
MAX_PAIRS = 200_000
NO_SOURCE = Source(None)

type Placed = tuple[Effect, Path, Rule]
type Said = tuple[Path, Kind, str, str]


class Kind(StrEnum):
    """What a finding is about; permanent, clients match on them."""

    CONTRADICTING = "contradicting"
    SHADOWED = "shadowed"
    DEAD = "dead"
    SURFACE_NEVER_OCCURS = "surface_never_occurs"
    TOO_BROAD = "too_broad"
    ALLOWS_AT_EXPIRY = "allows_at_expiry"
    NEVER_RAISED = "never_raised"
    NEVER_CARRIED = "never_carried"
    MISSING_REASON = "missing_reason"

    @property
    def is_note(self) -> bool:
        """Whether it is worth knowing rather than worth changing."""
        return self in (Kind.NEVER_RAISED, Kind.NEVER_CARRIED, Kind.MISSING_REASON)

    @property
    def words(self) -> str:
        """What it is called on a page."""
        return self.value.replace("_", " ")


@dataclass(frozen=True, kw_only=True)
class Finding:
    """One thing to look at again: which rule, what about it, and what could be done."""

    rule_id: str
    kind: Kind
    message: str
    suggestion: str
    path: str
    line: int | None = None
    column: int | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return the finding as JSON."""
        return {
            "rule_id": self.rule_id,
            "kind": self.kind,
            "level": "note" if self.kind.is_note else "warning",
            "message": self.message,
            "suggestion": self.suggestion,
            "path": self.path,
            "line": self.line,
            "column": self.column,
        }


def lint_document(document: PolicyDocument, source: Source = NO_SOURCE) -> tuple[Finding, ...]:
    """Return what to look at again in a valid document, by line, warnings before notes."""
    rules: list[Placed] = [
        (effect, ("rules", effect.value, at), rule) for effect, at, rule in document.each_rule()
    ]
    findings = []
    for (_, start, rule), (path, kind, message, suggestion) in _all(rules):
        line, column = source.position((*start, *path))
        findings.append(
            Finding(
                rule_id=rule.rule_id,
                kind=kind,
                message=message,
                suggestion=suggestion,
                path=dotted((*start, *path)),
                line=line,
                column=column,
            )
        )
    return tuple(sorted(findings, key=lambda item: (item.kind.is_note, item.line or 0)))


def _all(rules: list[Placed]) -> Iterator[tuple[Placed, Said]]:
    never = dict(_never_deciding(rules))
    refused = _refused(rules)
    for at, placed in enumerate(rules):
        effect, _, rule = placed
        # Of a rule that never decides, only that is said.
        useless = next(_dead(effect, rule), None) or next(_surfaces(rule), None) or never.get(at)
        if useless:
            yield placed, useless
            continue
        said = (
            [*_raised(rule)]
            or [*_carried(effect, rule)]
            or [*_broad(effect, rule, refused), *_reason(effect, rule)]
        )
        for one in said:
            yield placed, one


def _refused(rules: list[Placed]) -> frozenset[str]:
    """Return the capabilities that are denied or asked about whatever else a request holds."""
    patterns = [
        rule.capability
        for effect, _, rule in rules
        if effect is not Effect.ALLOW and not (rule.target or rule.conditions or rule.command)
    ]
    return frozenset(name for pattern in patterns for name in matching_capabilities(pattern))


def _never_deciding(rules: list[Placed]) -> Iterator[tuple[int, Said]]:
    """Yield which rules always lose to a stricter one, by their place in the list."""
    outers = _Outers()
    twins: dict[str, tuple[Effect, str]] = {}
    for at, (effect, _, rule) in enumerate(rules):
        meets = _meets(rule)
        if twins.get(meets, (effect, ""))[0] is not effect:
            other, rule_id = twins[meets]
            message = f"{other} rule {rule_id} says the opposite of exactly the same"
            yield at, ((), Kind.CONTRADICTING, message, "keep the one you mean")
        elif (found := outers.around(effect, rule)) is not None:
            other, rule_id = found
            message = f"never decides: {other} rule {rule_id} matches whatever this one matches"
            hint = f"narrow {rule_id}, for example by its conditions, or remove this rule"
            yield at, ((), Kind.SHADOWED, message, hint)
        # Allows compare data classes otherwise, so there the same text is not the same.
        if not (rule.conditions and rule.conditions.data_classes):
            twins.setdefault(meets, (effect, rule.rule_id))
        outers.add(effect, rule)


def _meets(rule: Rule) -> str:
    """Return what a rule matches, as text that is equal where two rules match the same."""
    parts = (rule.target, rule.conditions, rule.command)
    said = [part.model_dump_json(exclude_defaults=True) if part else "{}" for part in parts]
    return "\n".join([rule.capability, *said])


class _Outers:
    """The rules met so far, strictest first, found by whom they could contain."""

    def __init__(self) -> None:
        self._plain: list[tuple[Effect, Rule]] = []
        self._by_program: dict[str, list[tuple[Effect, Rule]]] = {}
        self._left = MAX_PAIRS

    def add(self, effect: Effect, rule: Rule) -> None:
        """Remember a rule; an allow contains nothing that could lose to it."""
        if effect is Effect.ALLOW:
            return
        if rule.command is None:
            self._plain.append((effect, rule))
            return
        for word in rule.command.words[0]:
            self._by_program.setdefault(_program(word), []).append((effect, rule))

    def around(self, effect: Effect, rule: Rule) -> tuple[Effect, str] | None:
        """Return a stricter rule that a rule lies within."""
        candidates = list(self._plain)
        if rule.command is not None:
            candidates += self._by_program.get(_program(rule.command.words[0][0]), [])
        for other, outer in candidates:
            self._left -= 1
            if self._left < 0:
                return None
            if other is not effect and rule_within(rule, effect, outer):
                return other, outer.rule_id
        return None


def _program(word: str) -> str:
    return word.rpartition("/")[2]


def _dead(effect: Effect, rule: Rule) -> Iterator[Said]:
    """Yield what keeps a rule from ever matching."""
    given, target = rule.conditions, rule.target
    if given is not None:
        if given.execution_surface and given.execution_surface in given.exclude_execution_surface:
            surface = given.execution_surface
            yield _never("conditions", f"it wants surface {surface} and excludes it")
        for pattern in given.exclude_capability:
            if glob_within(rule.capability, pattern):
                yield _never("conditions", f"it excludes its own capability by '{pattern}'")
        if target is not None and _apart(given.host, target.host):
            yield _never("target", f"no host is both '{given.host}' and '{target.host}'")
        if given.mcp_server and target is not None and _apart(given.mcp_server, target.mcp_server):
            yield _never("target", f"server {given.mcp_server} is not '{target.mcp_server}'")
    programs = rule.command.words[0] if rule.command and effect is Effect.ALLOW else ()
    if programs and all("/" in word for word in programs):
        why = "an allow covers only programs that are named without a folder"
        yield ("command",), Kind.DEAD, f"can match nothing: {why}", "leave the folder out"


def _never(part: str, why: str) -> Said:
    return (part,), Kind.DEAD, f"can match nothing: {why}", "remove one of the two, or the rule"


def _apart(one: str | None, other: str | None) -> bool:
    """Tell whether no text meets both patterns; two true globs are never told apart."""
    if one is None or other is None or (has_glob(one) and has_glob(other)):
        return False
    plain, pattern = (other, one) if has_glob(one) else (one, other)
    return not compile_glob(pattern)(plain)


def _surfaces(rule: Rule) -> Iterator[Said]:
    raised = [name for name in matching_capabilities(rule.capability) if name in RAISED]
    surface = rule.conditions.execution_surface if rule.conditions else None
    occurring = sorted({found for name in raised for found in RAISED[name]})
    if surface is not None and raised and surface not in occurring:
        message = f"no request for {rule.capability} here is on surface {surface}"
        hint = f"the surfaces that occur are: {', '.join(occurring)}"
        yield ("conditions", "execution_surface"), Kind.SURFACE_NEVER_OCCURS, message, hint


def _broad(effect: Effect, rule: Rule, refused: frozenset[str]) -> Iterator[Said]:
    terms = rule.constraints.approvals
    if effect is Effect.ASK and terms is not None and terms.at_expiry == "allow":
        message = "what nobody decides in time is allowed"
        path: Path = ("constraints", "approvals")
        yield path, Kind.ALLOWS_AT_EXPIRY, message, "leave at_expiry out: then it is denied"
    if effect is not Effect.ALLOW or rule.command is not None or rule.target is not None:
        return
    given = rule.conditions
    covered = matching_capabilities(rule.capability)
    if has_glob(rule.capability) and (given is None or not given.model_fields_set):
        raised = [name for name in covered if name in RAISED and name not in refused]
        risky = [name for name in raised if CAPABILITIES[name].risk in ("high", "critical")]
        if risky:
            message = f"allows {len(covered)} capabilities at once, among them {', '.join(risky)}"
            yield ("capability",), Kind.TOO_BROAD, message, "name those it is meant for"
    elif PROCESS_EXEC in covered:
        where = "in the sandbox" if given and given.execution_surface == "sandbox" else "anywhere"
        message = f"allows every command, {where}"
        yield (), Kind.TOO_BROAD, message, "add command with the programs it is meant for"


def _raised(rule: Rule) -> Iterator[Said]:
    covered = matching_capabilities(rule.capability)
    if is_reserved(rule.capability) or not any(name in RAISED for name in covered):
        message = f"no agent here can ask for {rule.capability}, so this rule waits"
        hint = "remove it unless the document is also used elsewhere"
        yield ("capability",), Kind.NEVER_RAISED, message, hint


def _carried(effect: Effect, rule: Rule) -> Iterator[Said]:
    """Yield the parts a rule wants that no request it covers here comes with."""
    covered = [name for name in matching_capabilities(rule.capability) if name in RAISED]
    carried = frozenset[str]().union(*(CARRIED[name] for name in covered))
    for path, name in _wanted(effect, rule):
        if name not in carried:
            word = name.replace("_", " ")
            message = f"no request for {rule.capability} here says a {word}, so this rule waits"
            hint = f"it says: {', '.join(sorted(carried))}" if carried else ""
            yield path, Kind.NEVER_CARRIED, message, hint


def _wanted(effect: Effect, rule: Rule) -> Iterator[tuple[Path, str]]:
    """Yield the parts a request must come with for a rule to match, each with its place."""
    target = rule.target.model_dump(exclude_none=True) if rule.target else {}
    for name, pattern in target.items():
        # What is missing counts as empty, which some patterns match.
        if not compile_glob(pattern)(""):
            yield ("target", name), name
    given = rule.conditions
    if given is None:
        return
    if given.data_classes and effect is not Effect.ALLOW:
        yield ("conditions", "data_classes"), "data_class"
    for name in ("method", "mcp_server"):
        if getattr(given, name):
            yield ("conditions", name), name
    if given.host is not None and not compile_glob(given.host)(""):
        yield ("conditions", "host"), "host"


def _reason(effect: Effect, rule: Rule) -> Iterator[Said]:
    if effect is not Effect.ALLOW and not rule.reason:
        who = "whoever is denied" if effect is Effect.DENY else "whoever decides"
        message = f"gives no reason to {who}"
        yield (), Kind.MISSING_REASON, message, "add reason, one sentence"
