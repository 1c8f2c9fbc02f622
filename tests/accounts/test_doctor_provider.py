"""`manage.py doctor --provider`: the conformance kit from the command line."""

from __future__ import annotations

import json
from io import StringIO
from typing import Any

import pytest
from django.core.management import CommandError, call_command

from omniweb.core.ids import ref, uuid7
from omniweb.core.installation import installation_id
from sandboxes.adapters.local import LocalSandbox
from sandboxes.manifest import Manifest
from sandboxes.models import Environment
from sandboxes.providers.base import Owner
from sandboxes.services import reconcile
from tests.people import People
from tests.providers.conftest import docker_provider


def doctor(*arguments: str) -> str:
    told = StringIO()
    call_command("doctor", *arguments, stdout=told)
    return told.getvalue()


def test_each_check_is_printed_with_what_came_of_it() -> None:
    lines = doctor(
        "--provider", "local", "--check", "stdout_is_text", "--check", "pausing_works"
    ).splitlines()
    assert lines[0].startswith("ok ")
    assert lines[0].endswith("stdout_is_text: Text on stdout comes back as it was written")
    assert lines[1].startswith("skipped ")
    assert lines[2].strip() == "it cannot pause a sandbox"
    assert lines[3] == "local: 1 ok, 0 failed, 1 skipped"


def test_programs_get_one_object(people: People) -> None:
    facts: dict[str, Any] = json.loads(
        doctor(
            "--provider", "local", "--environment", "here", "--check", "stdout_is_text", "--json"
        )
    )
    assert (facts["provider"], facts["environment"]) == ("local", "here")
    assert facts["counts"] == {"ok": 1}
    [check] = facts["checks"]
    assert check["outcome"] == "ok"
    assert isinstance(check["duration_ms"], int)


def test_a_check_that_fails_makes_it_exit_1(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(LocalSandbox, "read_file", lambda *_, **__: b"something else")
    with pytest.raises(CommandError, match="local does not keep the contract") as failed:
        doctor("--provider", "local", "--check", "file_comes_back")
    assert failed.value.returncode == 1


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--provider", "nowhere"], "must be a registered sandbox provider"),
        (["--provider", "none"], "runs no commands"),
        (["--provider", "http"], "cannot do without base_url: name an environment"),
        (["--provider", "local", "--environment", "nowhere"], "No environment nowhere uses local"),
        (["--provider", "local", "--check", "nothing"], "no check named nothing"),
        (["--provider", "docker", "--standin"], "no stand-in for docker"),
        (["--check", "stdout_is_text"], "go with --provider"),
    ],
)
def test_what_cannot_be_checked_is_said(people: People, arguments: list[str], said: str) -> None:
    with pytest.raises(CommandError, match=said):
        doctor(*arguments)


@pytest.mark.docker
@pytest.mark.parametrize(("age_hours", "is_kept"), [(0, True), (2, False)])
def test_the_reconciler_leaves_a_doctors_sandboxes_for_an_hour(
    people: People, docker_image: str, age_hours: int, is_kept: bool
) -> None:
    options = {"image": docker_image, "pull": "never"}
    Environment.objects.create(team=people.team, name="walls", provider="docker", options=options)
    milliseconds = age_hours * 3_600_000
    key = uuid7()
    aged = ref(reconcile.DOCTOR, type(key)(int=key.int - (milliseconds << 80)))
    owner = Owner(install=installation_id(), run=aged, sandbox=aged)
    live = docker_provider(docker_image).create(Manifest(), owner=owner)
    try:
        reconcile.sandboxes_compare()
        assert live.is_running() is is_kept
    finally:
        live.terminate()
