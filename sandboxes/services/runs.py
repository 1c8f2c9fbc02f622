"""Opening, clearing, refusing and ending runs."""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from typing import Any

from django.db import transaction

from approvals.models import Decision, Request, RequestState
from approvals.services.decisions import Asking, authority_decide
from approvals.services.requests import request_open, request_spend, request_withdraw
from omniweb.accounts.models import AgentIdentity
from omniweb.accounts.permissions import Action, Actor
from omniweb.core.audit import audit_write
from omniweb.core.clock import now
from omniweb.core.errors import (
    Conflict,
    InvalidInput,
    NotPermitted,
    PolicyDenied,
    SandboxUnsupported,
)
from omniweb.core.jobs import enqueue
from omniweb.core.realtime import publish
from omniweb.core.transitions import transition
from sandboxes.authority import manifest_requests
from sandboxes.candidate import manifest_candidate, manifest_digest
from sandboxes.manifest import Manifest
from sandboxes.models import Environment, Execution, ExecutionState, Profile, Run, RunState
from sandboxes.providers.registry import (
    check_environment,
    provider_spec,
    satisfies_required_sandbox,
)
from sandboxes.secrecy import redactor_for
from sandboxes.services.sandboxes import sandbox_current, sandbox_intend, sandbox_terminate
from sandboxes.services.secrets import secrets_check
from trajectories.patterns import MASK
from trajectories.services import (
    step_append,
    trajectory_held,
    trajectory_open,
    trajectory_seal,
)
from trajectories.steps import StepKind

MAX_TITLE = 200


def run_open(
    *,
    actor: Actor,
    manifest: Manifest | None = None,
    title: str = "",
    group: str = "",
) -> Run:
    """Open a run of the acting agent, asking for everything its manifest needs at once.

    `manifest` is what this session says on top of its environment's. Raises
    SandboxUnsupported when it cannot be kept, PolicyDenied when a policy refuses
    it (both leave a refused run as evidence), Conflict when the agent has no
    profile or its environment is off.
    """
    actor.require(Action.RUN)
    if actor.agent is None:
        raise NotPermitted("Only an agent opens runs")
    profile = _profile(actor.agent)
    environment = profile.environment
    whole = Manifest.parse(environment.manifest)
    if manifest is not None:
        whole = whole.merged_with(manifest)
    with transaction.atomic():
        run = _create(profile, whole, title, group)
        try:
            check_environment(environment.provider, environment.options, whole)
            secrets = secrets_check(team=actor.team, provider=environment.provider, manifest=whole)
        except InvalidInput as error:
            refusal: Exception | None = SandboxUnsupported(error.detail, run=run.ref)
            run_refuse(run=run, reason=error.detail)
        else:
            refusal = _decide(run, whole, secrets)
    if refusal:
        raise refusal
    return run


def _profile(agent: AgentIdentity) -> Profile:
    profile = (
        Profile.objects.filter(agent=agent)
        .select_related("policy__active_version__policy", "environment", "agent__owner")
        .first()
    )
    if profile is None:
        raise Conflict(f"{agent.name} has no policy and environment yet: choose them on its page")
    if not profile.environment.is_enabled:
        name = profile.environment.name
        raise Conflict(f"The environment {name} is off; an operator must turn it on first")
    return profile


def _create(profile: Profile, manifest: Manifest, title: str, group: str) -> Run:
    environment: Environment = profile.environment
    agent, version = profile.agent, profile.policy.active_version
    if version is None:
        raise Conflict(f"The policy {profile.policy} has no active version")
    run = Run(
        team_id=agent.team_id,
        agent=agent,
        version=version,
        environment=environment,
        provider=environment.provider,
        options=environment.options,
        manifest=manifest.to_dict(),
        manifest_digest=manifest.digest(),
    )
    clean = redactor_for(run)
    run.title = clean.text(title.strip())[:MAX_TITLE]
    run.group = clean.text(group.strip())[:MAX_TITLE]
    run.trajectory = trajectory_open(team=agent.team, title=run.title or f"Run of {agent.name}")
    run.save(force_insert=True)
    step_append(
        trajectory=run.trajectory,
        kind=StepKind.RUN_OPENED,
        actor=f"agent {agent.name}",
        payload={
            "run": run.ref,
            "agent": agent.name,
            "owner": agent.owner.email,
            "policy": version.policy.name,
            "policy_version": version.number,
            "policy_digest": version.digest,
            "environment": environment.name,
            "provider": environment.provider,
            "execution_surface": provider_spec(environment.provider).execution_surface,
            "manifest": run.manifest,
            "manifest_digest": run.manifest_digest,
            "task": run.title,
            "group": run.group,
            "options": _recorded_options(run),
        },
    )
    publish("runs", run.team_id)
    return run


