"""The narrowest allow rules that cover what people have said yes to, again and again.

Commands are covered by as many of their first words as all have in common, word by word, with a
few alternatives where they differ; other requests by exact targets, or a folder they share. What
the rules then cover is asked of the policy itself, never assumed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from os.path import commonpath
from typing import Any

from approvals.policy.commands.line import SimpleCommand
from approvals.policy.commands.parse import read_command
from approvals.policy.decision import AuthorityRequest, Effect, PolicyDecision, Target
from approvals.policy.document import parse_document
from approvals.policy.drafting import with_rule, with_test
from approvals.policy.evaluator import compile_policy
from approvals.policy.simulate import responsible

MAX_ALTERNATIVES = 4
MAX_TESTS = 20
_GLOB = frozenset("*?[")
_TARGET_PARTS = ("path", "host", "resource", "tool_name", "mcp_server")


@dataclass(frozen=True, kw_only=True)
class Covered:
    """Whether a request would be allowed by the draft, and by or despite which rule."""

    request: AuthorityRequest
    effect: Effect
    by: str
    reason: str


@dataclass(frozen=True, kw_only=True)
class Suggestion:
    """A document with new rules and a kept test for each request that they allow."""

    source: str
    rules: list[dict[str, Any]]
    covered: list[Covered]
    # Those that would still not be allowed: another rule is stricter, or no rule can prove them.
    left: list[Covered]


def suggest(
    source: str,
    requests: Sequence[AuthorityRequest],
    *,
    names: Sequence[str],
    review_by: str,
) -> Suggestion:
    """Return a draft that allows these requests and as little else as a rule can say.

    `names` are those of the tests; `review_by` is a date that goes into each rule's metadata,
    since a document has no rules that end by themselves. Raises InvalidInput for a bad document.
    """
    rules, draft = _drafted(source, requests, review_by)
    # A rule for what a stricter one holds anyway would say nothing, but look as if it did.
    helped = [one.request for one in _answers(draft, requests) if one.effect is Effect.ALLOW]
    rules, draft = _drafted(source, helped, review_by)
    answers = _answers(draft, requests)
    for answer, name in list(zip(answers, names, strict=True))[:MAX_TESTS]:
        if answer.effect is Effect.ALLOW:
            kept = answer.request.to_dict()
            kept.pop("metadata", None)
            draft = with_test(draft, name=name, request=kept, expect="allow")
    return Suggestion(
        source=draft,
        rules=rules,
        covered=[answer for answer in answers if answer.effect is Effect.ALLOW],
        left=[answer for answer in answers if answer.effect is not Effect.ALLOW],
    )


def _drafted(
    source: str, requests: Sequence[AuthorityRequest], review_by: str
) -> tuple[list[dict[str, Any]], str]:
    """Return the rules for these requests, and the text with them added."""
    document = parse_document(source)
    taken = {rule.rule_id for _, _, rule in document.each_rule()}
    policy = compile_policy(document)
    asked = [one for one in requests if policy.evaluate(one).effect is not Effect.ALLOW]
    rules = [
        {"rule_id": _free(f"allow_{stem}", taken), **rule, "metadata": {"review_by": review_by}}
        for stem, rule in _rules(asked)
    ]
    for rule in rules:
        source = with_rule(source, effect="allow", rule=rule)
    return rules, source


def _answers(source: str, requests: Sequence[AuthorityRequest]) -> list[Covered]:
    policy = compile_policy(parse_document(source))
    return [_answer(request, policy.evaluate(request)) for request in requests]


def _answer(request: AuthorityRequest, decision: PolicyDecision) -> Covered:
    return Covered(
        request=request,
        effect=decision.effect,
        by=responsible(decision),
        reason=decision.reason,
    )


def _free(wanted: str, taken: set[str]) -> str:
    name, number = wanted, 2
    while name in taken:
        name, number = f"{wanted}_{number}", number + 1
    taken.add(name)
    return name


def _rules(requests: Iterable[AuthorityRequest]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield a rule for each program, or for each capability, and what to call it."""
    groups: dict[tuple[str, str | None], list[AuthorityRequest]] = {}
    for request in requests:
        groups.setdefault((request.capability, request.execution_surface), []).append(request)
    for (capability, surface), same in groups.items():
        conditions = {"conditions": {"execution_surface": surface}} if surface else {}
        commands = [command for one in same if one.command for command in _commands(one.command)]
        for stem, matcher in _by_program(commands):
            yield stem, {"capability": capability, "command": matcher} | conditions
        for target in _targets([one.target for one in same if not one.command]):
            stem = capability.replace(".", "_")
            yield stem, {"capability": capability} | target | conditions


