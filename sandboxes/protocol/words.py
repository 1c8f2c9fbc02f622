"""What an agent reads in place of a result: one paragraph that says what to do next.

The protocol has no field for any of this, and its clients discard the bodies of errors.
"""

from __future__ import annotations

from django.conf import settings

from approvals.models import Request, RequestState
from sandboxes.holdups import holdup_of
from sandboxes.models import Execution, ExecutionState, Run

AGAIN = "Nothing has run; send the same command again to go on waiting."


def refusal(execution: Execution) -> str:
    """Say why a command that never started was not run."""
    if execution.state == ExecutionState.DENIED:
        return f"{_policy_says(execution, 'denies this command')} Nothing has run."
    return f"{execution.reason.rstrip()} Nothing has run."


def _policy_says(execution: Execution, verdict: str) -> str:
    version = execution.run.version
    decision = execution.decision
    rules = ", ".join(decision.matched_rules) if decision else ""
    rule = f", rule {rules}" if rules else ""
    reason = f": {decision.reason}" if decision and decision.reason else "."
    return f"The policy {version.policy.name} (version {version.number}{rule}) {verdict}{reason}"


def still_waiting(execution: Execution) -> str:
    """Say what a command that has not ended waits for, and that asking again goes on waiting."""
    if execution.state == ExecutionState.RUNNING:
        return (
            "The command is still running, longer than this answer could wait. Send the same "
            "command again to wait for its result; it will not be started a second time."
        )
    request = _open_request(execution)
    if request is None:
        holdup = holdup_of(execution.run)
        why = f" {holdup}" if holdup else ""
        return f"The command may run, but its sandbox is not ready yet.{why} {AGAIN}"
    return f"{_waits_for(execution, request)} {AGAIN}"


def _open_request(execution: Execution) -> Request | None:
    """Return what is in the way: the command's own request, or that of its run's sandbox."""
    subjects = (execution.pk, execution.run_id)
    found = Request.objects.filter(subject_id__in=subjects, state=RequestState.OPEN)
    return found.order_by("id").first()


def _waits_for(execution: Execution, request: Request) -> str:
    roles = request.terms.get("roles") or []
    who = " or ".join(roles) if roles else "approver"
    what = "This command" if request.subject_id == execution.pk else "The sandbox of this session"
    reasons = " ".join(dict.fromkeys(line["reason"] for line in request.lines if line["reason"]))
    return (
        f"{what} waits for approval by a person ({who} of {execution.run.team.name}): "
        f"{request.sentence.rstrip('.')}. {reasons} "
        f"They can decide at {settings.PUBLIC_URL}/inbox/{request.ref} ."
    )


def lost_worker(execution: Execution) -> str:
    """Say that nobody knows how a command ended."""
    return (
        f"OmniWeb does not know how this command ended: {execution.reason}. "
        "It may have run in part or to its end; look before you send it again."
    )


def stopped(execution: Execution) -> str:
    """Say that a running command was stopped."""
    return f"The command was stopped before its end: {execution.reason}."


def session_over(run: Run) -> str:
    """Say that nothing runs in a session any more."""
    reason = f": {run.reason.rstrip('.')}" if run.reason else ""
    return f"This session is over ({run.state}){reason}. Nothing has run; open a new session."


def sandbox_replaced(reason: str) -> str:
    """Say that what earlier commands left behind is gone."""
    return (
        f"[OmniWeb: the sandbox of this session was lost ({reason.rstrip('.')}). A new one took its "
        "place before this command; files that earlier commands made are gone.]\n"
    )
