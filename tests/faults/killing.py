"""A process of one's own for an act, killed at one of its points.

An act is done in a fork, where every point it passes is numbered: a change of state, a call of the
provider, output that arrives, a commit, a job that is rung. The kill is a real SIGKILL, so no
`finally` runs, nothing is rolled back politely, and what the provider had started stays.
"""

from __future__ import annotations

import functools
import os
import signal
import sys
import threading
import traceback
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from django.db import connections
from django.db.backends.base.base import BaseDatabaseWrapper

from omniweb.core import jobs
from omniweb.core import transitions as real
from sandboxes.adapters.docker import DockerProvider, DockerSandbox
from sandboxes.adapters.local import LocalProvider, LocalSandbox
from sandboxes.output import Output

type Act = Callable[[], object]
ROOMS = ("omniweb", "approvals", "sandboxes", "trajectories")


@dataclass(frozen=True)
class Kill:
    """Before or after which point of an act, counted from 0, its process dies."""

    when: Literal["before", "after"]
    index: int


class Points:
    """Tells the points an act passes into a file, and dies at one of them."""

    def __init__(self, kill: Kill | None, told: Path) -> None:
        self._kill = kill
        self._told = told
        self._count = 0
        self._thread = threading.get_ident()
        self._inside = False

    def wrap(self, call: Callable[..., Any], name: Callable[..., str]) -> Callable[..., Any]:
        """Return a function that is a point; points within points do not count."""

        @functools.wraps(call)
        def point(*args: Any, **kwargs: Any) -> Any:
            if self._inside or threading.get_ident() != self._thread:
                return call(*args, **kwargs)
            index, self._count = self._count, self._count + 1
            with self._told.open("a") as told:
                told.write(f"{name(*args, **kwargs)}\n")
            self._die(Kill("before", index))
            self._inside = not name(*args, **kwargs).startswith("provider.execute")
            try:
                done = call(*args, **kwargs)
            finally:
                self._inside = False
            self._die(Kill("after", index))
            return done

        return point

    def _die(self, here: Kill) -> None:
        if here == self._kill:
            os.kill(os.getpid(), signal.SIGKILL)


def _patch(points: Points) -> None:
    """Make points of this process; only a fork that will never return does that."""
    plain = real.transition
    transition = points.wrap(plain, lambda row, to, **_: f"{type(row).__name__} to {to}")
    for name, module in list(sys.modules.items()):
        if name.partition(".")[0] in ROOMS and vars(module).get("transition") is plain:
            setattr(module, "transition", transition)  # noqa: B010 - no module declares it alike
    calls: list[tuple[type, str, str]] = [
        (Output, "add", "output"),
        (BaseDatabaseWrapper, "commit", "commit"),
    ]
    for provider, sandbox in ((LocalProvider, LocalSandbox), (DockerProvider, DockerSandbox)):
        calls.append((provider, "create", "provider.create"))
        calls += [
            (sandbox, one, f"provider.{one}") for one in ("execute", "write_file", "terminate")
        ]
    for owner, attribute, told in calls:
        call = getattr(owner, attribute)
        setattr(owner, attribute, points.wrap(call, lambda *_, told=told, **__: told))
    jobs._send = points.wrap(jobs._send, lambda task, _: f"ring {task}")


def act_killed(act: Act, kill: Kill | None, folder: Path) -> list[str]:
    """Do an act in a process that dies at a point; return the points it came to.

    Without `kill` it comes to its end. An act that fails in any other way fails the test.
    """
    told = folder / "points"
    told.write_text("")
    # A connection that two processes have would be closed by the one that dies.
    connections.close_all()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # about threads, which the act has not
        child = os.fork()
    if child == 0:
        _die_after(act, kill, told)
    _, status = os.waitpid(child, 0)
    passed = told.read_text().splitlines()
    if kill is None:
        assert status == 0, f"the act failed after {passed}"
    else:
        assert os.WIFSIGNALED(status), f"the act ended before {kill}; it passed {passed}"
    return passed


def _die_after(act: Act, kill: Kill | None, told: Path) -> None:
    try:
        _patch(Points(kill, told))
        act()
    except BaseException:  # noqa: BLE001 - a fork must never go on as a second pytest
        traceback.print_exc()
        os._exit(1)
    finally:
        connections.close_all()
    os._exit(0)
