"""Casting votes. Two people at the same instant: one decides, the other learns who was first."""

from __future__ import annotations

from django.db import IntegrityError, transaction

from approvals.eligibility import why_not_decide
from approvals.models import Grant, Request, RequestState, Scope, Verdict, Vote
from approvals.quorum import Outcome, tally
from approvals.services.requests import request_end
from omniweb.accounts.permissions import Actor
from omniweb.core.audit import audit_write
from omniweb.core.errors import AlreadyDecided, InvalidInput, NotPermitted, Problem, Stale
from omniweb.core.realtime import publish
from trajectories.redaction import redactor
from trajectories.services import step_append, trajectory_held
from trajectories.steps import StepKind

MAX_REASON = 4000


def vote_cast(
    *,
    actor: Actor,
    request: Request,
    verdict: Verdict,
    review_token: str,
    scope: Scope = Scope.ONCE,
    reason: str = "",
) -> Vote:
    """Cast a vote; when it decides, what waits moves on in the same transaction.

    `review_token` is the one of the card the voter saw. Raises NotPermitted with
    the reason, Stale when the card has changed, AlreadyDecided naming who was
    first, InvalidInput for a scope the policy does not offer.
    """
    refusal = why_not_decide(actor, request)
    voter = actor.user
    if refusal or voter is None:
        raise NotPermitted(refusal or "Only a person may decide")
    _check_input(request, verdict, scope, reason)
    # Everyone reads it, the agent included.
    reason = redactor().text(reason)
    # Excludes the other voters of this request until this vote has been counted.
    with trajectory_held(request.trajectory_id):
        request = _fresh(request)
        if request.state != RequestState.OPEN:
            raise AlreadyDecided(decided_sentence(request))
        if review_token != request.review_token:
            raise Stale("The request has changed since you saw it; look again, then decide")
        vote = Vote(
            request=request,
            voter=voter,
            verdict=verdict,
            scope=scope,
            reason=reason,
            review_token=review_token,
        )
        _vote_record(actor, vote)
        outcome = tally(request.votes.values_list("verdict", flat=True), request.votes_needed)
        if outcome is not Outcome.OPEN:
            _decide(request, outcome, vote)
        publish("inbox", request.team_id)
    return vote


def _check_input(request: Request, verdict: Verdict, scope: Scope, reason: str) -> None:
    if verdict == Verdict.APPROVE and scope not in request.scopes:
        possible = " or ".join(request.scopes)
        problem = Problem(path="scope", message=f"this can be approved for: {possible}")
        raise InvalidInput(problems=[problem])
    if len(reason) > MAX_REASON:
        problem = Problem(path="reason", message=f"a reason has at most {MAX_REASON} characters")
        raise InvalidInput(problems=[problem])


def _fresh(request: Request) -> Request:
    rows = Request.objects.select_related("trajectory", "agent", "owner", "decided_by")
    return rows.get(pk=request.pk)


def _vote_record(actor: Actor, vote: Vote) -> None:
    request = vote.request
    try:
        with transaction.atomic():
            vote.save(force_insert=True)
    except IntegrityError:
        raise AlreadyDecided("You have voted on this request already") from None
    said = {"verdict": vote.verdict, "scope": vote.scope, "reason": vote.reason}
    step_append(
        trajectory=request.trajectory,
        kind=StepKind.VOTE,
        actor=actor.label,
        payload={
            "request": request.ref,
            "voter": actor.label,
            "subject": str(request.subject_id),
            **said,
        },
    )
    audit_write(actor=actor, act=f"request.{vote.verdict}", subject=request, **said)


def _decide(request: Request, outcome: Outcome, vote: Vote) -> None:
    approved = outcome is Outcome.APPROVED
    # The narrowest scope any voter gave is what everybody agreed to.
    votes = request.votes.filter(verdict=Verdict.APPROVE)
    scopes = set(votes.values_list("scope", flat=True)) if approved else set()
    scope = Scope.ONCE if Scope.ONCE in scopes else Scope.RUN if scopes else ""
    request_end(
        request=request,
        state=RequestState.APPROVED if approved else RequestState.REJECTED,
        actor=vote.voter.email,
        reason=vote.reason,
        decided_by=vote.voter,
        scope=scope,
    )
    if scope == Scope.RUN:
        Grant.objects.create(
            team_id=request.team_id,
            agent=request.agent,
            trajectory=request.trajectory,
            request=request,
            given_by=vote.voter,
            digest=request.digest,
        )


def decided_sentence(request: Request) -> str:
    """Say how a request ended and who was first."""
    match request.state:
        case RequestState.APPROVED | RequestState.SPENT:
            return f"{request.decided_by} was first and approved this request"
        case RequestState.REJECTED:
            return f"{request.decided_by} was first and rejected this request"
        case RequestState.EXPIRED:
            return "This request expired before anyone decided"
        case RequestState.WITHDRAWN:
            return "The agent no longer waits for this request"
        case _:
            return "This request was replaced by a newer one"
