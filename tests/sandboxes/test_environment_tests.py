"""Testing an environment: in a worker, kept as it comes, and nothing left behind."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import pytest
from pytest_django import DjangoCaptureOnCommitCallbacks

from omniweb.accounts.permissions import system
from omniweb.core.clock import now
from omniweb.core.errors import Conflict, NotPermitted
from omniweb.core.installation import installation_id
from omniweb.core.models import AuditEntry
from sandboxes import tasks
from sandboxes.manifest import Manifest
from sandboxes.models import Environment, EnvironmentTest
from sandboxes.providers import conformance
from sandboxes.providers.base import Owner
from sandboxes.providers.conformance import Check
from sandboxes.services.environment_tests import environment_test_start, environment_test_sweep
from sandboxes.services.environments import environment_create, environment_update
from sandboxes.services.reconcile import reconcile, sandboxes_compare
from tests.people import People, bearer, browser_for
from tests.providers.conftest import docker_provider
from tests.providers.services import Reply, listening

HTMX = {"HX-Request": "true"}


@pytest.fixture(autouse=True)
def rung(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, dict[str, str]]]:
    """Every doorbell that is rung; the tests do the workers' part themselves."""
    bells: list[tuple[str, dict[str, str]]] = []
    monkeypatch.setattr(
        "omniweb.core.jobs.current_app.send_task", lambda name, kwargs: bells.append((name, kwargs))
    )
    return bells


