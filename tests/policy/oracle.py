"""Bash as the judge: runs lines in a sandbox whose programs write down how they were started.

The sandbox has no network, no files of this machine but libraries and the real tools under
another name, and a program of every name used: a stand-in that logs its words, and then is the
real tool where that is harmless in there.
"""

from __future__ import annotations

import shutil
import stat
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import IO, Any

import pytest

# Tools that do what they do; all other names only log.
REAL = (
    "awk bash cat chroot cp cut dash dd diff env expr false find flock git grep head id install ionice "
    "ls mawk mkdir nice nohup perl printf pwd rsync sed seq setsid sh shuf sort split stdbuf tail tar "
    "tee timeout touch tr true uname uniq wc xargs xxd zip ed dc bc m4 busybox nl sdiff patch basename "
    "dirname date sleep test stat realpath script"
).split()  # fmt: skip
LEAVES = (
    "rm one two three evil make npm npx pip curl wget ssh scp sftp docker kubectl systemctl man less more vim "
    "vi emacs python python3 node ruby php lua rg fd sudo doas su parallel watch time chmod chown "
    "mv ln kill crontab at gcc cargo go uv poetry psql mysql sqlite3 gdb strace unzip jq yq pytest "
    "ruff mypy tree file which whoami hostname ps df du top ping nc openssl gpg pandoc ack ag bat ctags "
    "cpio chrt taskset unshare runuser eslint prettier tsc yarn pnpm bundle rake service apt-get "
    "apt brew gh terraform ansible hexdump od cmp comm join paste fold rev tac column less dircolors "
    "printenv logger nproc free uptime env-update reboot shutdown mkfs mount umount ip ifconfig"
).split()  # fmt: skip

_STAND_IN = """#!/real/dash
printf '%s\\0' "${0##*/}" "$@" '\x1e' >> /out/log
[ -n "$ORACLE_DEPTH" ] || ORACLE_DEPTH=x
case $ORACLE_DEPTH in xxxxxxxxxxxxxxxxxxxx) exit 99 ;; esac
export ORACLE_DEPTH="${ORACLE_DEPTH}x"
if [ -e "/stand/real/${0##*/}" ]; then
    exec "/stand/real/${0##*/}" "$@"
fi
exit 0
"""

_DRIVER = """
export PATH=/usr/bin LC_ALL=C HOME=/work GIT_CONFIG_NOSYSTEM=1
ulimit -f 2048
listing() { /real/find /work -printf '%p %y %s %m\\n' | /real/sort; }
fresh() { cd /; /real/rm -rf /work; /real/cp -a /stand/work /work; }
fresh
before=$(listing)
for sample in /samples/*; do
    cd /work
    IFS= read -r -d '' text < "$sample"
    printf '\\035\\0' >> /out/log
    /real/timeout -k 1 3 /real/bash -c "$text" < /dev/null > /dev/null 2>&1
    # Let what runs in the background begin, then end it.
    for turn in 1 2 3 4 5 6 7 8 9 10; do
        set -- /proc/[0-9]*
        [ $# -le 2 ] && break
        /real/sleep 0.02
    done
    [ $# -le 2 ] || kill -9 -1
    after=$(listing)
    if [ "$after" != "$before" ]; then
        printf '%s\\n' "$after" > "/out/${sample##*/}.files"
        fresh
    fi
done
printf '%s\\n' "$before" > /out/before
"""

_FILES = {"f": "b\na\n", "g": "x y\n", "list": "f\ng\n", "a b": "z\n", "src/m.py": "print()\n",
          "notes.txt": "n\n", "run.sh": "evil from-file\n"}  # fmt: skip


@dataclass(frozen=True)
class Run:
    """What happened when bash ran a line: each program with its words, and changed files."""

    started: tuple[tuple[str, ...], ...]
    changed: frozenset[str]


@cache
def missing() -> str | None:
    """Return why lines cannot be run here, None when they can."""
    if shutil.which("bwrap") is None:
        return "bubblewrap is not installed"
    probe = subprocess.run(
        ["bwrap", "--unshare-all", "--ro-bind", "/", "/", "--proc", "/proc", "true"],
        capture_output=True,
        check=False,
    )
    return None if probe.returncode == 0 else f"bubblewrap does not work: {probe.stderr!r}"


