"""What a command does, in words for someone who does not write shell."""

from __future__ import annotations

from collections.abc import Callable
from urllib.parse import urlsplit

from approvals.policy.commands.line import Kind, OpaquePart, SimpleCommand, Words
from approvals.policy.commands.option_table import ALIASES
from approvals.policy.commands.shells import shell_script
from approvals.policy.commands.wrapper_table import WRAPPERS
from approvals.policy.commands.wrappers import SHELLS

_READS = "reads files"
_SHOWS = "shows text"
_LOOKS = "looks things up, changes nothing"
_PROJECT = "runs code of the project"
_INSTALLS = "installs packages, runs their scripts"
_PHRASES = {
    "cd": "changes folder", "pushd": "changes folder", "popd": "changes folder", "ls": "lists files", "tree": "lists files",
    "pwd": "says which folder it is in", "echo": _SHOWS, "printf": _SHOWS, "cat": _READS, "head": _READS, "tail": _READS,
    "less": _READS, "more": _READS, "nl": _READS, "od": _READS, "xxd": _READS, "wc": "counts lines and words", "file": "tells what files are",
    "stat": "tells about files", "du": "adds up sizes", "df": "tells about disks", "grep": "searches text", "rg": "searches text",
    "ag": "searches text", "ack": "searches text", "find": "finds files", "fd": "finds files", "sort": "sorts lines",
    "uniq": "drops repeated lines", "cut": "takes columns", "tr": "replaces characters", "awk": "works through text", "sed": "edits text",
    "jq": "reads JSON", "yq": "reads YAML", "diff": "compares files", "cmp": "compares files", "comm": "compares files",
    "rm": "deletes files", "rmdir": "deletes folders", "unlink": "deletes a file", "shred": "destroys files", "truncate": "cuts files short",
    "cp": "copies files", "mv": "moves files", "ln": "makes links", "install": "copies files", "mkdir": "makes folders",
    "touch": "makes files, or changes their time", "tee": "writes files", "dd": "copies raw data", "split": "cuts a file into many",
    "chmod": "changes who may use files", "chown": "changes whose files are", "chgrp": "changes whose files are",
    "tar": "packs or unpacks files", "zip": "packs files", "unzip": "unpacks files", "gzip": "packs files", "gunzip": "unpacks files",
    "make": _PROJECT, "cmake": _PROJECT, "ninja": _PROJECT, "pytest": _PROJECT, "tox": _PROJECT, "nox": _PROJECT, "just": _PROJECT,
    "mvn": _PROJECT, "gradle": _PROJECT, "rake": _PROJECT, "mypy": "checks the code", "ruff": "checks the code",
    "apt": _INSTALLS, "apt-get": _INSTALLS, "dnf": _INSTALLS, "yum": _INSTALLS, "apk": _INSTALLS, "brew": _INSTALLS, "gem": _INSTALLS,
    "npx": "fetches a package if need be, and runs it", "uvx": "fetches a package if need be, and runs it",
    "kill": "ends programs", "killall": "ends programs", "pkill": "ends programs", "ps": _LOOKS, "top": _LOOKS, "which": _LOOKS,
    "whoami": _LOOKS, "id": _LOOKS, "uname": _LOOKS, "date": "tells the time", "env": "starts a program with other variables",
    "printenv": "shows the variables, secrets too", "true": "does nothing", "false": "does nothing", ":": "does nothing",
    "test": "checks a condition", "[": "checks a condition", "sleep": "waits", "seq": "counts", "read": "reads a line into a variable",
    "exit": "ends the line", "set": "changes how the shell works", "export": "sets variables", "docker": "works with containers",
    "kubectl": "works with a cluster", "terraform": "changes infrastructure", "ansible": "changes other machines",
    "systemctl": "starts or stops services", "service": "starts or stops services", "crontab": "changes what runs at set times",
    "mount": "attaches a disk", "umount": "detaches a disk", "mkfs": "wipes a disk", "reboot": "restarts the machine",
    "shutdown": "stops the machine", "sqlite3": "works with a database", "psql": "works with a database", "mysql": "works with a database",
    "man": "shows a manual page", "eval": "runs text as commands", "source": "runs the commands of a file", ".": "runs the commands of a file",
    "trap": "runs commands later", "alias": "gives a name to commands", "exec": "starts a program in place of the shell",
    "gcc": "builds a program", "gpg": "encrypts, decrypts or signs", "openssl": "works with keys and certificates",
    "ping": "sends packets to another machine", "nc": "opens a network connection", "vim": "opens an editor",
    "sudo": "starts a program as another user", "doas": "starts a program as another user", "su": "starts a shell as another user",
    "xargs": "starts a program for each line it reads", "timeout": "starts a program and ends it in time", "time": "starts a program and times it",
    "gh": "talks to GitHub",
}  # fmt: skip

