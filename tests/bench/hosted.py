"""What governing costs on hosted providers.

Our adapter beside the vendor's own SDK as its manual uses it, both on the vendor's stand-in on this
machine: a sandbox made until a command has run in it and ended again (ours with the look from
inside for what is open), and `true` in one that is ready. The stand-in makes a sandbox in no time;
what a vendor takes itself, from a part of a second to a minute, comes on top of both.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import partial

import e2b
import modal
from daytona import Daytona, SessionExecuteRequest
from vercel.sandbox import sync as vercel

from omniweb.management.stand_ins import stand_in
from sandboxes.manifest import Manifest
from sandboxes.providers.base import SandboxProvider
from sandboxes.providers.registry import open_provider, provider_spec
from tests.bench.clock import alternate, timed
from tests.bench.figure import Figure, Scale, at_most_above, timing
from tests.bench.machine import need
from tests.providers.running import run, somebody

VERCEL = ("TOKEN", "TEAM_ID", "PROJECT_ID", "API_URL")
# Runs `true` once in a sandbox that is ready.
RunTrue = Callable[[], object]


@contextmanager
def _e2b() -> Iterator[RunTrue]:
    sandbox = e2b.Sandbox.create()
    try:
        yield lambda: sandbox.commands.run("true")
    finally:
        sandbox.kill()


@contextmanager
def _daytona() -> Iterator[RunTrue]:
    client = Daytona()
    sandbox = client.create()
    process, session = sandbox.process, "bench"
    process.create_session(session)

    def true() -> None:
        asked = SessionExecuteRequest(command="true", run_async=True)
        started = process.execute_session_command(session, asked).cmd_id
        while process.get_session_command(session, started).exit_code is None:
            pass

    try:
        yield true
    finally:
        client.delete(sandbox)


@contextmanager
def _modal() -> Iterator[RunTrue]:
    sandbox = modal.Sandbox.create(app=modal.App.lookup("bench", create_if_missing=True))
    try:
        yield lambda: sandbox.exec("true").wait()
    finally:
        sandbox.terminate()


@contextmanager
def _vercel() -> Iterator[RunTrue]:
    token, team, project, url = (os.environ[f"VERCEL_{name}"] for name in VERCEL)
    whose = vercel.SandboxCredentials(token=token, team_id=team, project_id=project)
    options = vercel.SandboxServiceOptions(base_url=url, credentials_factory=lambda: whose)
    client = vercel.SyncSandboxClient.create(options=options)
    sandbox = client.create_sandbox(persistent=False)
    try:
        yield lambda: sandbox.run_process("true")
    finally:
        sandbox.destroy(delete_orphan_snapshots=True)


Sdk = Callable[[], AbstractContextManager[RunTrue]]
SDKS: dict[str, Sdk] = {
    "e2b": _e2b,
    "daytona": _daytona,
    "modal": _modal,
    "vercel": _vercel,
}


def measure(scale: Scale) -> Iterator[Figure]:
    """Measure one vendor after the other."""
    need("standin")
    for name, sdk in SDKS.items():
        spec = provider_spec(name)
        with stand_in(spec) as options:
            provider = open_provider(name, options)
            yield _made(scale, spec.label, provider, sdk)
            yield _ran(scale, spec.label, provider, sdk)


def _made(
    scale: Scale,
    label: str,
    provider: SandboxProvider,
    sdk: Sdk,
) -> Figure:
    def ours() -> None:
        sandbox = provider.create(Manifest(), owner=somebody())
        run(sandbox, "true")
        sandbox.terminate()

    def theirs() -> None:
        with sdk() as true:
            true()

    samples, reference = alternate(scale.rounds(15), timed(ours), timed(theirs))
    return timing(f"{label}: made, `true`, ended", samples, "by its SDK", reference)


def _ran(
    scale: Scale,
    label: str,
    provider: SandboxProvider,
    sdk: Sdk,
) -> Figure:
    sandbox = provider.create(Manifest(), owner=somebody())
    with sdk() as true:
        samples, reference = alternate(
            scale.rounds(100, 20), timed(partial(run, sandbox, "true")), timed(true)
        )
    sandbox.terminate()
    return timing(f"{label}: `true`", samples, "by its SDK", reference, aim=at_most_above(10, "ms"))
