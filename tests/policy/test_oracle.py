"""Bash is the judge: nothing runs that the tree does not hold, and what is allowed does no harm."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
from hypothesis import HealthCheck, given, settings

from approvals.policy.commands.line import CommandLine, Kind, SimpleCommand
from approvals.policy.commands.parse import read_command
from approvals.policy.commands.wrappers import SHELLS
from approvals.policy.decision import Effect
from approvals.policy.document import load_document
from approvals.policy.evaluator import compile_policy
from tests.policy.build import policy, rule, shell
from tests.policy.oracle import Run, run_lines
from tests.policy.shell_grammar import lines_of_all_kinds

CORPUS = Path(__file__).with_name("oracle_corpus.txt")
_CODE_POINT = re.compile("⟪([0-9a-f]+)⟫")
_MARKS = str.maketrans("⏎␉␋␍", "\n\t\v\r")

# Whatever these start or write by their options must hold a line back by itself.
PROGRAMS = (
    "ls cat echo printf true false test cd find sort uniq grep head tail wc cut tr seq date awk gawk mawk sed tar "
    "xargs env nice ionice timeout nohup stdbuf setsid time rg man less curl wget ssh rsync dd split xxd zip "
    "python python3 python3.12 node perl ruby php lua vim make npm pytest pip sqlite3 gdb nc ed crontab at watch "
    "parallel flock chroot busybox diff dirname basename expect"
).split()  # fmt: skip
GIT = "log status diff show grep stash ls-remote fetch clone bisect submodule rebase difftool config".split()
GIT_MORE = "format-patch archive filter-branch help".split()
ALLOWED = compile_policy(
    load_document(
        policy(
            allow=[
                rule("programs", command={"program": PROGRAMS}),
                rule("git", command={"prefix": ["git", [*GIT, *GIT_MORE]]}),
            ]
        )
    )
)
# Everything goes but these; what they are hidden in must not make a difference.
REFUSED = frozenset({"rm", "one", "two", "three", "evil"})
REFUSING = compile_policy(
    load_document(
        policy(
            "permissive",
            deny=[rule("refused", command={"program": sorted(REFUSED)})],
            allow=[rule("all")],
        )
    )
)
# Writing is what these are for, so a rule that names them means it.
WRITERS = frozenset({"tee", "tar", "rsync", "wget", "zip", "split", "git", "dd"})


class Sample(NamedTuple):
    """One line of the corpus."""

    line: str
    allowed: bool


def corpus() -> Iterator[Sample]:
    for text in CORPUS.read_text().split("\n"):
        if text.startswith(("+ ", "- ")):
            line = _CODE_POINT.sub(lambda found: chr(int(found[1], 16)), text[2:])
            yield Sample(line.translate(_MARKS), text[0] == "+")


SAMPLES = tuple(corpus())


def is_unknown(line: CommandLine) -> bool:
    """Tell whether reading says that anything might run: also by a script in a file."""
    return _is_code(line) or Kind.CODE in {part.kind for part in line.opaque}


def _is_code(line: CommandLine) -> bool:
    """Tell whether a program is given code in a language of its own, or a script in a file."""
    risks = (risk.kind for command in line.commands for risk in command.risks)
    return Kind.CODE in risks or any(map(_runs_file, line.commands))


def _runs_file(command: SimpleCommand) -> bool:
    name = command.words[0] or ""
    a_file = "/" in name and not name.startswith(("/bin/", "/usr/bin/"))
    return a_file or (command.program in SHELLS and bool({"run.sh", "./run.sh"} & {*command.words}))


def could_be(command: SimpleCommand, started: tuple[str, ...]) -> bool:
    """Tell whether a command of the tree is this one; an unknown word stands for any number."""
    if command.program != started[0] or not command.words:
        return False
    return _fits(command.words[1:], started[1:])


def _given_to_shell(line: CommandLine) -> set[str | None]:
    """Return the texts that programs such as flock have a shell run; its commands are read."""
    return {word for item in line.commands if item.program in _WITH_SHELL for word in item.words}


_WITH_SHELL = frozenset({"flock", "script"})


def _fits(words: tuple[str | None, ...], started: tuple[str, ...]) -> bool:
    if not words:
        return not started
    if words[0] is None:
        return any(_fits(words[1:], started[at:]) for at in range(len(started) + 1))
    return started[:1] == words[:1] and _fits(words[1:], started[1:])


def surprises(line: str, run: Run) -> Iterator[str]:
    """Yield what happened that reading the line did not tell."""
    tree = read_command(["bash", "-c", line])
    if not is_unknown(tree):
        for started in run.started:
            if not any(could_be(command, started) for command in tree.commands):
                if started[:2] == ("sh", "-c") and started[2] in _given_to_shell(tree):
                    continue
                yield f"{line!r} started {started}, which is not in the tree"
    ran = {started[0] for started in run.started}
    if (
        ran & REFUSED
        and not _is_code(tree)
        and REFUSING.evaluate(shell(line)).effect is Effect.ALLOW
    ):
        yield f"{line!r} was let through where {ran & REFUSED} is refused"
    if ALLOWED.evaluate(shell(line)).effect is not Effect.ALLOW:
        return
    if not ran <= {*PROGRAMS, "git"}:
        yield f"{line!r} was allowed and started {ran}"
    if run.changed and not WRITERS & {*tree.programs}:
        yield f"{line!r} was allowed and changed {sorted(run.changed)}"


def test_the_corpus_is_large_enough_to_mean_something() -> None:
    assert len({sample.line for sample in SAMPLES}) >= 400
    assert sum(sample.allowed for sample in SAMPLES) >= 100


def test_nothing_bash_runs_is_missing_from_the_tree(tmp_path: Path) -> None:
    lines = [
        sample.line for sample in SAMPLES if sample.line.isprintable() or "\0" not in sample.line
    ]
    runs = run_lines(lines, tmp_path)
    found = [item for line, run in zip(lines, runs, strict=True) for item in surprises(line, run)]
    assert found == []
    # The sandbox does run things: a judge who sees nothing would find nothing.
    assert sum(bool(run.started) for run in runs) > len(lines) / 2


@pytest.mark.parametrize("sample", SAMPLES, ids=lambda sample: repr(sample.line)[:60])
def test_each_line_is_allowed_or_held_as_the_corpus_says(sample: Sample) -> None:
    decision = ALLOWED.evaluate(shell(sample.line))
    assert (decision.effect is Effect.ALLOW) is sample.allowed, decision.reason


@settings(max_examples=5, deadline=None, suppress_health_check=list(HealthCheck))
@given(lines=lines_of_all_kinds(40))
def test_nothing_is_missing_from_the_tree_of_made_up_lines(
    lines: list[str], tmp_path_factory: pytest.TempPathFactory
) -> None:
    runs = run_lines(lines, tmp_path_factory.mktemp("oracle"))
    found = [item for line, run in zip(lines, runs, strict=True) for item in surprises(line, run)]
    assert found == []