_GIT = {
    "push": "sends commits to another repository", "pull": "takes commits from another repository into the files",
    "fetch": "takes commits from another repository", "clone": "copies a repository", "commit": "records changes, runs the hooks",
    "add": "marks changes for the next commit", "status": "shows what changed", "log": "shows the history", "diff": "shows changes",
    "show": "shows a commit", "reset": "moves the branch, can throw work away", "checkout": "changes the files to another version",
    "switch": "changes the files to another branch", "restore": "throws changes away", "clean": "deletes files git does not know",
    "stash": "puts changes aside", "merge": "merges a branch", "rebase": "rewrites commits", "branch": "works with branches",
    "tag": "works with tags", "rm": "deletes files", "mv": "moves files", "grep": "searches text", "config": "reads or changes settings",
    "blame": "shows who wrote what", "init": "makes a repository", "remote": "works with other repositories",
}  # fmt: skip


def does(command: SimpleCommand) -> str:
    """Return what a command does, as far as its words tell."""
    program = command.program
    if program is None:
        return "starts a program that is not known before it runs"
    name = ALIASES.get(program) or ALIASES.get(_unversioned(program)) or _unversioned(program)
    special = _SPECIAL.get(name)
    first = special(command.words) if special else _PHRASES.get(name) or _wrapped(name)
    parts = [first or f"runs {program}", *(risk.does for risk in command.risks)]
    parts += [f"its output goes to {target or 'a file not known'}" for target in command.writes]
    if command.env:
        parts.append(f"with {', '.join(command.env)} set")
    return "; ".join(dict.fromkeys(parts))


def part_does(part: OpaquePart) -> str:
    """Return what a part beyond plain words comes to."""
    return _REASONS.get(part.reason) or _KINDS[part.kind]


_KINDS = {
    Kind.CODE: "could run anything",
    Kind.VALUE: "a value nobody knows before it runs",
    Kind.WRITE: "writes a file",
    Kind.ENV: "sets a variable",
    Kind.SHAPE: "read in full: runs the commands inside",
}
_REASONS = {
    "a glob": "stands for the files that are there when it runs",
    "a loop": "runs the commands inside again and again",
    "an if": "runs the commands inside or not, as it turns out",
    "a case": "runs the commands of the case that fits",
    "a function": "gives a name to the commands inside",
    "`&`": "goes on without waiting",
    "test command": "checks a condition",
    "an escape": "a character taken as it is",
}


def _unversioned(program: str) -> str:
    return program.rstrip("0123456789.-") or program


def _wrapped(name: str) -> str | None:
    return "starts another program" if name in WRAPPERS else None


def _second(words: Words) -> str:
    return next((word for word in words[1:] if word and not word.startswith("-")), "")


def _git(words: Words) -> str:
    return _GIT.get(_second(words), "works with the repository")


def _fetches(words: Words) -> str:
    hosts = [host for word in words[1:] if (host := _host(word))]
    sends = any(word and word.startswith(_SENDING) for word in words[1:])
    verb = "sends data to" if sends else "downloads from"
    return f"{verb} {', '.join(hosts) or 'an address not known'}"


_SENDING = ("-d", "--data", "-F", "--form", "-T", "--upload-file", "--post-", "--body-", "--json")


def _host(word: str | None) -> str:
    if not word or word.startswith("-") or ("." not in word and "://" not in word):
        return ""
    try:
        return urlsplit(word if "://" in word else f"//{word}").hostname or ""
    except ValueError:
        return ""


def _ssh(words: Words) -> str:
    return f"runs commands on {_second(words) or 'another machine'}"


def _copies(words: Words) -> str:
    return "copies files from or to another machine" if _remote(words) else "copies files"


def _remote(words: Words) -> bool:
    return any(word is None or ":" in word for word in words[1:])


def _packages(words: Words) -> str:
    verb = _second(words)
    if verb in ("install", "i", "ci", "add", "update", "upgrade", "sync"):
        return _INSTALLS
    if verb in ("test", "run", "start", "build", "exec", "t"):
        return _PROJECT
    return "works with packages"


def _script(words: Words) -> str:
    if "-m" in words[:-1]:
        return f"runs the module {words[words.index('-m') + 1] or 'not known'}"
    # An option before it names the code in another way.
    file = words[1] if len(words) > 1 else ""
    return "runs code" if not file or file.startswith("-") else f"runs the script {file}: not read"


def _shell(words: Words) -> str:
    if shell_script(words) is not None:
        return "runs text as commands"
    file = _second(words)
    return (
        f"runs the script {file}: not read" if file else "runs the commands it reads from its input"
    )


_SPECIAL: dict[str, Callable[[Words], str]] = {
    "git": _git, "curl": _fetches, "wget": _fetches, "ssh": _ssh, "scp": _copies, "rsync": _copies, "sftp": _ssh,
    "pip": _packages, "npm": _packages, "uv": _packages, "cargo": _packages, "poetry": _packages, "go": _packages,
    "bundle": _packages, "pnpm": _packages, "yarn": _packages, "bun": _packages,
    "python": _script, "node": _script, "perl": _script, "ruby": _script, "php": _script, "lua": _script,
    **dict.fromkeys(SHELLS, _shell),
}  # fmt: skip
