"""What a policy must mean to be accepted: rules that can match, ids that are unique, examples that hold."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from typing import TYPE_CHECKING

from approvals.policy.capabilities import (
    CAPABILITIES,
    PROCESS_EXEC,
    RISK_LEVELS,
    SURFACES,
    is_reserved,
    matching_capabilities,
)
from approvals.policy.commands.parse import read_script
from approvals.policy.decision import AuthorityRequest, Effect
from approvals.policy.globs import MAX_PATTERN_LENGTH, has_glob
from approvals.policy.matching import compile_rule
from approvals.policy.shape import MAX_PROBLEMS, nearest
from approvals.policy.source import Path, Source, dotted
from omniweb.core.errors import InvalidInput, Problem

if TYPE_CHECKING:
    from approvals.policy.document import Examples, PolicyDocument, Rule

MAX_RULES = 5_000
MAX_EXAMPLES = 50
MAX_TESTS = 500
# Characters of commands; reading them takes a second or two.
MAX_TESTED_TEXT = 100_000

type Found = tuple[Path, str, str]


def document_problems(document: PolicyDocument, source: Source) -> list[Problem]:
    """Return what is wrong with a well-formed document, in document order."""
    problems = []
    for path, message, suggestion in _document(document):
        line, column = source.position(path)
        problems.append(
            Problem(
                message=message, path=dotted(path), line=line, column=column, suggestion=suggestion
            )
        )
        if len(problems) == MAX_PROBLEMS:
            break
    return sorted(problems, key=lambda item: item.line or 0)


def _document(document: PolicyDocument) -> Iterator[Found]:
    rules = list(document.each_rule())
    if len(rules) > MAX_RULES:
        message = f"the policy has {len(rules)} rules; at most {MAX_RULES} are read"
        yield ("rules",), message, "split it into several policies"
        return
    seen: dict[str, Path] = {}
    for effect, at, rule in rules:
        path: Path = ("rules", str(effect), at)
        if rule.rule_id in seen:
            first = dotted(seen[rule.rule_id])
            message = f"Duplicate policy rule_id: {rule.rule_id}"
            yield (*path, "rule_id"), message, f"the first one is {first}"
        seen.setdefault(rule.rule_id, path)
        yield from _rule(rule, effect, path)
    if len(document.tests) > MAX_TESTS:
        yield ("tests",), f"at most {MAX_TESTS} kept tests are run", "keep the telling ones"
        return
    size = sum(len(str(test.request.get("command", ""))) for test in document.tests)
    if size > MAX_TESTED_TEXT:
        message = f"the commands of the kept tests have {size} characters"
        yield ("tests",), message, f"at most {MAX_TESTED_TEXT} are read; shorten them"
        return
    for at, test in enumerate(document.tests):
        yield from _kept_test(dict(test.request), ("tests", at, "request"))
    try:
        document.digest  # noqa: B018 - computing it is the check
    except ValueError as error:
        yield (), f"the policy holds a value that has no canonical form: {error}", ""


def _kept_test(request: dict[str, object], path: Path) -> Iterator[Found]:
    try:
        AuthorityRequest.from_dict(request)
    except InvalidInput as error:
        for problem in error.problems:
            yield (*path, *problem.path.split(".")), problem.message, problem.suggestion


def _rule(rule: Rule, effect: Effect, path: Path) -> Iterator[Found]:
    if rule.effect not in (None, str(effect)):
        message = (
            f"Rule '{rule.rule_id}' declares effect '{rule.effect}' but is stored in the "
            f"{effect} bucket"
        )
        yield (*path, "effect"), message, f"move it to rules.{rule.effect}, or remove its effect"
    yield from _capability(rule, path)
    yield from _conditions(rule, path)
    yield from _patterns(rule, path)
    usable = yield from _command(rule, path)
    if usable and rule.examples:
        yield from _examples(rule, rule.examples, effect, path)


def _capability(rule: Rule, path: Path) -> Iterator[Found]:
    pattern = rule.capability
    if is_reserved(pattern) or matching_capabilities(pattern):
        return
    start = f"rule {rule.rule_id}: "
    if has_glob(pattern):
        message = f"{start}capability pattern '{pattern}' matches no capability"
    else:
        message = (
            f"{start}unknown capability '{pattern}'; "
            "the capabilities are listed in the policy reference"
        )
    yield (*path, "capability"), message, nearest(pattern, CAPABILITIES)


def _conditions(rule: Rule, path: Path) -> Iterator[Found]:
    given = rule.conditions
    if given is None:
        return
    start, path = f"rule {rule.rule_id}: ", (*path, "conditions")
    for at, level in enumerate(given.risk_level):
        if level not in RISK_LEVELS:
            message = f"{start}risk_level must be one of: {', '.join(sorted(RISK_LEVELS))}"
            yield (*path, "risk_level", at), message, nearest(level, RISK_LEVELS)
    surfaces = [((*path, "exclude_execution_surface", at), name)
                for at, name in enumerate(given.exclude_execution_surface)]  # fmt: skip
    if given.execution_surface is not None:
        surfaces.append(((*path, "execution_surface"), given.execution_surface))
    for where, name in surfaces:
        if name not in SURFACES:
            message = f"{start}unknown execution surface '{name}'; one of: {', '.join(SURFACES)}"
            yield where, message, nearest(name, SURFACES)
    for at, pattern in enumerate(given.exclude_capability):
        if not is_reserved(pattern) and not matching_capabilities(pattern):
            what = "matches no capability" if has_glob(pattern) else "unknown capability"
            message = f"{start}exclude_capability '{pattern}'"
            message += f" {what}" if has_glob(pattern) else f": {what}"
            where = (*path, "exclude_capability", at)
            yield where, message, nearest(pattern, CAPABILITIES)


def _patterns(rule: Rule, path: Path) -> Iterator[Found]:
    parts = rule.target.model_dump(exclude_none=True) if rule.target else {}
    globs: dict[Path, str] = {("target", name): pattern for name, pattern in parts.items()}
    globs[("capability",)] = rule.capability
    if rule.conditions and rule.conditions.host:
        globs[("conditions", "host")] = rule.conditions.host
    for where, pattern in globs.items():
        if len(pattern) > MAX_PATTERN_LENGTH:
            message = f"rule {rule.rule_id}: a pattern has at most {MAX_PATTERN_LENGTH} characters"
            yield (*path, *where), message, ""


def _command(rule: Rule, path: Path) -> Generator[Found, None, bool]:
    """Yield what is wrong with a command part; return whether its examples can be tried."""
    start = f"rule {rule.rule_id}: "
    if rule.command is None:
        if rule.examples:
            yield (*path, "examples"), f"{start}examples belong to a rule with a command", ""
        return False
    covered = matching_capabilities(rule.capability)
    if PROCESS_EXEC not in covered and (covered or is_reserved(rule.capability)):
        message = f"{start}a command matcher applies only to process.exec, not {rule.capability}"
        yield (*path, "command"), message, "set capability to process.exec"
    words = rule.command.words
    if bool(rule.command.prefix) == bool(rule.command.program) or not all(words):
        message = f"{start}command needs a prefix, or a program as shorthand for one"
        yield (*path, "command"), message, "give exactly one of the two, with at least one word"
        return False
    for word in (word for alternatives in words for word in alternatives):
        if has_glob(word) or not word:
            message = (
                f"{start}command.prefix word '{word}': words are literal; list alternatives instead"
            )
            yield (*path, "command"), message, 'for example ["git", ["push", "reset"]]'
            return False
    return True


def _examples(rule: Rule, given: Examples, effect: Effect, path: Path) -> Iterator[Found]:
    compiled = compile_rule(rule, effect, 0)
    for name, wanted in (("match", True), ("not_match", False)):
        examples = getattr(given, name)
        if len(examples) > MAX_EXAMPLES:
            message = f"rule {rule.rule_id}: at most {MAX_EXAMPLES} examples are tried"
            yield (*path, "examples", name), message, "keep the telling ones"
            continue
        for at, example in enumerate(examples):
            if compiled.meets_command(read_script(example)) is wanted:
                continue
            message = (
                f"rule {rule.rule_id} does not match its example '{example}'"
                if wanted
                else f"rule {rule.rule_id} matches '{example}', listed as not_match"
            )
            yield (*path, "examples", name, at), message, ""
