"""A team, its agent and its run in the moment before something goes wrong, and the time after."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path

import pytest
import time_machine

from approvals.models import Request, RequestState, Verdict
from approvals.services.requests import requests_expire
from omniweb.core.clock import now
from omniweb.core.ids import uuid7
from sandboxes import tasks
from sandboxes.models import Execution, Run, RunState
from sandboxes.providers.base import Command
from sandboxes.services.executions import execution_ask
from sandboxes.services.reconcile import reconcile, sandboxes_compare
from sandboxes.services.runs import run_end, run_open
from tests.factories import ask, policy_use, run_again, run_ready, vote
from tests.faults.whole import assert_whole
from tests.people import People

POLICY = """
name: scene
mode: permissive
rules:
  ask:
    - {rule_id: ask_sh, capability: process.exec, command: {program: sh},
       reason: A shell needs a person.}
"""
# The same, with a sandbox that needs a person as well.
CAREFUL_POLICY = f"""{POLICY}
    - {{rule_id: ask_network, capability: sandbox.network.configure,
       reason: A network needs a person.}}
"""
# Past every lease of a worker, before anything expires for want of people.
LATER = timedelta(minutes=11)
ROUNDS = 12


@dataclass
class Bells:
    """Every job that was rung, in the order in which they were."""

    rung: list[tuple[str, dict[str, str]]] = field(default_factory=list)

    def ring(self, task: str, kwargs: dict[str, str]) -> None:
        """Stand where the broker does."""
        self.rung.append((task, kwargs))

    def answer(self) -> None:
        """Do what was rung, and what that rings, like a worker without haste."""
        while self.rung:
            self.answered(*self.rung.pop(0))

    def answered(self, name: str, arguments: dict[str, str]) -> None:
        """Do one job."""
        getattr(tasks, name.rpartition(".")[2])(**arguments)


@pytest.fixture
def bells(monkeypatch: pytest.MonkeyPatch) -> Bells:
    """The broker, in the hands of the test."""
    made = Bells()
    monkeypatch.setattr("omniweb.core.jobs.current_app.send_task", made.ring)
    return made


@dataclass
class Scene:
    """What an act starts from; `run` may change while it lasts."""

    people: People
    bells: Bells
    folder: Path
    run: Run

    def ask(self, *, asks: bool = False) -> Execution:
        """Have the agent ask for a command that shows that it ran, with a word of its own."""
        word, path = uuid7().hex, str(self.folder / "effects")
        if asks:
            script = f"echo {word} >> {path}; echo done; sleep 0.1"
            return ask(self.people.agent, self.run, script)
        command = Command(argv=("tee", "-a", path), stdin=f"{word}\n".encode())
        return execution_ask(actor=self.people.agent, run=run_again(self.run), command=command)

    def ended(self) -> None:
        """End the run as its agent does."""
        run = run_again(self.run)
        run_end(actor=self.people.agent, run=run, outcome=RunState.SUCCEEDED)

    def rest(self) -> None:
        """Let everything come to rest, with nothing but the clock to set it going."""
        for _ in range(ROUNDS):
            reconcile()
            requests_expire()
            if not self.bells.rung:
                # Once a minute in earnest, and it asks the whole machine.
                sandboxes_compare()
            if not self.bells.rung:
                return
            self.bells.answer()
        pytest.fail(f"it never came to rest: {self.bells.rung}")

    def decided(self, verdict: Verdict = Verdict.APPROVE) -> None:
        """Have a person decide all that is open."""
        for request in Request.objects.filter(state=RequestState.OPEN):
            vote(self.people.approver, request, verdict)

    def finale(self) -> None:
        """Come to rest, go on, end: the run must still be good for something, or over."""
        with later():
            self.rest()
            assert_whole()
            self.decided()
            self.rest()
            assert_whole()
            for execution in self.run.executions.all():
                assert execution.is_settled, execution.state
            if not run_again(self.run).is_over:
                self._goes_on()
                self.ended()
            self.rest()
            assert_whole()
            assert not Run.objects.filter(ended_at__isnull=True).exists()

    def _goes_on(self) -> None:
        again = self.ask()
        self.decided()
        self.rest()
        again.refresh_from_db()
        assert again.state == "finished", again.reason


def scene_new(
    people: People, bells: Bells, folder: Path, *, cleared: bool = True, name: str = "scene"
) -> Scene:
    """Return a scene with a run that is ready, or still waits for its sandbox to be approved."""
    policy_use(people.agent, POLICY if cleared else CAREFUL_POLICY, name=name)
    run = run_ready(people.agent, people.approver) if cleared else run_open(actor=people.agent)
    bells.rung.clear()
    return Scene(people=people, bells=bells, folder=folder, run=run_again(run))


@contextmanager
def later(by: timedelta = LATER) -> Iterator[None]:
    """Spend a while in the future."""
    with time_machine.travel(now() + by, tick=True):
        yield
