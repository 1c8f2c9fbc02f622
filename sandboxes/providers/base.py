"""The contract between the control plane and whatever runs the commands.

A provider creates sandboxes and finds them again; a live sandbox runs commands and keeps files.
Two kinds of "no" are kept apart everywhere: what a *command* did is a CommandResult, what the
*provider* did wrong is a ProviderError and never reads like the output of a command.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal

from omniweb.core.errors import InvalidInput, OmniWebError, SandboxUnsupported
from sandboxes import capabilities
from sandboxes.manifest import Manifest, NetworkPolicy
from sandboxes.providers import isolation
from sandboxes.providers.delivery import GivenSecret, undelivered
from sandboxes.providers.isolation import Evidence, Target, Verdict
from sandboxes.providers.limits import (
    MAX_ARGUMENT_BYTES,
    MAX_ARGUMENTS_BYTES,
    MAX_FILE_BYTES,
    MAX_OUTPUT_BYTES,
    MAX_STDIN_BYTES,
    MAX_TIME_LIMIT_SECONDS,
)
from sandboxes.providers.names import ENVIRONMENT_NAME
from sandboxes.providers.spec import ProviderSpec

Stream = Literal["stdout", "stderr"]
FileKind = Literal["file", "directory", "link", "other"]
OnOutput = Callable[[Stream, bytes], None]
Cancelled = Callable[[], bool]

# Everything needed to find a sandbox again from another process; JSON, stored in its row.
Handle = Mapping[str, Any]

EXIT_KILLED = 137
EXIT_CANNOT_RUN = 126
EXIT_NOT_FOUND = 127


@dataclass(frozen=True, kw_only=True)
class Owner:
    """Whose sandbox it is: the installation, the run and the sandbox row, as references.

    No provider ever lists or ends what belongs to another installation.
    """

    install: str
    run: str
    sandbox: str


@dataclass(frozen=True, kw_only=True)
class Command:
    """One command as it will be started; raises InvalidInput when no system could start it.

    `cwd` is absolute or relative to the working directory; `env` lies on top of the manifest's.
    """

    argv: tuple[str, ...]
    cwd: str | None = None
    env: Mapping[str, str] = field(default_factory=dict)
    stdin: bytes | None = None
    time_limit_seconds: float | None = None
    max_output_bytes: int | None = None

    def __post_init__(self) -> None:
        for problem in _problems(self):
            raise InvalidInput(problem)


@dataclass(frozen=True, kw_only=True)
class CommandResult:
    """How a command ended.

    The byte counts are of all it wrote, kept or not. `session_lost` says that the sandbox had
    to be removed to stop the command.
    """

    exit_code: int
    timed_out: bool = False
    cancelled: bool = False
    stdout_truncated: bool = False
    stderr_truncated: bool = False
    stdout_bytes: int = 0
    stderr_bytes: int = 0
    duration_ms: int = 0
    session_lost: bool = False


@dataclass(frozen=True, kw_only=True)
class FileEntry:
    """One name in a directory of a sandbox; size in bytes, of what is listed, not of a link's target."""

    path: str
    kind: FileKind
    size: int


@dataclass(frozen=True, kw_only=True)
class Owned:
    """A sandbox of this installation that the provider still has."""

    handle: Handle
    run: str
    sandbox: str
    running: bool
    created_at: datetime | None = None


