"""Testing environments: the conformance kit in a worker, each result kept as it comes."""

from __future__ import annotations

from dataclasses import asdict
from datetime import timedelta
from typing import Any

from django.db import IntegrityError, transaction

from omniweb.accounts.permissions import Action, Actor
from omniweb.core.audit import audit_write
from omniweb.core.clock import now
from omniweb.core.database import insist
from omniweb.core.errors import Conflict, OmniWebError
from omniweb.core.installation import installation_id
from omniweb.core.jobs import enqueue
from omniweb.core.realtime import publish
from omniweb.core.transitions import transition
from omniweb.core.waiting import is_ending
from sandboxes.manifest import Manifest
from sandboxes.models import Environment, EnvironmentTest, EnvironmentTestState
from sandboxes.providers import conformance
from sandboxes.providers.base import LiveSandbox, Owner
from sandboxes.providers.conformance import Bench, CheckResult, Outcome
from sandboxes.providers.registry import open_provider, provider_spec
from trajectories.patterns import is_secret_name
from trajectories.redaction import Redactor, redactor

# Longer than the slowest provider takes to make a sandbox, which is the slowest of all checks.
TEST_LEASE = timedelta(minutes=10)


class _Over(Exception):
    """Somebody else has ended this test: its worker was taken for lost."""


class _Ending(Exception):
    """This process is about to stop and does not wait for the rest of the checks."""


def environment_test_start(*, actor: Actor, environment: Environment) -> EnvironmentTest:
    """Have a worker make sandboxes of an environment and check them.

    Raises Conflict while one is under way, and for a provider that runs no commands.
    """
    actor.require(Action.CONFIGURE)
    spec = provider_spec(environment.provider)
    if not spec.supports_execution or spec.is_test:
        raise Conflict(f"{spec.label} runs no commands, so there is nothing to test")
    try:
        with transaction.atomic():
            test = EnvironmentTest.objects.create(
                team=actor.team,
                environment=environment,
                started_by=actor.user,
                provider=environment.provider,
                options=environment.options,
                manifest=environment.manifest,
            )
            audit_write(actor=actor, act="environment.test", subject=environment, test=test.ref)
            enqueue("sandboxes.environment_test_run", test=test.ref)
            publish("environments", actor.team.id)
    except IntegrityError:
        raise Conflict(f"{environment.name} is being tested already") from None
    return test


def environment_test_run(*, test: EnvironmentTest) -> None:
    """Run a queued test to its end; only one worker ever gets to."""
    moment = now()
    if not transition(
        test,
        EnvironmentTestState.RUNNING,
        source=["queued"],
        started_at=moment,
        lease_until=moment + TEST_LEASE,
    ):
        return
    publish("environments", test.team_id)
    clean = _redactor(test)
    try:
        provider = open_provider(test.provider, test.options)
        owner = Owner(install=installation_id(), run=test.ref, sandbox=test.ref)
        # What is checked needs no secrets, so that none leave for it.
        manifest = Manifest.parse(test.manifest).without_secrets()
        with Bench(provider, manifest, owner, lambda live: _made(test, live)) as bench:
            for check in conformance.checks():
                if is_ending():
                    raise _Ending
                _record(test, check.on(bench), bench, clean)
    except _Over:
        return
    except _Ending:
        _end(test, EnvironmentTestState.LOST, "OmniWeb was stopped while it ran")
    except OmniWebError as error:
        _end(test, EnvironmentTestState.FAILED, clean.text(error.detail))
    except Exception as error:
        _end(test, EnvironmentTestState.FAILED, f"OmniWeb failed ({type(error).__name__})")
        raise
    else:
        failed = test.count(Outcome.FAILED)
        state = EnvironmentTestState.FAILED if failed else EnvironmentTestState.PASSED
        _end(test, state, "")


def environment_test_cancel(*, actor: Actor, test: EnvironmentTest) -> bool:
    """Stop a test and end what it has made; False when it is over.

    Its worker notices when it records the next check.
    """
    actor.require(Action.CONFIGURE)
    with transaction.atomic():
        reason = f"Cancelled by {actor.label}"
        changes: dict[str, Any] = {"reason": reason, "ended_at": now()}
        if not transition(test, EnvironmentTestState.CANCELLED, **changes):
            return False
        audit_write(
            actor=actor, act="environment.test_cancel", subject=test.environment, test=test.ref
        )
        enqueue("sandboxes.environment_test_sweep", test=test.ref)
        publish("environments", test.team_id)
    return True


def environment_test_lost(*, test: EnvironmentTest) -> None:
    """Give up on a test whose worker is gone, and have its sandboxes ended."""
    reason = "The worker that ran it was lost"
    with transaction.atomic():
        lost = EnvironmentTestState.LOST
        if transition(test, lost, source=["running"], reason=reason, ended_at=now()):
            enqueue("sandboxes.environment_test_sweep", test=test.ref)
            publish("environments", test.team_id)


def environment_test_sweep(*, test: EnvironmentTest) -> None:
    """End the sandboxes that a lost test has left; those that cannot be ended are kept in mind."""
    if not test.is_over or not test.handles:
        return
    left = []
    for handle in test.handles:
        try:
            provider = open_provider(test.provider, test.options)
            provider.attach(handle, Manifest.parse(test.manifest)).terminate()
        except OmniWebError:
            left.append(handle)
    EnvironmentTest.objects.filter(pk=test.pk).update(handles=left)


def _made(test: EnvironmentTest, live: LiveSandbox) -> None:
    """Keep what finds a sandbox, before anything is done with it."""
    test.handles = [*test.handles, dict(live.handle)]
    insist(lambda: _update(test, handles=test.handles))


def _record(test: EnvironmentTest, result: CheckResult, bench: Bench, clean: Redactor) -> None:
    kept = asdict(result) | {"reason": clean.text(result.reason)}
    test.results = [*test.results, kept]
    test.isolation = clean.value(bench.evidence.to_dict()) if bench.evidence else {}
    changes = {"results": test.results, "isolation": test.isolation}
    insist(lambda: _update(test, lease_until=now() + TEST_LEASE, **changes))
    publish("environments", test.team_id)


def _update(test: EnvironmentTest, **changes: Any) -> None:
    """Write to a test that is still this worker's; raises _Over when it no longer is."""
    mine = EnvironmentTest.objects.filter(pk=test.pk, state=EnvironmentTestState.RUNNING)
    if not mine.update(**changes):
        raise _Over


def _end(test: EnvironmentTest, state: EnvironmentTestState, reason: str) -> None:
    # Leaving the bench has ended whatever it made; what is left all the same is an orphan.
    changes: dict[str, Any] = {"reason": reason, "handles": [], "ended_at": now()}
    insist(lambda: transition(test, state, source=["running"], **changes))
    publish("environments", test.team_id)


def _redactor(test: EnvironmentTest) -> Redactor:
    secret = provider_spec(test.provider).secret_options
    options = [value for name, value in test.options.items() if name in secret]
    headers = [one for value in options if isinstance(value, dict) for one in value.values()]
    plain = test.manifest.get("environment", {}).get("plain", {})
    variables = [value for name, value in plain.items() if is_secret_name(name)]
    texts = [value for value in (*options, *headers, *variables) if isinstance(value, str)]
    return redactor(known=texts)