def _recorded_options(run: Run) -> dict[str, Any]:
    secret = provider_spec(run.provider).secret_options
    return {name: MASK if name in secret else value for name, value in run.options.items()}


def _decide(
    run: Run, manifest: Manifest, secrets: Mapping[str, Mapping[str, Any]]
) -> Exception | None:
    asking = asking_for(run, run.id)
    surface = provider_spec(run.provider).execution_surface
    requests = manifest_requests(
        manifest, provider=run.provider, execution_surface=surface, secrets=secrets
    )
    decisions = authority_decide(asking=asking, requests=requests)
    denied = [decision for decision in decisions if decision.effect == "deny"]
    asks = [decision for decision in decisions if decision.effect == "ask"]
    if denied:
        reason = "; ".join(dict.fromkeys(decision.reason for decision in denied))
        run_refuse(run=run, reason=reason)
        return PolicyDenied(reason, decision=decision_facts(denied[0]) | {"run": run.ref})
    if asks:
        request_open(asking=asking, candidate=manifest_candidate(run, asks), decisions=asks)
        transition(run, RunState.WAITING)
    else:
        run_clear(run=run)
    return None


def asking_for(run: Run, subject: uuid.UUID, env: Mapping[str, str] | None = None) -> Asking:
    """Return who asks when something in a run is to be decided."""
    return Asking(
        agent=run.agent,
        trajectory=run.trajectory,
        version=run.version,
        subject_id=subject,
        is_isolated=satisfies_required_sandbox(run.provider, run.options),
        clean=redactor_for(run, env),
    )


def decision_facts(decision: Decision) -> dict[str, Any]:
    """Return a decision as an answer tells it to an agent."""
    return {
        "decision": decision.ref,
        "capability": decision.capability,
        "effect": decision.effect,
        "reason_code": decision.reason_code,
        "reason": decision.reason,
        "matched_rules": decision.matched_rules,
    }


def run_clear(*, run: Run) -> None:
    """Let a run begin: everything its manifest asks for is allowed."""
    with trajectory_held(run.trajectory_id):
        moved = transition(run, RunState.ACTIVE, source=["opening", "waiting"], cleared_at=now())
        if moved and provider_spec(run.provider).supports_execution:
            sandbox_intend(run=run)
        publish("run", run.id)
        publish("runs", run.team_id)


def run_refuse(*, run: Run, reason: str, state: str = ExecutionState.REJECTED) -> None:
    """End a run that may not begin, and with it every command that waited for it."""
    reason = redactor_for(run).text(reason)
    with trajectory_held(run.trajectory_id):
        if not transition(run, RunState.REFUSED, reason=reason, ended_at=now()):
            return
        for execution in run.executions.filter(state__in=["queued", "waiting"]):
            transition(execution, state, reason=reason, ended_at=now())
            publish("execution", execution.id)
        _requests_withdraw(run, "The run was refused")
        _tell_end(run, reason)


def _requests_withdraw(run: Run, reason: str) -> None:
    """Take back what people were asked: a sealed record could not tell of their decision."""
    for request in Request.objects.filter(trajectory_id=run.trajectory_id, state="open"):
        request_withdraw(request=request, reason=reason)