class LiveSandbox(ABC):
    """One sandbox. Safe to use from several threads at once, and from any process by its handle.

    Any method may raise ProviderUnavailable (the provider cannot be reached), SandboxLost (this
    sandbox is gone), Conflict (it is paused) and ProviderError (the provider failed otherwise).
    The docstrings name what comes on top.
    """

    handle: Handle
    # What is known of its isolation once it is made; None where its network is on.
    isolation: Evidence | None = None
    # Whether no name but an allowed one has an address inside.
    knows_allowed_names_only = False

    @abstractmethod
    def execute(
        self, command: Command, *, on_output: OnOutput, cancelled: Cancelled
    ) -> CommandResult:
        """Run a command to its end, its time limit or its cancellation, whichever comes first.

        Output goes to `on_output` as it comes, up to the cap for each stream. At the time limit,
        or when `cancelled()` turns true (asked about twice a second), the command and everything
        it started are killed; the exit code is then 137. A missing program gives 127, one
        that cannot run 126, a missing cwd 127 with a line on stderr. Raises CommandLost when the
        provider goes away meanwhile: the command may have run, and may still be running.
        """

    @abstractmethod
    def read_file(self, path: str, *, limit: int = MAX_FILE_BYTES) -> bytes:
        """Return a file's bytes.

        Raises NotFound, InvalidInput (outside the working directory, or no regular file) and
        TooLarge (over `limit` bytes).
        """

    @abstractmethod
    def write_file(self, path: str, data: bytes) -> None:
        """Write a file and the directories it is in; an existing file keeps its mode.

        Raises InvalidInput (outside the working directory, or a directory) and TooLarge.
        """

    @abstractmethod
    def list_files(self, path: str = "") -> list[FileEntry]:
        """Return what a directory holds, by name. Raises NotFound and InvalidInput."""

    @abstractmethod
    def is_running(self) -> bool:
        """Say whether the sandbox would take a command now; False once it is gone."""

    @abstractmethod
    def terminate(self) -> None:
        """End the sandbox and everything in it; ending it twice is fine."""

    def denied(self, policy: NetworkPolicy) -> tuple[Target, ...]:
        """Return what must not answer inside it under a policy, as far as that can be tried."""
        return isolation.targets_for(policy) if isolation.is_required(policy) else ()

    def set_network(self, policy: NetworkPolicy) -> None:
        """Change what the sandbox may reach. Raises SandboxUnsupported."""
        raise SandboxUnsupported("This provider fixes a sandbox's network when it is created")

    def extend(self, seconds: int) -> None:
        """Let the sandbox live that long from now. Raises SandboxUnsupported."""
        raise SandboxUnsupported("This provider does not change how long a sandbox lives")

    def pause(self) -> None:
        """Freeze the sandbox until `resume`. Raises SandboxUnsupported."""
        raise SandboxUnsupported("This provider cannot pause a sandbox")

    def resume(self) -> None:
        """Let a paused sandbox go on. Raises SandboxUnsupported."""
        raise SandboxUnsupported("This provider cannot pause a sandbox")

    def snapshot(self) -> str:
        """Return the name of an image that holds the sandbox's files. Raises SandboxUnsupported."""
        raise SandboxUnsupported("This provider cannot take a snapshot of a sandbox")


class SandboxProvider(ABC):
    """A provider with its options read; making one calls nobody."""

    def __init__(self, spec: ProviderSpec, options: Mapping[str, Any]) -> None:
        self.spec = spec
        self.options = options

    def create(
        self, manifest: Manifest, *, owner: Owner, secrets: Sequence[GivenSecret] = ()
    ) -> LiveSandbox:
        """Create a sandbox and return it ready for commands; a failure leaves nothing behind.

        `secrets` are those its manifest refers to. Its `isolation` says what is known of it. Raises
        SandboxUnsupported (it cannot be what the manifest asks, or reaches what it must not),
        ProviderMissing, ProviderUnavailable and ProviderError.
        """
        capabilities.check_when_opened(self.spec.name, self.spec.enforces, manifest)
        for problem in self.spec.refuses(self.options, manifest):
            raise SandboxUnsupported(problem.message)
        self._check_secrets(manifest, secrets)
        live = (
            self._create_given(manifest, owner, secrets)
            if secrets
            else self._create(manifest, owner)
        )
        if live.isolation is None and live.denied(manifest.network_policy):
            try:
                live.isolation = self._proof(live, manifest.network_policy)
            except BaseException:
                with suppress(OmniWebError):
                    live.terminate()
                raise
        return live

    def _check_secrets(self, manifest: Manifest, secrets: Sequence[GivenSecret]) -> None:
        """Raise SandboxUnsupported unless every secret is there and can be kept where it may go."""
        if self.spec.delivers is None:
            return
        given = {secret.name for secret in secrets}
        problems = [
            f"The secret {name} was not given"
            for name in manifest.environment.secret_refs
            if name not in given
        ]
        problems += undelivered(self.spec.name, self.spec.delivers, manifest, secrets)
        for problem in problems:
            raise SandboxUnsupported(problem)

    def _proof(self, live: LiveSandbox, policy: NetworkPolicy) -> Evidence:
        """Try from inside what a policy denies; raises SandboxUnsupported unless nothing answers."""
        wanted = self.options.get(isolation.OPTION)
        if wanted is None:
            return Evidence(verdict=Verdict.PROMISED, reason=self.spec.network.checked_inside)
        if not wanted:
            return Evidence(verdict=Verdict.UNCHECKED, reason=f"{isolation.OPTION} is false")
        evidence = isolation_of(live, policy)
        if evidence.verdict is not Verdict.PROVEN:
            refusal = isolation.refusal(self.spec.name, evidence)
            raise SandboxUnsupported(refusal, evidence=evidence.to_dict())
        return evidence

    @abstractmethod
    def _create(self, manifest: Manifest, owner: Owner) -> LiveSandbox:
        """Create a sandbox whose manifest has been checked."""

    def _create_given(
        self, manifest: Manifest, owner: Owner, given: Sequence[GivenSecret]
    ) -> LiveSandbox:
        """As `_create`, and give it these secrets; for providers whose spec says how."""
        refusal = capabilities.refusal(self.spec.name, capabilities.Setting.SECRETS)
        raise SandboxUnsupported(refusal, setting=capabilities.Setting.SECRETS.value)

    @abstractmethod
    def attach(self, handle: Handle, manifest: Manifest) -> LiveSandbox:
        """Return the sandbox of a stored handle, without calling the provider.

        Whether it still exists shows at its first use (SandboxLost).
        """

    @abstractmethod
    def list_owned(self, install: str, *, run: str | None = None) -> list[Owned]:
        """Return the sandboxes of an installation, perhaps of one run only.

        Raises ProviderUnavailable and ProviderError.
        """

    def cleanup(self, install: str, *, run: str | None = None) -> int:
        """End what `list_owned` finds and return how many that were.

        Raises ProviderUnavailable and ProviderError.
        """
        owned = self.list_owned(install, run=run)
        for sandbox in owned:
            self.attach(sandbox.handle, Manifest()).terminate()
        return len(owned)

    @abstractmethod
    def check(self) -> str:
        """Return one line on what the provider would run with here.

        Raises ProviderUnavailable and ProviderMissing with what to do about it.
        """


