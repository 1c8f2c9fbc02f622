"""What is seen of a sandbox's isolation is kept with it, told to the record, and shown."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from omniweb.accounts.permissions import system
from sandboxes import tasks
from sandboxes.live import live_sandbox
from sandboxes.models import Profile, Run
from sandboxes.providers import registry
from sandboxes.providers.registry import register_sandbox_provider
from sandboxes.services.environment_tests import environment_test_start
from sandboxes.services.environments import environment_create
from tests.factories import FREE_POLICY, policy_use, run_ready
from tests.people import People, browser_for
from tests.providers.walls import (
    WEB,
    Walls,
    closed_port,
    web,
)


@pytest.fixture
def opened(people: People, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Run]:
    """Return a function that opens a run whose sandbox says it has no network."""
    monkeypatch.setattr(registry, "_registered", dict(registry._registered))

    def make(options: Mapping[str, Any]) -> Walls:
        return Walls(tmp_path, **options)

    register_sandbox_provider("walls", make, spec=Walls(tmp_path).spec)
    policy_use(people.agent, FREE_POLICY)

    def start(**options: Any) -> Run:
        environment = environment_create(
            actor=system(people.team),
            name="walls",
            provider="walls",
            options=options,
            manifest={"working_dir": str(tmp_path)},
        )
        Profile.objects.filter(agent=people.agent.agent).update(environment=environment)
        return run_ready(people.agent, people.approver)

    return start


def told(run: Run) -> dict[str, Any]:
    """Return the last that the record says of the sandbox."""
    step = run.trajectory.steps.filter(kind="sandbox_state").order_by("seq").last()
    assert step is not None
    payload: dict[str, Any] = step.payload
    return payload


def test_the_proof_is_kept_told_and_shown(
    people: People,
    opened: Callable[..., Run],
    outside: Callable[..., None],
) -> None:
    outside(web(closed_port()))
    run = opened()
    sandbox = run.sandboxes.get()
    assert (sandbox.state, sandbox.isolation["verdict"]) == ("ready", "proven")
    assert told(run)["evidence"] == sandbox.isolation
    page = browser_for(people.viewer).get(f"/sandboxes/{sandbox.ref}").text
    assert "Nothing that is denied answers from inside, by python" in page
    assert "proven" in browser_for(people.viewer).get("/sandboxes").text


def test_a_refused_sandbox_keeps_what_was_seen(
    people: People,
    opened: Callable[..., Run],
    outside: Callable[..., None],
    listen: Callable[..., int],
) -> None:
    outside(web(listen(WEB)))
    run = opened()
    sandbox = run.sandboxes.get()
    assert sandbox.state == "failed"
    assert "it still reached the internet" in sandbox.reason
    assert told(run)["evidence"]["lines"][0]["detail"].startswith("HTTP/1.1 200 OK")
    page = browser_for(people.viewer).get(f"/sandboxes/{sandbox.ref}").text
    assert "It was reached from inside: the web" in page


def test_an_unchecked_sandbox_is_marked_wherever_it_appears(
    people: People, opened: Callable[..., Run]
) -> None:
    run = opened(verify_network_isolation=False)
    sandbox = run.sandboxes.get()
    assert told(run)["evidence"]["verdict"] == "unchecked"
    viewer = browser_for(people.viewer)
    for path in ("/sandboxes", "/runs", "/environments", f"/runs/{run.ref}"):
        assert "unchecked" in viewer.get(path).text, path
    for path in (
        f"/sandboxes/{sandbox.ref}",
        f"/environments/{run.environment.ref}",
        f"/runs/{run.ref}",
    ):
        assert "Isolation not checked." in viewer.get(path).text, path


def test_a_test_of_its_environment_shows_what_was_reached(
    people: People,
    opened: Callable[..., Run],
    outside: Callable[..., None],
    listen: Callable[..., int],
) -> None:
    outside(web(listen(WEB)))
    environment = opened().environment
    test = environment_test_start(actor=people.operator, environment=environment)
    tasks.environment_test_run(test.ref)
    test.refresh_from_db()
    assert (test.state, test.isolation["verdict"]) == ("failed", "reached")
    page = browser_for(people.viewer).get(f"/environments/{environment.ref}").text
    assert "It was reached from inside: the web" in page
    assert "it still reached the internet" in page


@pytest.mark.docker
def test_a_containers_proof_costs_no_further_command(people: People, docker_image: str) -> None:
    policy_use(people.agent, FREE_POLICY)
    environment = environment_create(
        actor=system(people.team),
        name="contained",
        provider="docker",
        options={"image": docker_image, "pull": "never"},
        manifest={},
    )
    Profile.objects.filter(agent=people.agent.agent).update(environment=environment)
    run = run_ready(people.agent, people.approver)
    try:
        evidence = told(run)["evidence"]
        assert (evidence["verdict"], evidence["tool"]) == ("proven", "the kernel's tables")
        assert [line["detail"] for line in evidence["lines"]] == ["lo", "none but loopback"]
    finally:
        live_sandbox(run.sandboxes.get()).terminate()
