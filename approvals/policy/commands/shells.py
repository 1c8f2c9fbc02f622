"""Shells: their names, their keywords, and where they take their commands from."""

from __future__ import annotations

from approvals.policy.commands.line import Words
from approvals.policy.commands.wrapper import long_options, skip_options

# Words with a meaning of their own to the shell; the grammar takes some of them for programs.
KEYWORDS = frozenset({
    "time", "coproc", "if", "then", "else", "elif", "fi", "case", "esac", "for", "select", "while",
    "until", "do", "done", "in", "function", "{", "}", "!", "[[", "]]",
})  # fmt: skip


def shell_script(words: Words) -> str | None:
    """Return the text of `sh -c TEXT`, None when a shell is given no literal text that way."""
    if len(words) == 3 and words[1] == "-c":
        return words[2]
    operands = _shell_operands(words)
    return operands[0] if operands and has_command_option(words) else None


def has_command_option(words: Words) -> bool:
    """Tell whether a shell's options include -c, alone or in a cluster such as -lc."""
    return _has_shell_option(words, "c")


def reads_its_input(words: Words) -> bool:
    """Tell whether a shell started so takes its commands from standard input."""
    operands = _shell_operands(words)
    if not operands or _has_shell_option(words, "s"):
        return True
    return operands[0] in ("/dev/stdin", "/dev/fd/0", "/proc/self/fd/0")


def _shell_operands(words: Words) -> Words:
    # A shell also takes options with a plus sign; +o and +O have a value like -o and -O.
    return skip_options(words[1:], "oO", long_options("rcfile", "init-file"), marks="-+")


def _has_shell_option(words: Words, letter: str) -> bool:
    options = words[1 : len(words) - len(_shell_operands(words))]
    return any(word and letter in word and not word.startswith("--") for word in options)
