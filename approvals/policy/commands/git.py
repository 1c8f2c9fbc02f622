"""What a git command runs or writes besides what its subcommand says."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from approvals.policy.commands.line import Kind, Risk, Words
from approvals.policy.commands.options import LOADS, UNKNOWN_WORD, WRITES
from approvals.policy.commands.wrapper import Inner
from approvals.policy.commands.wrappers import joined

# The subcommands git has itself; any other word may be an alias, which can be a program.
_COMMANDS = frozenset(
    """
    add am annotate apply archive bisect blame branch bugreport bundle cat-file check-attr
    check-ignore check-mailmap check-ref-format checkout checkout-index cherry cherry-pick citool
    clean clone column commit commit-graph commit-tree config count-objects credential daemon
    describe diagnose diff diff-files diff-index diff-tree difftool fast-export fast-import fetch
    fetch-pack filter-branch fmt-merge-msg for-each-ref for-each-repo format-patch fsck gc
    get-tar-commit-id grep gui hash-object help hook index-pack init init-db instaweb
    interpret-trailers lfs log ls-files ls-remote ls-tree mailinfo mailsplit maintenance merge
    merge-base merge-file merge-index merge-one-file merge-tree mergetool mktag mktree
    multi-pack-index mv name-rev notes pack-objects pack-redundant pack-refs patch-id prune
    prune-packed pull push range-diff read-tree rebase receive-pack reflog remote repack replace
    request-pull rerere reset restore rev-list rev-parse revert rm send-email send-pack shell
    shortlog show show-branch show-index show-ref sparse-checkout stage stash status stripspace
    submodule switch symbolic-ref tag unpack-file unpack-objects update-index update-ref
    update-server-info upload-archive upload-pack var verify-commit verify-pack verify-tag version
    whatchanged worktree write-tree