def run_lines(lines: Sequence[str], folder: Path) -> list[Run]:
    """Run each line under bash, all in one sandbox; skips the test where there is none."""
    why = missing()
    if why:
        pytest.skip(why)
    stand, samples, out = folder / "stand", folder / "samples", folder / "out"
    _furnish(stand)
    samples.mkdir()
    out.mkdir()
    lines = ["true", *lines]
    for number, line in enumerate(lines):
        (samples / f"{number:05}").write_text(line)
    (stand / "driver").write_text(_DRIVER)
    with (folder / "trouble").open("w+") as trouble:
        _sandboxed(stand, samples, out, trouble)
        if not (out / "before").exists():
            trouble.seek(0)
            pytest.fail(f"the sandbox ended early: {trouble.read()}")
    before = _listing(out / "before")
    # A program logs its words in one piece, each line of the samples begins with a mark.
    _, *logs = (out / "log").read_text(errors="replace").split("\x1d\0")
    changed = [_changed(out / f"{number:05}.files", before) for number in range(len(lines))]
    return [Run(_started(log), files) for log, files in zip(logs, changed, strict=True)][1:]


def _sandboxed(stand: Path, samples: Path, out: Path, trouble: IO[Any]) -> None:
    libraries = [
        word
        for path in ("/lib", "/lib64", "/usr/lib", "/usr/lib64", "/usr/share/git-core", "/etc/alternatives")
        if Path(path).exists()
        for word in ("--ro-bind", path, path)
    ]  # fmt: skip
    binds = ["--ro-bind", "/usr/bin", "/real", "--ro-bind", str(stand / "bin"), "/usr/bin",
             "--ro-bind", str(stand / "bin"), "/bin", "--ro-bind", str(stand), "/stand",
             "--ro-bind", str(samples), "/samples", "--bind", str(out), "/out"]  # fmt: skip
    subprocess.run(
        ["bwrap", "--unshare-all", "--die-with-parent", "--new-session", "--clearenv", *libraries, *binds,
         "--proc", "/proc", "--dev", "/dev", "--tmpfs", "/tmp",
         "/real/bash", "/stand/driver"],
        stdin=subprocess.DEVNULL, stdout=trouble, stderr=trouble, check=False, timeout=300,
    )  # fmt: skip


def _furnish(stand: Path) -> None:
    programs, real, work = stand / "bin", stand / "real", stand / "work"
    for folder in (programs, real, work):
        folder.mkdir(parents=True)
    script = programs / "one"
    script.write_text(_STAND_IN)
    script.chmod(script.stat().st_mode | stat.S_IXUSR | stat.S_IXGRP | stat.S_IXOTH)
    for name in {*REAL, *LEAVES} - {"one"}:
        (programs / name).hardlink_to(script)
    for name in REAL:
        tool = Path("/usr/bin") / name
        if tool.exists():
            # In the sandbox the tools stand under /real; some are links to others.
            (real / name).symlink_to(Path("/real") / tool.resolve().name)
    for name, content in _FILES.items():
        (work / name).parent.mkdir(parents=True, exist_ok=True)
        (work / name).write_text(content)
    subprocess.run(
        "git init -q --template= . && git add f g && git -c user.name=t -c user.email=t@example.org commit -qm one",
        shell=True,
        cwd=work,
        check=True,
        env={"PATH": "/usr/bin:/bin", "HOME": str(work), "GIT_CONFIG_NOSYSTEM": "1"},
    )


def _changed(path: Path, before: frozenset[str]) -> frozenset[str]:
    return _listing(path) ^ before if path.exists() else frozenset()


def _listing(path: Path) -> frozenset[str]:
    # Reading a repository may refresh its index; what is in there does not count.
    lines = path.read_text(errors="replace").splitlines()
    return frozenset(line for line in lines if not line.startswith(("/work ", "/work/.git")))


def _started(log: str) -> tuple[tuple[str, ...], ...]:
    calls = log.split("\x1e\0")
    return tuple(tuple(call.split("\0")[:-1]) for call in calls if call)
