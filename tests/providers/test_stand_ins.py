"""The two providers that run nothing real: `none` and `local_test`."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from omniweb.core.errors import InvalidInput, NotFound, SandboxLost, SandboxUnsupported
from sandboxes.adapters.local_test import Answer, forget_test_commands, register_test_command
from sandboxes.manifest import Manifest
from sandboxes.providers.base import Command, LiveSandbox
from sandboxes.providers.registry import open_provider, provider_spec, satisfies_required_sandbox
from tests.providers.running import run, sh, somebody


@pytest.fixture
def stand_in() -> Iterator[LiveSandbox]:
    """Return a sandbox of handlers; they are forgotten with the test."""
    provider, owner = open_provider("local_test", {"allow_test_sandbox_runtime": True}), somebody()
    yield provider.create(Manifest(), owner=owner)
    provider.cleanup(owner.install)
    forget_test_commands()


def test_none_executes_nothing_and_never_satisfies_a_required_sandbox() -> None:
    provider, spec = open_provider("none", {}), provider_spec("none")
    with pytest.raises(SandboxUnsupported, match="executes nothing"):
        provider.create(Manifest(), owner=somebody())
    assert not spec.supports_execution
    assert not satisfies_required_sandbox("none", {})
    assert provider.cleanup("anybody") == 0


def test_a_handler_answers_for_the_program_it_is_registered_for(stand_in: LiveSandbox) -> None:
    def fake_shell(command: Command) -> Answer:
        return Answer(stdout=f"pretend output of: {command.argv[2]}\n")

    register_test_command("sh", fake_shell)
    assert sh(stand_in, "pytest -q").stdout == b"pretend output of: pytest -q\n"


def test_a_program_without_a_handler_is_not_found(stand_in: LiveSandbox) -> None:
    ran = run(stand_in, "git", "status")
    assert ran.code == 127
    assert ran.stderr == b"Command is not registered for local sandbox: git\n"


def test_a_handlers_output_is_capped_like_any_other(stand_in: LiveSandbox) -> None:
    register_test_command("sh", lambda command: Answer(exit_code=2, stdout="x" * 100, stderr="y"))
    ran = sh(stand_in, "anything", max_output_bytes=10)
    assert (ran.code, len(ran.stdout), ran.result.stdout_truncated) == (2, 10, True)


def test_files_are_kept_and_confined(stand_in: LiveSandbox) -> None:
    stand_in.write_file("a/b", b"data")
    assert stand_in.read_file("/workspace/a/b") == b"data"
    assert [(entry.path, entry.kind, entry.size) for entry in stand_in.list_files("a")] == [
        ("/workspace/a/b", "file", 4)
    ]
    assert [entry.kind for entry in stand_in.list_files()] == ["directory"]
    with pytest.raises(NotFound):
        stand_in.read_file("missing")
    with pytest.raises(InvalidInput, match="outside"):
        stand_in.write_file("../x", b"")
    with pytest.raises(InvalidInput, match="is a directory"):
        stand_in.write_file("a", b"")


def test_it_is_lost_once_it_is_ended(stand_in: LiveSandbox) -> None:
    stand_in.terminate()
    stand_in.terminate()
    assert not stand_in.is_running()
    with pytest.raises(SandboxLost):
        run(stand_in, "sh")


def test_it_stands_in_for_a_sandbox_only_where_that_is_said() -> None:
    with pytest.raises(SandboxUnsupported, match="allow_test_sandbox_runtime"):
        open_provider("local_test", {}).create(Manifest(), owner=somebody())
    assert not satisfies_required_sandbox("local_test", {})
    assert satisfies_required_sandbox("local_test", {"allow_test_sandbox_runtime": True})