def run_decided(*, request: Request) -> None:
    """Act on the end of the request a run's manifest waited for."""
    run = Run.objects.select_related("trajectory", "agent", "environment", "version__policy").get(
        pk=request.subject_id
    )
    if request.state == RequestState.APPROVED:
        if request_spend(request=request, digest=manifest_digest(run)):
            run_clear(run=run)
            for execution in run.executions.filter(state=ExecutionState.QUEUED):
                enqueue("sandboxes.execution_run", execution=execution.ref)
            # A command may have asked for a person of its own meanwhile.
            run_settle(run=run)
        return
    if request.state == RequestState.WITHDRAWN:
        return
    expired = request.state == RequestState.EXPIRED
    run_refuse(
        run=run,
        reason=refusal_words(request),
        state=ExecutionState.EXPIRED if expired else ExecutionState.REJECTED,
    )


def refusal_words(request: Request) -> str:
    """Return what the agent reads: the reviewer's own words, and who said them."""
    if request.state == RequestState.REJECTED:
        by = f"Rejected by {request.decided_by}"
        return f"{by}: {request.reason}" if request.reason else f"{by}, without a reason."
    return request.reason


def run_touch(*, run: Run) -> None:
    """Note that the agent is still there."""
    Run.objects.filter(pk=run.pk).update(last_seen_at=now())


def run_settle(*, run: Run) -> None:
    """Bring a run's state in line with whether a request of its is open."""
    is_waiting = Request.objects.filter(trajectory_id=run.trajectory_id, state="open").exists()
    if is_waiting:
        transition(run, RunState.WAITING, source=["active"])
    else:
        transition(run, RunState.ACTIVE, source=["waiting"], where={"cleared_at__isnull": False})
    publish("run", run.id)
    publish("runs", run.team_id)


def run_end(*, actor: Actor, run: Run, outcome: RunState, reason: str = "") -> bool:
    """Begin to end a run: nothing new starts, what runs is stopped, its sandbox goes.

    False when it was over already.
    """
    if not (actor.agent and actor.agent.pk == run.agent_id):
        actor.require(Action.RUN_END)
    reason = redactor_for(run).text(reason)
    with trajectory_held(run.trajectory_id):
        if not transition(
            run,
            RunState.FINISHING,
            source=["active", "waiting"],
            outcome=outcome,
            reason=reason,
        ):
            return False
        _requests_withdraw(run, "The run has ended")
        _executions_stop(run.executions.all())
        if actor.user:
            audit_write(actor=actor, act="run.end", subject=run, outcome=outcome, reason=reason)
        enqueue("sandboxes.run_finish", run=run.ref)
        publish("run", run.id)
        publish("runs", run.team_id)
    return True


def _executions_stop(executions: Any) -> None:
    moment = now()
    waiting: Sequence[Execution] = executions.filter(state__in=["waiting", "queued"])
    for execution in waiting:
        transition(execution, ExecutionState.CANCELLED, reason="The run has ended", ended_at=moment)
        publish("execution", execution.id)
    executions.filter(state__in=["starting", "running"]).update(cancel_requested_at=moment)


def run_finish(*, run: Run) -> None:
    """Close a finishing run once its commands have ended, ending its sandbox first.

    Does nothing while a command still runs: its end rings again.
    """
    if run.state != RunState.FINISHING:
        return
    if run.executions.filter(state__in=["starting", "running"]).exists():
        return
    sandbox = sandbox_current(run)
    if sandbox is not None and not sandbox_terminate(sandbox=sandbox, reason="The run has ended"):
        return
    outcome = RunState(run.outcome or RunState.SUCCEEDED)
    with trajectory_held(run.trajectory_id):
        if transition(run, outcome, ended_at=now()):
            _tell_end(run, run.reason)


def _tell_end(run: Run, reason: str) -> None:
    step_append(
        trajectory=run.trajectory,
        kind=StepKind.RUN_ENDED,
        actor="system",
        payload={"run": run.ref, "state": run.state, "reason": reason},
    )
    trajectory_seal(trajectory=run.trajectory)
    publish("run", run.id)
    publish("runs", run.team_id)
