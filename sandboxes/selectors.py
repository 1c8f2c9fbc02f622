"""Reads that start from what the actor may see."""

from __future__ import annotations

import json
from uuid import UUID

from django.db.models import Count, Exists, OuterRef, Q, QuerySet, Subquery

from approvals.models import Decision
from omniweb.accounts.models import Team
from omniweb.accounts.permissions import Actor
from omniweb.core.errors import InvalidInput, NotFound, Problem
from omniweb.core.models import RowQuerySet
from sandboxes.models import (
    Circuit,
    Environment,
    EnvironmentTest,
    Execution,
    Price,
    Profile,
    Run,
    RunState,
    Sandbox,
    Secret,
)
from sandboxes.models.sandbox import GONE


def environments_visible(actor: Actor) -> RowQuerySet[Environment]:
    """The environments of an actor's team."""
    return Environment.objects.filter(team=actor.team).order_by("name")


def secrets_visible(actor: Actor) -> RowQuerySet[Secret]:
    """The secrets of an actor's team that are not archived."""
    return Secret.objects.filter(team=actor.team, archived_at=None).order_by("name")


def environment_tests_visible(actor: Actor) -> RowQuerySet[EnvironmentTest]:
    """The tests of the environments of an actor's team, the newest first."""
    return EnvironmentTest.objects.filter(team=actor.team).select_related(
        "environment", "started_by"
    )


def tests_last_by_provider(actor: Actor) -> dict[str, EnvironmentTest]:
    """Return the newest test that has ended, for each provider that has one."""
    ended = environment_tests_visible(actor).exclude(ended_at=None)
    newest = ended.filter(provider=OuterRef("provider")).order_by("-id").values("id")[:1]
    return {test.provider: test for test in ended.filter(id=Subquery(newest))}


def profiles_visible(actor: Actor) -> RowQuerySet[Profile]:
    """The profiles of an actor's team, with all they name."""
    return Profile.objects.filter(agent__team=actor.team).select_related(
        "agent__owner", "policy", "environment"
    )


def runs_visible(actor: Actor) -> RowQuerySet[Run]:
    """The runs an actor may see: their team's, or for an agent its own."""
    runs = Run.objects.filter(team=actor.team).select_related(
        "agent__owner", "trajectory", "version__policy", "environment", "team"
    )
    return runs.filter(agent=actor.agent) if actor.agent else runs


def runs_listed(actor: Actor) -> QuerySet[Run]:
    """The runs of a list, with how many commands and failures each has."""
    failed = Q(executions__state__in=["timed_out", "failed", "unknown"])
    failed |= Q(executions__state="finished") & ~Q(executions__exit_code=0)
    return runs_visible(actor).annotate(
        command_count=Count("executions", distinct=True),
        failed_count=Count("executions", filter=failed, distinct=True),
    )


def executions_visible(actor: Actor) -> RowQuerySet[Execution]:
    """The executions an actor may see: their team's, or for an agent its own."""
    executions = Execution.objects.filter(team=actor.team).select_related(
        "run__agent__owner",
        "run__trajectory",
        "run__environment",
        "run__version__policy",
        "run__team",
        "decision",
        "request__decided_by",
        "stdout",
        "stderr",
    )
    return executions.filter(run__agent=actor.agent) if actor.agent else executions


def executions_listed(actor: Actor) -> QuerySet[Execution]:
    """The executions of a list: without their output."""
    return executions_visible(actor).defer("stdout__data", "stderr__data", "stdin")


def execution_state(key: UUID) -> str:
    """Return where a command stands, for those who wait for it and may see it."""
    return Execution.objects.values_list("state", flat=True).get(pk=key)


def output_bytes(execution: Execution, stream: str) -> bytes:
    """Return a stream of a command as it was kept, or as far as it has come while it runs."""
    blob = execution.stdout if stream == "stdout" else execution.stderr
    if blob is not None:
        return bytes(blob.data)
    if execution.started_at is None:
        return b""
    return b"".join(bytes(chunk.data) for chunk in execution.chunks.filter(stream=stream))