""".split()
)

_GLOBAL_VALUED = frozenset({
    "-C", "--git-dir", "--work-tree", "--namespace", "--super-prefix", "--exec-path", "--config-env",
    "--attr-source", "-c",
})  # fmt: skip
_GLOBAL_CODE = frozenset({"-c", "--config-env", "--exec-path"})

_STARTS = "starts the program named in this option"
# Options that start a program, wherever they stand behind the subcommand.
_RUNS = {
    "--upload-pack": None, "--receive-pack": None, "--open-files-in-pager": {"grep"},
    "--extcmd": {"difftool"}, "--exec": None, "--smtp-server": {"send-email"},
    "--sendmail-cmd": {"send-email"}, "--to-cmd": {"send-email"}, "--cc-cmd": {"send-email"},
    "--config": {"clone"}, "--template": {"clone", "init"}, "--tool": {"difftool", "mergetool"},
    "--ext-diff": None, "--web": {"help"}, "--textconv": None, "--show-signature": None, "--filters": {"cat-file"}, "--pager": None, "--editor": None,
    "--tree-filter": None, "--index-filter": None, "--msg-filter": None, "--env-filter": None,
    "--commit-filter": None, "--parent-filter": None, "--tag-name-filter": None, "--setup": None,
}  # fmt: skip
_SHORT_RUNS = {
    "-u": {"clone"}, "-c": {"clone"}, "-O": {"grep"}, "-x": {"difftool", "rebase"},
    "-t": {"difftool", "mergetool"}, "-w": {"help"},
}  # fmt: skip
# Other one-letter options of these that take a value: what follows in the word is no option.
_SHORT_VALUED = {
    "clone": "bjo", "difftool": "GOSUl", "rebase": "CSXs", "grep": "ABCefm",
    "format-patch": "GOSUlnv",
}  # fmt: skip
_WRITES = {"--output": None, "--output-directory": None, "--export-marks": None}
_SHORT_WRITES = {"-o": {"archive", "format-patch"}}

_BY_SETTINGS = frozenset(
    {"--ext-diff", "--textconv", "--show-signature", "--filters", "--web", "-w"}
)

# Subcommands that start whatever they are given, or the settings of the repository.
_STARTERS = frozenset({
    "filter-branch", "for-each-repo", "hook", "shell", "daemon", "instaweb", "credential",
    "upload-pack", "upload-archive", "receive-pack", "merge-index", "gui", "citool",
})  # fmt: skip
_READING_CONFIG = frozenset({
    "-l", "--list", "--get", "--get-all", "--get-regexp", "--get-urlmatch", "list", "get", "-z",
    "--show-origin", "--show-scope", "--name-only", "--global", "--local", "--system", "--worktree",
})  # fmt: skip


def git_effects(words: Words) -> Iterator[Risk | Inner]:
    """Yield what a git command does besides its name, and the command behind global options."""
    at = 1
    while at < len(words):
        word = words[at]
        if word is None:
            yield Risk(at, UNKNOWN_WORD)
            return
        if not word.startswith("-"):
            break
        name, equals, value = word.partition("=")
        if name in _GLOBAL_CODE and (name != "--exec-path" or equals):
            place = at if equals or at + 1 >= len(words) else at + 1
            yield Risk(place, "changes a setting of git, which can start programs")
            yield from _alias(words[place] if not equals else value)
        at += 2 if name in _GLOBAL_VALUED and not equals and name != "--exec-path" else 1
    if at >= len(words):
        return
    if at > 1:
        yield Inner("git", ("git", *words[at:]))
        return
    yield from _subcommand(words)


def _alias(setting: str | None) -> Iterator[Inner]:
    """Yield the program a setting names, so that rules that refuse see it."""
    _, _, value = (setting or "").partition("=")
    if value:
        yield Inner("git -c", script=value.removeprefix("!"))


def _subcommand(words: Words) -> Iterator[Risk | Inner]:
    name = words[1]
    if name is None:
        return
    if name not in _COMMANDS:
        yield Risk(1, "no command of git itself: it may stand for any program")
    elif name in _STARTERS:
        yield Risk(1, "starts programs named in settings or arguments")
    elif name == "config" and (_sets(words) or None in words):
        yield Risk(len(words) - 1, "changes a setting of git, which can start programs")
    elif name == "bisect" and words[2:3] == ("run",):
        yield Risk(2, "starts a program")
        yield Inner("git bisect run", words[3:])
    elif name == "submodule" and "foreach" in words:
        at = words.index("foreach")
        yield Risk(at, "starts a program in each submodule")
        script = joined([word for word in words[at + 1 :] if word != "--recursive"])
        if script:
            yield Inner("git submodule foreach", script=script)
    yield from _options(name, words)


def _sets(words: Words) -> bool:
    operands = [word for word in words[2:] if word and not word.startswith("-")]
    reads = any(word in _READING_CONFIG - {"--global", "--local", "--system"} for word in words[2:])
    return not reads and (
        len(operands) > 1 or any((word or "").startswith("-") for word in words[2:])
    )


def _options(name: str, words: Words) -> Iterator[Risk | Inner]:
    for at, word in enumerate(words[2:], 2):
        if word is None:
            yield Risk(at, UNKNOWN_WORD)
        elif word == "--":
            return
        elif "::" in word and not word.startswith("-"):
            yield Risk(at, "an address that names a program")
            yield Inner("git", script=word.partition("::")[2])
        elif word.startswith("-"):
            yield from _option(name, words, at, word)
            if "%G" in word:
                yield Risk(at, "starts the program that checks signatures")


def _option(name: str, words: Words, at: int, word: str) -> Iterator[Risk | Inner]:
    option, equals, value = word.partition("=")
    if not word.startswith("--"):
        option, value = _short(name, word)
    attached = bool(equals or (value and not word.startswith("--")))
    place = at if attached or at + 1 >= len(words) else at + 1
    given = value if attached else words[place]
    if _meant(option, name, _RUNS) or _meant(option, name, _SHORT_RUNS):
        if option in _BY_SETTINGS:
            yield Risk(at, "starts programs named in the settings of the repository")
            return
        yield Risk(place, _STARTS)
        if (given and place != at) or attached:
            yield Inner(f"git {option}", script=given)
    elif _meant(option, name, _WRITES) or _meant(option, name, _SHORT_WRITES):
        yield Risk(place, WRITES, Kind.WRITE, given)
    elif option in ("--gpg-program", "--rcfile"):
        yield Risk(place, LOADS)


def _short(name: str, word: str) -> tuple[str, str]:
    """Return the option of a cluster such as `-yx` that counts here, and the rest of the word."""
    for at, letter in enumerate(word[1:], 1):
        option = f"-{letter}"
        if _meant(option, name, _SHORT_RUNS) or _meant(option, name, _SHORT_WRITES):
            return option, word[at + 1 :]
        if letter in _SHORT_VALUED.get(name, ""):
            break
    return word[:2], word[2:]


def _meant(option: str, name: str, table: Mapping[str, set[str] | None]) -> bool:
    """Tell whether an option, or a beginning of its name, does this for a subcommand."""
    for known, names in table.items():
        same = option == known or (
            len(option) > 3 and option[:2] == "--" and known.startswith(option)
        )
        if same and (names is None or name in names):
            return True
    return False
