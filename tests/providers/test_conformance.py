"""The kit itself: it finds what is wrong, says how, and leaves nothing behind."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from omniweb.core.errors import InvalidInput, ProviderError
from sandboxes.adapters.local import LocalProvider, LocalSandbox
from sandboxes.manifest import Manifest
from sandboxes.providers import conformance
from sandboxes.providers.base import (
    Cancelled,
    Command,
    CommandResult,
    Handle,
    LiveSandbox,
    OnOutput,
    Owner,
)
from sandboxes.providers.conformance import CheckResult, Outcome, bench, limits
from sandboxes.providers.process_tree import marked
from sandboxes.providers.registry import provider_spec
from tests.providers.running import somebody


class Local(LocalProvider):
    """The local provider with sandboxes of a kind of its own."""

    kind: type[LocalSandbox] = LocalSandbox
    broken = ""

    def __init__(self) -> None:
        spec = provider_spec("local")
        super().__init__(spec, spec.read_options({}))

    def _create(self, manifest: Manifest, owner: Owner) -> LocalSandbox:
        if self.broken:
            raise ProviderError(self.broken)
        made = super()._create(manifest, owner)
        return self.kind(self, made.handle, manifest)

    def attach(self, handle: Handle, manifest: Manifest) -> LocalSandbox:
        return self.kind(self, handle, manifest)


Tried = Callable[..., dict[str, CheckResult]]


@pytest.fixture
def tried(tmp_path: Path) -> Tried:
    """Return a function that runs checks on a provider and returns what came of each."""

    def make(provider: LocalProvider, *only: str, **options: object) -> dict[str, CheckResult]:
        fields = {"working_dir": str(tmp_path), "network_policy": {"default": "allow"}}
        results = conformance.run(
            provider,
            Manifest.parse(fields),
            somebody(),
            only or None,
            **options,  # type: ignore[arg-type] # passed on
        )
        return {result.name: result for result in results}

    return make


class Forgetful(LocalSandbox):
    """Says of every command that it went well."""

    def execute(
        self, command: Command, *, on_output: OnOutput, cancelled: Cancelled
    ) -> CommandResult:
        return replace(
            super().execute(command, on_output=on_output, cancelled=cancelled), exit_code=0
        )


class Clumsy(LocalSandbox):
    """Fails as nobody's errors do."""

    def read_file(self, path: str, *, limit: int = 0) -> bytes:
        raise ZeroDivisionError("clumsy")


class Slow(LocalSandbox):
    """Takes its time before a command does anything."""

    def execute(
        self, command: Command, *, on_output: OnOutput, cancelled: Cancelled
    ) -> CommandResult:
        argv = ("sh", "-c", 'sleep 0.6; exec "$@"', "sh", *command.argv)
        return super().execute(
            replace(command, argv=argv), on_output=on_output, cancelled=cancelled
        )


class OneByOne(LocalSandbox):
    """Runs no command before the one before it has ended."""

    turn = threading.Lock()

    def execute(
        self, command: Command, *, on_output: OnOutput, cancelled: Cancelled
    ) -> CommandResult:
        with self.turn:
            return super().execute(command, on_output=on_output, cancelled=cancelled)


def test_there_are_many_checks_and_each_is_a_sentence_of_its_own() -> None:
    checks = conformance.checks()
    assert len(checks) >= 60
    assert len({check.sentence for check in checks}) == len(checks)
    assert not [check.name for check in checks if check.sentence.endswith(".")]


def test_what_is_wrong_is_told_with_what_was_expected_and_what_came(tried: Tried) -> None:
    provider = Local()
    provider.kind = Forgetful
    found = tried(provider, "exit_code_is_its_own", "stdout_is_text")
    assert found["exit_code_is_its_own"].outcome == Outcome.FAILED
    assert found["exit_code_is_its_own"].reason == (
        "exit codes: expected (0, 1, 3, 42, 125, 255), got (0, 0, 0, 0, 0, 0)"
    )
    assert found["stdout_is_text"].outcome == Outcome.OK


def test_a_machine_that_is_slow_fails_no_check(
    tried: Tried, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each was too slow for the first limit; the second leaves it the time."""
    monkeypatch.setattr(bench, "LIMITS_SECONDS", (0.3, 3.0))
    provider = Local()
    provider.kind = Slow
    found = tried(provider, "limit_kills_children", "output_before_the_limit_is_kept")
    assert {one.outcome for one in found.values()} == {Outcome.OK}, found


def test_what_waits_for_an_event_fails_where_it_cannot_come(
    tried: Tried, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "EVENT_SECONDS", 1.0)
    provider = Local()
    provider.kind = OneByOne
    found = tried(provider, "commands_run_side_by_side")["commands_run_side_by_side"]
    assert found.outcome == Outcome.FAILED
    assert found.reason.startswith("stdout of each: expected")


def test_whatever_a_provider_raises_makes_its_check_fail_and_no_other(tried: Tried) -> None:
    provider = Local()
    provider.kind = Clumsy
    found = tried(provider, "empty_file_is_a_file", "file_comes_back", "exit_code_is_its_own")
    assert found["file_comes_back"].reason == "ZeroDivisionError: clumsy"
    assert found["exit_code_is_its_own"].outcome == Outcome.OK


def test_where_no_sandbox_can_be_made_one_check_fails_and_the_rest_is_skipped(
    tried: Tried,
) -> None:
    provider = Local()
    provider.broken = "no more room"
    found = tried(provider)
    failed = [result for result in found.values() if result.outcome == Outcome.FAILED]
    assert failed[0].name == "sandbox_is_made"
    assert failed[0].reason == "ProviderError: no more room"
    assert found["exit_code_is_its_own"].outcome == Outcome.SKIPPED
    assert found["exit_code_is_its_own"].reason == "there is no sandbox to check"


def test_what_a_provider_does_not_claim_is_skipped_and_says_why(tried: Tried) -> None:
    found = tried(Local(), "pausing_works")["pausing_works"]
    assert (found.outcome, found.reason) == (Outcome.SKIPPED, "it cannot pause a sandbox")


def test_each_result_is_told_as_it_comes(tried: Tried) -> None:
    told: list[str] = []
    tried(
        Local(),
        "stdout_is_text",
        "silence_is_empty",
        on_result=lambda result: told.append(result.name),
    )
    assert told == ["stdout_is_text", "silence_is_empty"]


def test_a_check_that_does_not_exist_is_refused(tried: Tried) -> None:
    with pytest.raises(InvalidInput, match="no check named no_such_check"):
        tried(Local(), "no_such_check")


def test_what_was_made_is_told_and_ended_even_when_nobody_listens_to_the_end(
    tmp_path: Path,
) -> None:
    made: list[LiveSandbox] = []
    fields = {"working_dir": str(tmp_path), "network_policy": {"default": "allow"}}
    results = conformance.run(
        Local(),
        Manifest.parse(fields),
        somebody(),
        ["leftovers_do_not_hold", "duration_is_told"],
        on_created=made.append,
    )
    assert next(results).outcome == Outcome.OK
    [handle] = [live.handle for live in made]
    assert marked(handle["mark"])
    results.close()
    assert not marked(handle["mark"])


def test_a_provider_that_ignores_what_it_does_not_keep_fails(tried: Tried) -> None:
    class Careless(Local):
        def create(self, manifest: Manifest, *, owner: Owner, secrets: object = ()) -> LocalSandbox:
            return self._create(manifest, owner)

    found = tried(Careless(), "unkept_is_refused")["unkept_is_refused"]
    assert found.outcome == Outcome.FAILED
    assert "asking for image: expected SandboxUnsupported" in found.reason