def _commands(argv: tuple[str, ...]) -> tuple[SimpleCommand, ...]:
    """Return the commands of a line, none where a part of it can be proven by no rule."""
    line = read_command(argv)
    return line.commands if line.provable else ()


def _by_program(commands: Iterable[SimpleCommand]) -> Iterator[tuple[str, dict[str, Any]]]:
    programs: dict[str, list[SimpleCommand]] = {}
    for command in commands:
        if command.bare and command.program:
            programs.setdefault(command.program, []).append(command)
    for same in programs.values():
        prefix = _prefix(same)
        if not prefix:
            continue
        matcher: dict[str, Any] = {"prefix": prefix}
        writes = sorted({file for one in same for file in one.writes if file and _plain(file)})
        env = sorted({name for one in same for name in one.env})
        yield (
            _stem(prefix),
            matcher | ({"writes": writes} if writes else {}) | ({"env": env} if env else {}),
        )


def _prefix(commands: Sequence[SimpleCommand]) -> list[str | list[str]]:
    """Return the words all have at their beginning: one, or a few alternatives, at each place."""
    prefix: list[str | list[str]] = []
    for words in zip(*(command.words for command in commands), strict=False):
        found = sorted({word for word in words if word is not None and _plain(word)})
        is_known = all(word is not None and _plain(word) for word in words)
        if not is_known or len(found) > MAX_ALTERNATIVES:
            break
        prefix.append(found[0] if len(found) == 1 else found)
    return prefix


def _stem(prefix: Sequence[str | list[str]]) -> str:
    words = [word for word in prefix[:3] if isinstance(word, str)]
    parts = "".join(char if char.isalnum() else " " for char in " ".join(words)).split()
    return "_".join(parts)[:60] or "commands"


def _plain(word: str) -> bool:
    # Documents are read without blanks around their words.
    is_as_read = bool(word) and word.isprintable() and word == word.strip()
    return is_as_read and not _GLOB.intersection(word)


def _targets(targets: Sequence[Target | None]) -> Iterator[dict[str, Any]]:
    """Yield target parts: each distinct one exactly, or the folder that many share."""
    distinct = {
        tuple(getattr(target, part) for part in _TARGET_PARTS)
        for target in targets
        if target is not None
    }
    if len(distinct) > MAX_ALTERNATIVES and (folder := _folder(distinct)):
        yield {"target": {"path": f"{folder}/*"}}
        return
    for values in sorted(distinct, key=str):
        pairs = zip(_TARGET_PARTS, values, strict=True)
        said = {name: _exactly(value) for name, value in pairs if value}
        # Without anything to hold on to a rule would cover the whole capability.
        if said:
            yield {"target": said}


def _folder(distinct: Iterable[tuple[str | None, ...]]) -> str:
    paths = [values[0] for values in distinct]
    if not all(paths):
        return ""
    try:
        folder = commonpath([path for path in paths if path])
    except ValueError:
        return ""
    return folder if folder.strip("/") else ""


def _exactly(value: str) -> str:
    """Return a glob that only a value itself meets."""
    return "".join(f"[{char}]" if char in _GLOB else char for char in value)
