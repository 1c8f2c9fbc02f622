"""Where checks are made: a provider, its sandboxes, and ways to run commands in them."""

from __future__ import annotations

import itertools
import secrets
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

from omniweb.core.errors import OmniWebError, SandboxLost, SandboxUnsupported
from sandboxes.manifest import Environment, Manifest
from sandboxes.providers.base import (
    Command,
    CommandResult,
    LiveSandbox,
    Owner,
    SandboxProvider,
)
from sandboxes.providers.isolation import Evidence

# So that nothing a provider does wrong holds the kit up for ever.
PATIENCE_SECONDS = 60.0
# The same for what waits for another command: on any machine it comes, in its own time.
EVENT_SECONDS = 240.0
# Limits for a command that has something to do before: the first that leaves it the time.
LIMITS_SECONDS = (2.0, 10.0, 50.0)
# Longer than anybody is ready to wait: what sleeps so long was stopped, or it fails the check.
LONG_SECONDS = 600
# Every sandbox of the kit is given this variable by its manifest.
VARIABLE, VALUE = "OMNIWEB_CONFORMANCE", "set by the manifest"

NO_SANDBOX = "there is no sandbox to check"

OnCreated = Callable[[LiveSandbox], None]


class Skip(Exception):
    """A check cannot be made here, for the reason given."""


@dataclass(frozen=True)
class Ran:
    """A finished command and the output that was kept."""

    result: CommandResult
    stdout: bytes
    stderr: bytes

    @property
    def code(self) -> int:
        """Return its exit code."""
        return self.result.exit_code

    @property
    def text(self) -> str:
        """Return stdout as text, without the last line break."""
        return self.stdout.decode("utf-8", "replace").removesuffix("\n")

    @property
    def said(self) -> str:
        """Return what it wrote to either stream, as text."""
        return (self.stdout + self.stderr).decode("utf-8", "replace")


def run(
    sandbox: LiveSandbox,
    *argv: str,
    cancelled: Callable[[], bool] | None = None,
    time_limit_seconds: float | None = PATIENCE_SECONDS,
    **options: Any,
) -> Ran:
    """Run a command in a sandbox to its end."""
    kept = {"stdout": bytearray(), "stderr": bytearray()}
    result = sandbox.execute(
        Command(argv=argv, time_limit_seconds=time_limit_seconds, **options),
        on_output=lambda stream, data: kept[stream].extend(data),
        cancelled=cancelled or (lambda: False),
    )
    return Ran(result, bytes(kept["stdout"]), bytes(kept["stderr"]))


class Bench:
    """One sandbox that most checks share, made when it is first wanted and again when it is lost.

    A context manager: leaving it ends whatever was made. `on_created` is given each sandbox, so
    that somebody else can end the sandbox if this process dies.
    """

    def __init__(
        self,
        provider: SandboxProvider,
        manifest: Manifest,
        owner: Owner,
        on_created: OnCreated | None = None,
    ) -> None:
        self.provider = provider
        self.manifest = manifest.merged_with(
            Manifest(environment=Environment(plain={VARIABLE: VALUE}))
        )
        self.owner = owner
        self._on_created = on_created
        self._count = 0
        # What the shared sandbox is labelled with.
        self.label = owner.sandbox
        self._names = itertools.count(1)
        self._word = secrets.token_hex(4)
        self._made: list[LiveSandbox] = []
        self._live: LiveSandbox | None = None
        self._failure: OmniWebError | None = None
        self._lost = False
        # What was seen of the isolation of its sandboxes, by the kit itself or when they were made.
        self.evidence: Evidence | None = None
        # A sandbox beside the shared one, for checks of two and of ending.
        self.second: LiveSandbox | None = None
        self.ended: LiveSandbox | None = None
        self._tools: dict[str, bool] = {}
        self._lock = threading.Lock()

    def __enter__(self) -> Bench:
        return self

    def __exit__(self, *exception: object) -> None:
        if self.provider.spec.execution_surface == "host" and self._made:
            # Nobody takes this folder away with the sandbox.
            with suppress(OmniWebError):
                run(self._made[0], "sh", "-c", f"rm -rf -- ./*-{self._word}-*")
        for sandbox in self._made:
            with suppress(OmniWebError):
                sandbox.terminate()

    @property
    def live(self) -> LiveSandbox:
        """The sandbox that checks share; raises Skip once it could not be made."""
        with self._lock:
            if self._live is None:
                if self._failure is not None:
                    raise Skip(NO_SANDBOX)
                # The next one made takes the next name.
                self.label = self._label(self._count + 1)
                try:
                    self._live = self.another()
                except OmniWebError as error:
                    self._failure = error
                    raise
            return self._live

    def another(self, **changes: Any) -> LiveSandbox:
        """Return one more sandbox; `changes` are `provider` and `manifest`."""
        provider, owner = changes.get("provider", self.provider), self._next_owner()
        manifest: Manifest = changes.get("manifest", self.manifest)
        try:
            sandbox: LiveSandbox = provider.create(manifest, owner=owner)
        except SandboxUnsupported as error:
            self.evidence = self.evidence or Evidence.from_dict(error.extra.get("evidence") or {})
            raise
        self.evidence = self.evidence or sandbox.isolation
        self._made.append(sandbox)
        if self._on_created:
            self._on_created(sandbox)
        return sandbox

    def _next_owner(self) -> Owner:
        """Return the labels of a further sandbox: the same run, a name of its own."""
        self._count += 1
        return replace(self.owner, sandbox=self._label(self._count))

    def _label(self, number: int) -> str:
        return self.owner.sandbox if number == 1 else f"{self.owner.sandbox}-{number}"

    def run(self, *argv: str, on: LiveSandbox | None = None, **options: Any) -> Ran:
        """Run a command to its end; one whose sandbox had to go makes the next check get a new one."""
        ran = run(on or self.live, *argv, **options)
        if ran.result.session_lost:
            self._lost = True
        return ran

    def sh(self, line: str, *arguments: str, **options: Any) -> Ran:
        """Run a shell line to its end; the arguments are its $1, $2 and so on."""
        return self.run("sh", "-c", line, "sh", *arguments, **options)

    def to_its_limit(self, line: str) -> Ran:
        """Run a shell line that says something and then goes on for long, until a time limit.

        A limit that came before it had said anything shows a slow machine, and is made longer.
        """
        for seconds in LIMITS_SECONDS:
            ran = self.sh(line, time_limit_seconds=seconds)
            if ran.stdout or ran.result.session_lost:
                break
        return ran

    def name(self, prefix: str) -> str:
        """Return a name that nothing else uses, here or in another bench."""
        return f"{prefix}-{self._word}-{next(self._names)}"

    def has(self, tool: str) -> bool:
        """Say whether the sandbox has a program."""
        if tool not in self._tools:
            self._tools[tool] = self.sh('command -v "$1" >/dev/null', tool).code == 0
        return self._tools[tool]

    def settle(self, *, is_fine: bool) -> None:
        """After a check: forget a sandbox that is gone, and one that may be after a failure."""
        if self._live is not None and (self._lost or not (is_fine or self._answers())):
            with suppress(OmniWebError):
                self._live.terminate()
            self._live = None
        self._lost = False

    def forget(self) -> None:
        """Know that the shared sandbox has been ended."""
        self._lost = True

    def _answers(self) -> bool:
        try:
            return self._live is not None and run(self._live, "true").code == 0
        except (OmniWebError, SandboxLost):
            return False
