"""From an argv to the simple commands it runs, read with the bash grammar of tree-sitter.

A line is plain when it is a chain of simple commands of literal words. Whatever else is met
is recorded as an opaque part with its reason and kind, and the commands around and inside it are
still read: deny and ask rules see them all, and an allow must be proven of each. Reading starts
no process, opens no file and never raises.
"""

from __future__ import annotations

from collections.abc import Sequence

from approvals.policy.commands.line import CommandLine
from approvals.policy.commands.reader import MAX_SCRIPT_LENGTH, Reader
from approvals.policy.commands.shells import shell_script
from approvals.policy.commands.source import Place
from approvals.policy.commands.wrappers import SHELLS

__all__ = ["MAX_SCRIPT_LENGTH", "read_command", "read_script", "read_with_grammar"]


def read_command(argv: Sequence[str]) -> CommandLine:
    """Return what an argv runs: the script of `sh -c`, otherwise the argv itself."""
    words = tuple(argv)
    program = words[0].rpartition("/")[2] if words else ""
    script = shell_script(words) if program in SHELLS else None
    if script is not None:
        return read_script(script)
    text = " ".join(words)
    reader = Reader()
    if words:
        reader.add_command(words, Place(text, 0, len(text)))
    else:
        reader.add_opaque("no command", Place("", 0, 0))
    return reader.line(text)


def read_script(text: str) -> CommandLine:
    """Return what a shell script runs."""
    reader = Reader()
    reader.read(text, Place(text, 0, len(text)), shifted=False)
    return reader.line(text)


def read_with_grammar(text: str) -> CommandLine:
    """Return what a script runs without taking the short way for plain chains."""
    reader = Reader()
    reader.read_grammar(text, Place(text, 0, len(text)), shifted=False)
    return reader.line(text)
