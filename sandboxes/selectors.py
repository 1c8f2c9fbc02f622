"""Reads that start from what the actor may see."""

from __future__ import annotations

from django.db.models import Count, Q, QuerySet

from omniweb.accounts.models import Team
from omniweb.accounts.permissions import Actor
from omniweb.core.errors import NotFound
from sandboxes.models import Environment, Execution, Profile, Run, Sandbox
from sandboxes.models.sandbox import GONE


def environments_visible(actor: Actor) -> QuerySet[Environment]:
    """The environments of an actor's team."""
    return Environment.objects.filter(team=actor.team).order_by("name")


def profiles_visible(actor: Actor) -> QuerySet[Profile]:
    """The profiles of an actor's team, with all they name."""
    return Profile.objects.filter(agent__team=actor.team).select_related(
        "agent__owner", "policy", "environment"
    )


def runs_visible(actor: Actor) -> QuerySet[Run]:
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


def executions_visible(actor: Actor) -> QuerySet[Execution]:
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


def sandboxes_visible(actor: Actor) -> QuerySet[Sandbox]:
    """The sandboxes an actor may see: their team's, or for an agent its own."""
    sandboxes = Sandbox.objects.filter(team=actor.team).select_related(
        "run__agent", "run__environment", "run__trajectory"
    )
    return sandboxes.filter(run__agent=actor.agent) if actor.agent else sandboxes


def sandboxes_live(actor: Actor) -> QuerySet[Sandbox]:
    """The sandboxes that are not gone."""
    return sandboxes_visible(actor).exclude(state__in=GONE)


def environment_named(team: Team, name: str) -> Environment:
    """Return a team's environment by name; raises NotFound."""
    environment = Environment.objects.filter(team=team, name=name).first()
    if environment is None:
        raise NotFound(f"There is no environment named {name} in {team}")
    return environment
