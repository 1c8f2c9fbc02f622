"""Rows in the states tests start from, made through the services that make them in earnest."""

from __future__ import annotations

from approvals.models import Request, Scope, Verdict, Vote
from approvals.services.policies import policy_create
from approvals.services.votes import vote_cast
from omniweb.accounts.permissions import Actor, system
from sandboxes.executor import execution_run
from sandboxes.models import Execution, Profile, Run
from sandboxes.providers.base import Command
from sandboxes.services.executions import execution_ask
from sandboxes.services.runs import run_open
from sandboxes.services.sandboxes import sandbox_provision
from sandboxes.tasks import RUN_ROWS

# Allows everything but what a test asks about.
OPEN_POLICY = """
name: open
mode: permissive
rules:
  ask:
    - {rule_id: ask_git_push, capability: process.exec, command: {prefix: [git, push]},
       reason: Publishing needs a person.}
  deny:
    - {rule_id: deny_rm, capability: process.exec, command: {program: rm},
       reason: Nothing is deleted here.}
"""

# Has no rules at all, so that lines no grammar reads in full run, too.
FREE_POLICY = "name: free\nmode: permissive\nrules: {}\n"


def policy_use(actor: Actor, source: str, name: str = "open") -> None:
    """Put an agent under a policy of a test's own."""
    policy = policy_create(actor=system(actor.team), name=name, source=source)
    Profile.objects.filter(agent=actor.agent).update(policy=policy)


def vote(
    actor: Actor,
    request: Request,
    verdict: Verdict = Verdict.APPROVE,
    *,
    scope: Scope | None = None,
    reason: str = "",
) -> Vote:
    """Decide a request as the person who sees it now."""
    return vote_cast(
        actor=actor,
        request=request,
        verdict=verdict,
        review_token=request.review_token,
        scope=scope or Scope(request.scopes[0]),
        reason=reason,
    )


def run_again(run: Run) -> Run:
    """Return a run as it is now, with what services need."""
    return Run.objects.select_related(*RUN_ROWS).get(pk=run.pk)


def run_ready(agent: Actor, approver: Actor, *, title: str = "flaky checkout test") -> Run:
    """Open a run, approve what its manifest asks for, and make its sandbox."""
    run = run_open(actor=agent, title=title)
    request = Request.objects.filter(subject_id=run.id, state="open").first()
    if request:
        vote(approver, request)
    run = run_again(run)
    for sandbox in run.sandboxes.filter(state="intended"):
        sandbox.run = run
        sandbox_provision(sandbox=sandbox)
    return run_again(run)


def ask(agent: Actor, run: Run, script: str, **options: object) -> Execution:
    """Ask to run a shell line in a run."""
    command = Command(argv=("sh", "-c", script), **options)  # type: ignore[arg-type]  # passed on
    return execution_ask(actor=agent, run=run_again(run), command=command)


def request_of(execution: Execution) -> Request:
    """Return the request a command waits for."""
    return Request.objects.select_related("trajectory", "agent", "owner").get(
        subject_id=execution.id
    )


def work(execution: Execution) -> Execution:
    """Do what a worker does when the doorbell rings; return the execution as it is then."""
    rows = Execution.objects.select_related("decision", *[f"run__{name}" for name in RUN_ROWS])
    execution_run(execution=rows.get(pk=execution.pk))
    return Execution.objects.select_related("stdout", "stderr").get(pk=execution.pk)