def isolation_of(live: LiveSandbox, policy: NetworkPolicy) -> Evidence:
    """Return what comes of trying, inside a sandbox, to reach what a policy denies."""
    targets = live.denied(policy)
    printed = bytearray()

    def keep(stream: Stream, data: bytes) -> None:
        if stream == "stdout":
            printed.extend(data)

    command = Command(
        argv=isolation.argv(targets),
        time_limit_seconds=isolation.TIME_LIMIT_SECONDS,
        # Whatever an environment keeps of its commands, all of the evidence is read.
        max_output_bytes=MAX_OUTPUT_BYTES,
    )
    result = live.execute(command, on_output=keep, cancelled=lambda: False)
    return isolation.read(
        targets,
        result.exit_code,
        bytes(printed),
        are_names_allowed=bool(policy.allowed_hosts) and not live.knows_allowed_names_only,
    )


def _problems(command: Command) -> Sequence[str]:
    """Return what is wrong with a command, most basic first."""
    argv, env = command.argv, command.env
    limit = command.time_limit_seconds
    sizes = [len(text.encode("utf-8", "surrogateescape")) for text in (*argv, *env.values())]
    checks = {
        "a command needs a program and may not have empty arguments before it": not argv
        or not argv[0],
        "the program's name must not contain control characters": bool(
            argv and re.search(r"[\x00-\x1f\x7f]", argv[0])
        ),
        "arguments must not contain control characters other than tab and line breaks": any(
            re.search(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]", argument) for argument in argv[1:]
        ),
        "one argument or variable is over 128 KiB": max(sizes, default=0) > MAX_ARGUMENT_BYTES,
        "the arguments and variables together are over 1 MiB": sum(sizes) > MAX_ARGUMENTS_BYTES,
        "the working directory must not contain a null byte": "\0" in (command.cwd or ""),
        "stdin is over 64 MiB": len(command.stdin or b"") > MAX_STDIN_BYTES,
        "the time limit must be between 0 and 86400 seconds": limit is not None
        and not 0 < limit <= MAX_TIME_LIMIT_SECONDS,
    }
    problems = [message for message, wrong in checks.items() if wrong]
    for name, value in env.items():
        if not ENVIRONMENT_NAME.fullmatch(name):
            problems.append(f"invalid sandbox environment variable name: {name}")
        elif "\0" in value:
            problems.append(f"the variable {name} must not contain a null byte")
    return problems
