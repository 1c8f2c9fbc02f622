"""The conformance kit: what every provider does alike, whatever it runs commands in.

It needs no test framework and no database: tests, `manage.py doctor` and the button "Test it" run
the same checks. A check is a small function with a sentence; what a provider's table does not
claim is skipped with the reason, everything else has to hold.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Generator

from omniweb.core.errors import InvalidInput
from sandboxes.manifest import Manifest
from sandboxes.providers.base import Owner, SandboxProvider
from sandboxes.providers.conformance import commands, files, life, limits, output
from sandboxes.providers.conformance.bench import NO_SANDBOX, Bench, OnCreated
from sandboxes.providers.conformance.check import Check, CheckResult, Outcome

__all__ = ["NO_SANDBOX", "Bench", "Check", "CheckResult", "Outcome", "checks", "run"]

_TOPICS = (
    life.MAKING,
    output.TOPIC,
    commands.ENDS,
    commands.ARGUMENTS,
    commands.AROUND,
    commands.STDIN,
    limits.LIMITS,
    limits.TOGETHER,
    files.FILES,
    files.LISTING,
    files.WALLS,
    life.INSIDE,
    life.AGAIN,
    life.REFUSING,
    life.ENDING,
)
_CHECKS = tuple(check for topic in _TOPICS for check in topic.checks)
if len({check.name for check in _CHECKS}) != len(_CHECKS):
    raise RuntimeError("two checks share a name")


def checks() -> tuple[Check, ...]:
    """Return every check in the order they are made."""
    return _CHECKS


def run(
    provider: SandboxProvider,
    manifest: Manifest,
    owner: Owner,
    only: Collection[str] | None = None,
    on_result: Callable[[CheckResult], None] | None = None,
    on_created: OnCreated | None = None,
) -> Generator[CheckResult]:
    """Yield what comes of each check, as it is made; whatever was made is ended afterwards.

    `only` names the checks to make. The sandboxes carry the owner's install and run, and names
    that begin with its sandbox; the run must be one that nothing else uses, because cleaning up
    is one of the checks. Raises InvalidInput for a name that no check has.
    """
    if unknown := set(only or ()) - {check.name for check in _CHECKS}:
        raise InvalidInput(f"There is no check named {', '.join(sorted(unknown))}")
    with Bench(provider, manifest, owner, on_created) as bench:
        for check in _CHECKS:
            if only is not None and check.name not in only:
                continue
            result = check.on(bench)
            if on_result:
                on_result(result)
            yield result
