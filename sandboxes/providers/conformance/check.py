"""What a check is, what came of it, and the words for what was expected and what came instead."""

from __future__ import annotations

import time
from collections.abc import Callable, Container, Sized
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from omniweb.core.errors import OmniWebError
from sandboxes.capabilities import Ability
from sandboxes.providers.base import LiveSandbox
from sandboxes.providers.conformance.bench import EVENT_SECONDS, Bench, Skip, run

SHOWN = 200

# Why a check is left out where the provider's table does not claim the ability.
ABSENT = {
    Ability.STREAM: "its output comes when a command has ended",
    Ability.STDIN: "it gives commands no stdin",
    Ability.STDERR: "it returns both streams as one",
    Ability.BYTES: "it carries text only",
    Ability.STOP: "it stops a command by ending the sandbox",
    Ability.BACKGROUND: "it ends what a command leaves running",
    Ability.FILES: "it cannot list files",
    Ability.STATE: "it cannot be asked about a sandbox",
    Ability.PAUSE: "it cannot pause a sandbox",
    Ability.SNAPSHOT: "it takes no snapshots",
    Ability.NETWORK_CHANGE: "it fixes a sandbox's network when it is created",
    Ability.LIST: "it cannot list sandboxes",
}


class Outcome(StrEnum):
    """What came of a check."""

    OK = "ok"
    FAILED = "failed"
    SKIPPED = "skipped"


@dataclass(frozen=True, kw_only=True)
class CheckResult:
    """A check that was made or left out; `reason` says why it failed or was skipped."""

    name: str
    topic: str
    sentence: str
    outcome: Outcome
    reason: str = ""
    duration_ms: int = 0


class Differs(Exception):
    """A provider did something else than a check expects."""


@dataclass(frozen=True, kw_only=True)
class Check:
    """One thing every provider does, as a sentence; what it takes, and how it is tried."""

    name: str
    topic: str
    sentence: str
    needs: frozenset[Ability]
    tools: tuple[str, ...]
    perform: Callable[[Bench], None]

    def on(self, bench: Bench) -> CheckResult:
        """Return what comes of trying it; whatever a provider raises makes it fail."""
        started = time.monotonic()
        outcome, reason = Outcome.OK, ""
        try:
            self._insist(bench)
            self.perform(bench)
        except Skip as skip:
            outcome, reason = Outcome.SKIPPED, str(skip)
        except Differs as difference:
            outcome, reason = Outcome.FAILED, str(difference)
        except OmniWebError as error:
            outcome, reason = Outcome.FAILED, f"{type(error).__name__}: {error.detail}"
        except Exception as error:  # noqa: BLE001 -- a provider of one's own can raise anything
            outcome, reason = Outcome.FAILED, f"{type(error).__name__}: {error}"
        bench.settle(is_fine=outcome is not Outcome.FAILED)
        return CheckResult(
            name=self.name,
            topic=self.topic,
            sentence=self.sentence,
            outcome=outcome,
            reason=reason,
            duration_ms=round((time.monotonic() - started) * 1000),
        )

    def _insist(self, bench: Bench) -> None:
        for ability in sorted(self.needs - bench.provider.spec.can):
            raise Skip(ABSENT[ability])
        for tool in self.tools:
            if not bench.has(tool):
                raise Skip(f"the sandbox has no {tool}")


@dataclass(frozen=True)
class Topic:
    """Checks that belong together, in the order they are made."""

    name: str
    checks: list[Check] = field(default_factory=list)

    def check(
        self, sentence: str, *needs: Ability, tools: tuple[str, ...] = ()
    ) -> Callable[[Callable[[Bench], None]], Callable[[Bench], None]]:
        """Add the function below as a check; it raises Differs or Skip."""

        def add(perform: Callable[[Bench], None]) -> Callable[[Bench], None]:
            self.checks.append(
                Check(
                    name=perform.__name__,
                    topic=self.name,
                    sentence=sentence,
                    needs=frozenset(needs),
                    tools=tools,
                    perform=perform,
                )
            )
            return perform

        return add


def same(what: str, got: Any, expected: Any) -> None:
    """Raise Differs unless both are equal."""
    if got != expected:
        raise Differs(f"{what}: expected {_short(expected)}, got {_short(got)}")


def inside(what: str, whole: Any, part: Any) -> None:
    """Raise Differs unless a part is in the whole."""
    if not isinstance(whole, Container) or part not in whole:
        raise Differs(f"{what}: expected {_short(part)} in it, got {_short(whole)}")


def arrives(sandbox: LiveSandbox, name: str) -> None:
    """Wait inside a sandbox for a file that another command makes; raises Differs if none comes."""
    line = f"until [ -e {name} ]; do sleep 0.1; done"
    waited = run(sandbox, "sh", "-c", line, time_limit_seconds=EVENT_SECONDS)
    same(f"exit code of waiting for {name}", waited.code, 0)


def raises(
    what: str, kinds: type[Exception] | tuple[type[Exception], ...], act: Callable[[], Any]
) -> None:
    """Raise Differs unless doing something raises one of these."""
    names = " or ".join(kind.__name__ for kind in (kinds if isinstance(kinds, tuple) else (kinds,)))
    try:
        got = act()
    except kinds:
        return
    except Skip:
        raise
    except Exception as error:
        said = getattr(error, "detail", None) or str(error)
        raise Differs(
            f"{what}: expected {names}, got {type(error).__name__}: {_short(said)}"
        ) from error
    raise Differs(f"{what}: expected {names}, got {_short(got)}")


def _short(value: Any) -> str:
    text = repr(value)
    if len(text) <= SHOWN:
        return text
    size = f" ({len(value)} in all)" if isinstance(value, Sized) else ""
    return f"{text[:SHOWN]}…{size}"
