"""Where a stand-in's sandbox lives: processes, files and a network of its own, by bubblewrap."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

_INTERNET = Path(__file__).with_name("internet.py")
# Of this machine's own /etc, what programs need to be found and started.
_SHARED = ("alternatives", "ld.so.cache", "ld.so.conf", "ld.so.conf.d", "ssl", "localtime")
_PROGRAMS = "/usr/local/bin:/usr/bin:/bin"


@cache
def missing() -> str:
    """Say why no sandbox can be made on this machine; empty where it can."""
    for program in ("bwrap", "nsenter"):
        if shutil.which(program) is None:
            return f"there is no {program} for the sandboxes of stand-ins"
    try:
        Place(user="user", uid=1000).end()
    except OSError as error:
        return f"sandboxes of stand-ins cannot be made here: {error}"
    return ""


class Place:
    """One sandbox, from when it is made until `end`. Raises OSError where it cannot be made."""

    def __init__(
        self,
        *,
        user: str,
        uid: int,
        network: str | Sequence[str] = "nothing",
        has_python: bool = True,
    ) -> None:
        self.user, self.home = user, "/root" if uid == 0 else f"/home/{user}"
        # Where this machine's Python is not in the usual folders, it is found after them.
        own = f":{sys.base_prefix}/bin" if has_python else ""
        self._programs = f"{_PROGRAMS}{own}"
        self._folder = Path(tempfile.mkdtemp(prefix="omniweb-standin-"))
        self.root, self._rules = self._folder / "root", self._folder / "rules.json"
        self.allow(network)
        self._lay_out(uid)
        reads, writes = os.pipe()
        command = ["bwrap", *self._view(uid, has_python), "--info-fd", str(writes), "--"]
        # Not an environment's link to it, which leads out of what can be seen in there.
        command += [os.path.realpath(sys.executable), "-ISE", "/run/internet.py", "/run/rules.json"]
        self._keeper = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            env={}, pass_fds=[writes],
        )  # fmt: skip
        os.close(writes)
        with os.fdopen(reads) as info:
            told = info.read()
        assert self._keeper.stdout is not None
        if self._keeper.stdout.readline() != b"ready\n":
            _, stderr = self._keeper.communicate()
            self.end()
            raise OSError(stderr.decode(errors="replace").strip() or "bubblewrap failed")
        self._pid = str(json.loads(told)["child-pid"])

    def _lay_out(self, uid: int) -> None:
        for name in ("etc", "tmp", "run", "dev", "proc", "usr", self.home.strip("/")):
            (self.root / name).mkdir(parents=True)
        (self.root / "tmp").chmod(0o1777)
        etc = self.root / "etc"
        (etc / "passwd").write_text(f"{self.user}:x:{uid}:{uid}::{self.home}:/bin/bash\n")
        (etc / "group").write_text(f"{self.user}:x:{uid}:\n")
        (etc / "hosts").write_text("127.0.0.1 localhost\n::1 localhost\n")
        (etc / "resolv.conf").write_text("nameserver 8.8.8.8\noptions timeout:1 attempts:1\n")

    def _view(self, uid: int, has_python: bool) -> list[str]:
        view = ["--unshare-all", "--uid", str(uid), "--gid", str(uid), "--hostname", "sandbox"]
        # For the internet inside only: what is started later has neither.
        view += ["--cap-add", "CAP_NET_ADMIN", "--cap-add", "CAP_NET_BIND_SERVICE"]
        view += ["--bind", str(self.root), "/", "--ro-bind", "/usr", "/usr", "--proc", "/proc"]
        for name in ("bin", "sbin", "lib", "lib64"):
            if Path("/", name).is_symlink():
                view += ["--symlink", f"usr/{name}", f"/{name}"]
            elif Path("/", name).is_dir():
                view += ["--ro-bind", f"/{name}", f"/{name}"]
        for name in _SHARED:
            view += ["--ro-bind-try", f"/etc/{name}", f"/etc/{name}"]
        for name in ("null", "zero", "full", "random", "urandom", "tty"):
            view += ["--dev-bind", f"/dev/{name}", f"/dev/{name}"]
        for name, number in (("stdin", 0), ("stdout", 1), ("stderr", 2)):
            view += ["--symlink", f"/proc/self/fd/{number}", f"/dev/{name}"]
        view += ["--symlink", "/proc/self/fd", "/dev/fd", "--tmpfs", "/dev/shm"]
        prefix = sys.base_prefix
        if not prefix.startswith("/usr"):
            view += ["--ro-bind", prefix, prefix]
        view += ["--ro-bind", str(_INTERNET), "/run/internet.py"]
        view += ["--ro-bind", str(self._rules), "/run/rules.json"]
        return view + ([] if has_python else _without_python())

    def allow(self, network: str | Sequence[str]) -> None:
        """Set what can be reached: `all`, `nothing`, or these names; running connections stay."""
        # Written in place: the sandbox has this very file.
        text = json.dumps(network if isinstance(network, str) else list(network))
        self._rules.write_text(text)

    def start(
        self, argv: Sequence[str], *, env: Mapping[str, str], cwd: str = "/", **pipes: Any
    ) -> subprocess.Popen[bytes]:
        """Start a command inside, the first process of a group of its own."""
        enter = [
            "nsenter",
            "-t",
            self._pid,
            "-U",
            "--preserve-credentials",
            "-m",
            "-u",
            "-i",
            "-n",
            "-p",
        ]
        go = ["/bin/sh", "-c", 'cd -- "$0" && exec "$@"', cwd]
        base = {"PATH": self._programs, "HOME": self.home, "USER": self.user, "LANG": "C.UTF-8"}
        return subprocess.Popen(
            [*enter, "--", *go, *argv], env={**base, **env}, start_new_session=True, **pipes
        )

    def end(self) -> None:
        """Kill everything inside and remove its files."""
        if pid := getattr(self, "_pid", ""):
            with suppress(ProcessLookupError):
                # The first process of the sandbox: all others end with it.
                os.kill(int(pid), signal.SIGKILL)
        self._keeper.kill()
        self._keeper.communicate(timeout=10)
        shutil.rmtree(self._folder, ignore_errors=True)


def _without_python() -> list[str]:
    hidden = []
    for folder in ("/usr/bin", "/usr/local/bin"):
        for program in Path(folder).glob("python*"):
            if program.is_file() and not program.is_symlink():
                hidden += ["--ro-bind", "/dev/null", str(program)]
    return hidden