@pytest.fixture
def only(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Return a function that leaves these checks in the kit."""

    def leave(*names: str) -> None:
        kept: tuple[Check, ...] = tuple(
            check for check in conformance.checks() if check.name in names
        )
        monkeypatch.setattr(conformance, "checks", lambda: kept)

    return leave


@pytest.fixture
def here(people: People) -> Environment:
    return Environment.objects.get(team=people.team, name="here")


def again(test: EnvironmentTest) -> EnvironmentTest:
    return EnvironmentTest.objects.select_related("environment", "started_by").get(pk=test.pk)


def started(people: People, environment: Environment) -> EnvironmentTest:
    return environment_test_start(actor=people.operator, environment=environment)


def lapse(test: EnvironmentTest) -> None:
    """Leave a test as a worker would that died while it ran."""
    earlier = now() - timedelta(seconds=1)
    EnvironmentTest.objects.filter(pk=test.pk).update(state="running", lease_until=earlier)


def test_a_test_runs_the_kit_and_keeps_what_it_showed(people: People, here: Environment) -> None:
    test = started(people, here)
    assert test.state == "queued"
    tasks.environment_test_run(test.ref)
    done = again(test)
    assert (done.state, done.reason) == ("passed", "")
    assert [result["name"] for result in done.results] == [
        check.name for check in conformance.checks()
    ]
    assert done.count("failed") == 0
    assert done.started_at is not None
    assert done.ended_at is not None
    assert done.started_by == people.operator.user
    folder = Path(here.manifest["working_dir"])
    assert list(folder.iterdir()) == []


def test_who_started_one_is_in_the_audit_log(people: People, here: Environment) -> None:
    test = started(people, here)
    entry = AuditEntry.objects.get(act="environment.test")
    assert entry.detail["test"] == test.ref


def test_only_those_who_configure_may_start_one(people: People, here: Environment) -> None:
    for actor in (people.viewer, people.approver, people.auditor):
        with pytest.raises(NotPermitted):
            environment_test_start(actor=actor, environment=here)


def test_an_environment_is_tested_once_at_a_time(people: People, here: Environment) -> None:
    test = started(people, here)
    with pytest.raises(Conflict, match="here is being tested already"):
        started(people, here)
    EnvironmentTest.objects.filter(pk=test.pk).update(state="passed")
    started(people, here)


def test_a_provider_that_runs_nothing_is_not_tested(people: People) -> None:
    nothing = environment_create(
        actor=system(people.team), name="nothing", provider="none", options={}, manifest={}
    )
    with pytest.raises(Conflict, match="nothing to test"):
        started(people, nothing)


def test_a_second_worker_leaves_a_test_alone(
    people: People, here: Environment, only: Callable[..., None]
) -> None:
    only("stdout_is_text")
    test = started(people, here)
    tasks.environment_test_run(test.ref)
    first = again(test).results
    tasks.environment_test_run(test.ref)
    assert again(test).results == first


def test_what_fails_makes_it_fail_and_says_how(
    people: People, only: Callable[..., None], tmp_path: Path
) -> None:
    only("sandbox_is_made", "exit_code_is_its_own")
    gone = environment_create(
        actor=system(people.team),
        name="gone",
        provider="local",
        options={},
        manifest={"working_dir": str(tmp_path / "gone"), "network_policy": {"default": "allow"}},
    )
    test = started(people, gone)
    tasks.environment_test_run(test.ref)
    done = again(test)
    assert done.state == "failed"
    assert [result["outcome"] for result in done.results] == ["failed", "skipped"]
    assert "does not exist; create it" in done.results[0]["reason"]


def test_secrets_of_the_environment_are_in_no_result(
    people: People, only: Callable[..., None]
) -> None:
    only("sandbox_is_made")
    with listening(
        lambda asked, wire: Reply(status=503, body=f"no {asked.headers['Authorization']}".encode())
    ) as service:
        remote = environment_create(
            actor=system(people.team),
            name="remote",
            provider="http",
            options={"base_url": service.url, "token": "planted-token-1234"},
            manifest={},
        )
        test = started(people, remote)
        tasks.environment_test_run(test.ref)
    assert "503" in again(test).results[0]["reason"]
    assert "planted" not in str(again(test).results)


def test_a_test_of_an_environment_that_has_changed_is_told_apart(
    people: People, here: Environment, only: Callable[..., None]
) -> None:
    only("stdout_is_text")
    test = started(people, here)
    tasks.environment_test_run(test.ref)
    assert again(test).is_current
    environment_update(
        actor=people.operator,
        environment=here,
        options={"create_working_dir": False},
        manifest=here.manifest,
    )
    assert not again(test).is_current
    text = browser_for(people.viewer).get(f"/environments/{here.ref}").text
    assert "The environment has been changed since" in text


# Workers that are lost


def test_a_queued_test_is_rung_again(
    people: People,
    here: Environment,
    rung: list[tuple[str, dict[str, str]]],
    django_capture_on_commit_callbacks: DjangoCaptureOnCommitCallbacks,
) -> None:
    test = started(people, here)
    EnvironmentTest.objects.update(created_at=now() - timedelta(minutes=1))
    with django_capture_on_commit_callbacks(execute=True):
        reconcile()
    assert ("sandboxes.environment_test_run", {"test": test.ref}) in rung


def test_a_lost_worker_ends_the_test_and_what_it_made(
    people: People,
    rung: list[tuple[str, dict[str, str]]],
    django_capture_on_commit_callbacks: DjangoCaptureOnCommitCallbacks,
) -> None:
    with listening(lambda asked, wire: Reply(status=204)) as service:
        remote = environment_create(
            actor=system(people.team),
            name="remote",
            provider="http",
            options={"base_url": service.url},
            manifest={},
        )
        test = started(people, remote)
        lapse(test)
        EnvironmentTest.objects.update(handles=[{"session": "s1"}, {"session": "s2"}])
        with django_capture_on_commit_callbacks(execute=True):
            reconcile()
        lost = again(test)
        assert (lost.state, lost.reason) == ("lost", "The worker that ran it was lost")
        assert ("sandboxes.environment_test_sweep", {"test": test.ref}) in rung
        tasks.environment_test_sweep(test.ref)
        assert service.lines == ["DELETE /sessions/s1", "DELETE /sessions/s2"]
    assert again(test).handles == []
    started(people, remote)


def test_what_cannot_be_ended_is_tried_again(people: People) -> None:
    with listening(lambda asked, wire: Reply(status=503)) as service:
        remote = environment_create(
            actor=system(people.team),
            name="remote",
            provider="http",
            options={"base_url": service.url},
            manifest={},
        )
        test = started(people, remote)
        EnvironmentTest.objects.update(state="lost", handles=[{"session": "s1"}])
        environment_test_sweep(test=again(test))
    assert again(test).handles == [{"session": "s1"}]


def test_a_worker_taken_for_lost_stops_and_writes_no_more(
    people: People, here: Environment, monkeypatch: pytest.MonkeyPatch
) -> None:
    test = started(people, here)
    whole = conformance.checks()

    def reap(bench: object) -> None:
        EnvironmentTest.objects.filter(pk=test.pk).update(state="lost")

    # A check during which the reconciler takes the test away.
    reaping = Check(
        name="reaping",
        topic="Output",
        sentence="Somebody takes the test away",
        needs=frozenset(),
        tools=(),
        perform=reap,
    )
    monkeypatch.setattr(conformance, "checks", lambda: (*whole[:2], reaping, *whole[2:]))
    tasks.environment_test_run(test.ref)
    done = again(test)
    assert (done.state, len(done.results)) == ("lost", 2)


@pytest.mark.docker
@pytest.mark.parametrize(("state", "is_kept"), [("running", True), ("lost", False)])
def test_the_sandboxes_of_a_test_are_orphans_only_once_it_is_over(
    people: People, docker_image: str, state: str, is_kept: bool
) -> None:
    walls = environment_create(
        actor=system(people.team),
        name="walls",
        provider="docker",
        options={"image": docker_image, "pull": "never"},
        manifest={},
    )
    test = started(people, walls)
    EnvironmentTest.objects.update(state=state)
    owner = Owner(install=installation_id(), run=test.ref, sandbox=f"{test.ref}-2")
    live = docker_provider(docker_image).create(Manifest(), owner=owner)
    try:
        sandboxes_compare()
        assert live.is_running() is is_kept
    finally:
        live.terminate()


# Pages and API


def test_the_page_starts_one_and_shows_its_checks(
    people: People, here: Environment, only: Callable[..., None]
) -> None:
    only("stdout_is_text", "pausing_works")
    operator = browser_for(people.operator)
    page = f"/environments/{here.ref}"
    assert "checks 2 things" in operator.get(page).text
    answer = operator.post(f"{page}/test")
    assert answer["Location"] == f"{page}#environment-test"
    assert "0 of 2" in operator.get(page).text
    assert "Test it again" not in operator.get(page).text
    tasks.environment_test_run(EnvironmentTest.objects.get().ref)
    part = browser_for(people.viewer).get(f"{page}?part=test", headers=HTMX).text
    for words in (
        "1 ok",
        "1 skipped",
        "it cannot pause a sandbox",
        "Text on stdout comes back as it was written",
        "operator@example.org",
    ):
        assert words in part
    assert "Test it" not in part
    providers = browser_for(people.viewer).get("/providers").text
    assert f'href="{page}#environment-test"' in providers


def test_a_second_press_says_that_one_is_under_way(people: People, here: Environment) -> None:
    operator = browser_for(people.operator)
    operator.post(f"/environments/{here.ref}/test")
    text = operator.post(f"/environments/{here.ref}/test", follow=True).text
    assert "here is being tested already." in text
    assert EnvironmentTest.objects.count() == 1


def test_the_api_starts_one_and_lists_what_came_of_it(
    people: People, here: Environment, only: Callable[..., None]
) -> None:
    only("stdout_is_text")
    operator = browser_for(people.operator)
    headers = bearer(people.operator)
    path = f"/api/v1/environments/{here.ref}/tests"
    made = operator.post(path, headers=headers)
    assert made.status_code == 201
    assert (made.json()["state"], made.json()["checks"]) == ("queued", [])
    assert operator.post(path, headers=headers).status_code == 409
    tasks.environment_test_run(made.json()["id"])
    [listed] = operator.get(path, headers=headers).json()["items"]
    assert (listed["state"], listed["checks_in_all"]) == ("passed", 1)
    assert listed["checks"][0]["outcome"] == "ok"
    assert listed["started_by"] == "operator@example.org"


@pytest.mark.docker
def test_a_test_of_a_container_keeps_its_proof(
    people: People, docker_image: str, only: Callable[..., None]
) -> None:
    only("stdout_is_text", "denied_network_is_silent")
    walls = environment_create(
        actor=system(people.team),
        name="walls",
        provider="docker",
        options={"image": docker_image, "pull": "never"},
        manifest={},
    )
    test = started(people, walls)
    tasks.environment_test_run(test.ref)
    done = again(test)
    assert (done.state, done.isolation["verdict"], done.isolation["tool"]) == (
        "passed",
        "proven",
        "python",
    )
    text = browser_for(people.viewer).get(f"/environments/{walls.ref}").text
    assert "the metadata address" in text
    assert "isolation proven" in browser_for(people.viewer).get("/providers").text
