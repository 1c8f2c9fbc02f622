"""Two workers want the last place of an environment, or the one trial of a provider, at once."""

from __future__ import annotations

from datetime import timedelta

import pytest

from omniweb.core.clock import now
from omniweb.core.errors import ProviderUnavailable
from sandboxes.backoff import BROKEN_AFTER
from sandboxes.models import Circuit, Environment, Sandbox
from sandboxes.services.capacity import capacity_claim, capacity_set
from sandboxes.services.circuits import circuit_failed, circuit_try
from sandboxes.services.runs import run_open
from tests.factories import FREE_POLICY, policy_use
from tests.people import People
from tests.races.test_two_deciders import together

ROUNDS = 20

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture(autouse=True)
def _nobody_is_rung(monkeypatch: pytest.MonkeyPatch) -> None:
    """The tests do the workers' part themselves."""
    monkeypatch.setattr("omniweb.core.jobs.current_app.send_task", lambda name, kwargs: None)


def test_one_gets_the_last_place(people: People) -> None:
    policy_use(people.agent, FREE_POLICY)
    environment = Environment.objects.get(team=people.team)
    capacity_set(actor=people.operator, environment=environment, max_sandboxes=1)
    for _ in range(2):
        run_open(actor=people.agent)
    lease = now() + timedelta(minutes=1)
    for _ in range(ROUNDS):
        waiting = list(Sandbox.objects.select_related("run__environment"))
        together(
            *(
                lambda one=one: capacity_claim(sandbox=one, lease_until=lease)
                for one in (*waiting, *waiting)
            )
        )
        assert Sandbox.objects.filter(state="provisioning").count() == 1
        Sandbox.objects.update(state="intended", admitted_at=None)


def test_one_tries_a_broken_provider_and_no_failure_is_lost(people: People) -> None:
    policy_use(people.agent, FREE_POLICY)
    run = run_open(actor=people.agent)
    error = ProviderUnavailable("nobody answers")
    together(*(lambda: circuit_failed(run=run, error=error) for _ in range(BROKEN_AFTER)))
    kept = Circuit.objects.get()
    assert (kept.failures, kept.state) == (BROKEN_AFTER, "open")
    for _ in range(ROUNDS):
        Circuit.objects.update(state="open", retry_at=now())
        seen = [Circuit.objects.get() for _ in range(3)]
        tried: list[bool] = []
        together(
            *(lambda one=one, tried=tried: tried.append(circuit_try(circuit=one)) for one in seen)
        )
        assert sorted(tried) == [False, False, True]