def sandboxes_visible(actor: Actor) -> RowQuerySet[Sandbox]:
    """The sandboxes an actor may see: their team's, or for an agent its own."""
    sandboxes = Sandbox.objects.filter(team=actor.team).select_related(
        "run__agent", "run__environment", "run__trajectory"
    )
    return sandboxes.filter(run__agent=actor.agent) if actor.agent else sandboxes


def sandboxes_live(actor: Actor) -> RowQuerySet[Sandbox]:
    """The sandboxes that are not gone."""
    return sandboxes_visible(actor).exclude(state__in=GONE)


def prices_visible(actor: Actor) -> RowQuerySet[Price]:
    """The prices of an actor's team, the newest first for each provider."""
    return Price.objects.filter(team=actor.team).select_related("environment")


def circuits_visible(actor: Actor) -> RowQuerySet[Circuit]:
    """The lines of an actor's team to providers that have ever failed to answer."""
    return Circuit.objects.filter(team=actor.team)


def circuits_broken(actor: Actor) -> RowQuerySet[Circuit]:
    """Those whose provider did not answer when it was called last."""
    return circuits_visible(actor).filter(failures__gt=0)


def environment_named(team: Team, name: str) -> Environment:
    """Return a team's environment by name; raises NotFound."""
    environment = Environment.objects.filter(team=team, name=name).first()
    if environment is None:
        raise NotFound(f"There is no environment named {name} in {team}")
    return environment


def runs_found(
    actor: Actor, *, state: str = "", agent: str = "", provider: str = "", text: str = ""
) -> RowQuerySet[Run]:
    """The runs an actor may see that match every filter given.

    `text` is looked for in titles and in the commands the policy was asked about, as the record
    keeps them: a masked secret is not found. An unknown `state` raises InvalidInput.
    """
    runs = runs_visible(actor)
    if state:
        if state not in RunState:
            states = ", ".join(RunState.values)
            problem = Problem(path="state", message=f"{state!r} is not one of: {states}")
            raise InvalidInput(problems=[problem])
        runs = runs.filter(state=state)
    if agent:
        runs = runs.filter(agent__name=agent)
    if provider:
        runs = runs.filter(provider=provider)
    if text:
        runs = runs.filter(Q(title__icontains=text) | Exists(_commands_with(text)))
    return runs


def _commands_with(text: str) -> QuerySet[Decision]:
    asked = Q()
    # A database may keep other letters than ASCII as they are or as escapes.
    for ascii_only in (True, False):
        words = json.dumps(text, ensure_ascii=ascii_only)[1:-1]
        asked |= Q(authority_request__command__icontains=words)
    return Decision.objects.filter(asked, trajectory=OuterRef("trajectory"))


def output_tail(execution: Execution, size: int = 4000) -> bytes:
    """Return the last bytes a running command has written, both streams as they came."""
    pieces: list[bytes] = []
    missing = size
    for data in execution.chunks.order_by("-id").values_list("data", flat=True).iterator(20):
        pieces.append(bytes(data)[-missing:])
        missing -= len(pieces[-1])
        if missing <= 0:
            break
    return b"".join(reversed(pieces))


def run_facts(run: Run) -> dict[str, object]:
    """Return what the nested trajectory says of its run at the top."""
    return {
        "run_id": run.ref,
        "agent_name": run.agent.name,
        "owner": run.agent.owner.email,
        "status": run.state,
        "title": run.title,
        "group": run.group,
        "policy": run.version.policy.name,
        "policy_version": run.version.number,
        "environment": run.environment.name,
        "sandbox_provider": run.provider,
        "started_at": run.created_at.isoformat(),
        "ended_at": run.ended_at.isoformat() if run.ended_at else None,
        "reason": run.reason,
    }
