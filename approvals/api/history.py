"""Looking back over the API: policies tried on what was decided before."""

from __future__ import annotations

import json
from datetime import date, datetime

from ninja import Query, Schema
from pydantic import Field

from approvals.approved import MAX_CHOSEN, suggestion
from approvals.bisect import Answer, answers
from approvals.hits import rule_history
from approvals.models import Policy, Simulation, SimulationState
from approvals.over import Over
from approvals.policy.decision import AuthorityRequest, Effect
from approvals.policy.simulate import recorded_request
from approvals.policy.suggest import Covered
from approvals.questions import question
from approvals.selectors import (
    decisions_visible,
    policies_visible,
    simulations_visible,
    version_of,
    versions_asked,
)
from approvals.services.simulations import simulation_cancel, simulation_start
from omniweb.accounts.http import Request
from omniweb.accounts.operations import Operations
from omniweb.accounts.permissions import Action
from omniweb.accounts.selectors import agents_visible
from omniweb.core.errors import InvalidInput, Problem
from omniweb.core.pagination import paginate
from omniweb.core.schemas import Body, Json, Listing, PageQuery, Text, listing

router = Operations(tags=["Policies"])


class SimulationOut(Schema):
    """A policy text replayed over recorded decisions."""

    id: str
    policy: str
    version: int | None = Field(description="The version that was tried, null for a draft")
    state: SimulationState
    created_by: str | None
    created_at: datetime
    ended_at: datetime | None
    over: Json = Field(description="Which decisions; what is not named does not narrow it")
    total: int = Field(description="How many decisions there were at the start")
    done: int
    reason: str
    result: Json = Field(
        description="Once finished: counts by direction, rule and agent, the first divergence of"
        " each run, and examples, looser ones first"
    )

    @classmethod
    def of(cls, row: Simulation) -> SimulationOut:
        """Show a simulation."""
        return cls(
            id=row.ref,
            policy=row.policy.ref,
            version=row.version.number if row.version else None,
            state=SimulationState(row.state),
            created_by=row.created_by.email if row.created_by else None,
            created_at=row.created_at,
            ended_at=row.ended_at,
            over={name: value for name, value in row.over.items() if name != "agent_id"},
            total=row.total,
            done=row.done,
            reason=row.reason,
            result=row.result,
        )


class SimulationIn(Body):
    """A draft text or the number of a version, and which decisions it is tried on."""

    source: Text | None = Field(None, max_length=1_000_000)
    version: int | None = None
    everywhere: bool = Field(False, description="Also what other policies decided")
    agent: Text = Field("", description="An agent's reference")
    since: datetime | None = Field(None, description="From this moment on")
    until: datetime | None = Field(None, description="Before this moment")
    capability: Text = Field("", max_length=100, description="Such as process.exec or sandbox.*")
    under: int | None = Field(None, description="Decided under this version of the policy")


@router.operation(
    "POST",
    "/policies/{ref}/simulations",
    SimulationOut,
    people=Action.CONFIGURE,
    status=201,
    makes=True,
)
def simulation_create_view(request: Request, ref: str, body: SimulationIn) -> SimulationOut:
    """Try a draft or a version on recorded decisions; look at it again for how far it is."""
    policy = policies_visible(request.actor).by_ref(ref)
    if (body.source is None) == (body.version is None):
        problem = Problem(path="source", message="try a source or a version")
        raise InvalidInput(problems=[problem])
    simulation = simulation_start(
        actor=request.actor,
        policy=policy,
        source=body.source or "",
        version=version_of(request.actor, ref, body.version) if body.version else None,
        over=Over(
            everywhere=body.everywhere,
            agent=agents_visible(request.actor).by_ref(body.agent) if body.agent else None,
            since=_aware("since", body.since),
            until=_aware("until", body.until),
            capability=body.capability,
            under=body.under,
        ),
    )
    return SimulationOut.of(simulation)


def _aware(name: str, moment: datetime | None) -> datetime | None:
    if moment is not None and moment.tzinfo is None:
        problem = Problem(path=name, message="a time needs its offset", suggestion="add Z for UTC")
        raise InvalidInput(problems=[problem])
    return moment


@router.operation("GET", "/policies/{ref}/simulations", Listing[SimulationOut], people=Action.VIEW)
def simulations_list_view(
    request: Request, ref: str, page: Query[PageQuery]
) -> Listing[SimulationOut]:
    """List what was tried of a policy."""
    policy = policies_visible(request.actor).by_ref(ref)
    rows = simulations_visible(request.actor).filter(policy=policy)
    return listing(paginate(rows, page.cursor, page.limit), SimulationOut.of)


@router.operation("GET", "/simulations/{ref}", SimulationOut, people=Action.VIEW)
def simulation_view(request: Request, ref: str) -> SimulationOut:
    """Get a simulation: how far it is, and what it found."""
    return SimulationOut.of(simulations_visible(request.actor).by_ref(ref))


@router.operation("POST", "/simulations/{ref}/cancel", SimulationOut, people=Action.CONFIGURE)
def simulation_cancel_view(request: Request, ref: str) -> SimulationOut:
    """Stop a simulation; one that is over stays as it is."""
    row = simulations_visible(request.actor).by_ref(ref)
    simulation_cancel(actor=request.actor, simulation=row)
    return SimulationOut.of(simulations_visible(request.actor).get(pk=row.pk))


class BisectIn(Body):
    """One question: a command, or a whole authority request."""

    command: Text | list[Text] | None = Field(
        None, description="A shell line, or the words of a command"
    )
    request: Json | None = None


class AnswerOut(Schema):
    """What one version of a policy says to a question."""

    version: int
    effect: Effect | None = Field(description="null where the document can no longer be read")
    by: str = Field(description="The rule, or in brackets what decided instead of one")
    reason: str
    is_change: bool = Field(description="Whether the version before it said something else")

    @classmethod
    def of(cls, row: Answer) -> AnswerOut:
        """Show an answer."""
        return cls(
            version=row.version.number,
            effect=Effect(row.effect) if row.effect else None,
            by=row.by,
            reason=row.reason,
            is_change=row.is_change,
        )


class Bisected(Schema):
    """What every version of a policy says to one question, oldest first."""

    policy: str
    request: Json | None = Field(description="null where a secret was masked in what was asked")
    answers: list[AnswerOut]


@router.operation("POST", "/policies/{ref}/bisect", Bisected, people=Action.VIEW)
def policy_bisect_view(request: Request, ref: str, body: BisectIn) -> Bisected:
    """Ask all versions of a policy the same: which of them changed the answer."""
    asked = question(body.command, body.request)
    policy = policies_visible(request.actor).by_ref(ref)
    return _bisected(policy, asked)


@router.operation("GET", "/decisions/{ref}/versions", Bisected, people=Action.VIEW)
def decision_versions_view(request: Request, ref: str) -> Bisected:
    """Ask all versions of its policy what was asked in a decision.

    There are no answers where a secret was masked in it, so that it cannot be asked again.
    """
    decision = decisions_visible(request.actor).by_ref(ref)
    asked = recorded_request(json.dumps(decision.authority_request))
    policy = decision.version.policy
    if asked is None:
        return Bisected(policy=policy.ref, request=None, answers=[])
    return _bisected(policy, asked)


def _bisected(policy: Policy, asked: AuthorityRequest) -> Bisected:
    told = answers(versions_asked(policy), asked)
    return Bisected(
        policy=policy.ref, request=asked.to_dict(), answers=[AnswerOut.of(one) for one in told]
    )


class DayOut(Schema):
    """How often a rule decided on one day, in UTC."""

    day: date
    hits: int


class RuleHistoryOut(Schema):
    """A rule of a policy, as the newest version with it has it, and what it decided."""

    rule_id: str
    effect: Effect
    capability: str
    reason: str
    rule: Json
    versions: list[int] = Field(description="The versions that have it, oldest first")
    days: list[DayOut] = Field(description="The last thirty, oldest first")
    last_hit: datetime | None
    examples: list[str] = Field(description="The newest decisions it was part of")


@router.operation("GET", "/policies/{ref}/rules/{path:rule_id}", RuleHistoryOut, people=Action.VIEW)
def policy_rule_view(request: Request, ref: str, rule_id: str) -> RuleHistoryOut:
    """Get a rule: what it says, how often it decided, and what lately."""
    history = rule_history(policies_visible(request.actor).by_ref(ref), rule_id)
    rule = history.rule
    return RuleHistoryOut(
        rule_id=rule.rule_id,
        effect=Effect(history.effect),
        capability=rule.capability,
        reason=rule.reason or "",
        rule=rule.model_dump(mode="json", exclude_defaults=True),
        versions=[version.number for version in history.versions],
        days=[DayOut(day=day, hits=count) for day, count in history.days],
        last_hit=history.last_hit,
        examples=[row.ref for row in history.examples],
    )


class SuggestIn(Body):
    """Approved requests that a rule is to cover."""

    requests: list[Text] = Field(max_length=MAX_CHOSEN, description="Their references")


class CoveredOut(Schema):
    """What a suggested draft says to one of the requests."""

    request: Json
    effect: Effect
    by: str
    reason: str

    @classmethod
    def of(cls, row: Covered) -> CoveredOut:
        """Show an answer."""
        return cls(request=row.request.to_dict(), effect=row.effect, by=row.by, reason=row.reason)


class Suggested(Schema):
    """The narrowest allow rules for what was approved, as a draft; nothing is saved."""

    rules: list[Json]
    source: str = Field(description="The active version with the rules and a kept test for each")
    covered: list[CoveredOut]
    left: list[CoveredOut] = Field(description="What would still not be allowed, and why")


@router.operation("POST", "/policies/{ref}/suggest", Suggested, people=Action.CONFIGURE)
def policy_suggest_view(request: Request, ref: str, body: SuggestIn) -> Suggested:
    """Suggest the narrowest rules for approved requests; then try the draft on history."""
    found = suggestion(policies_visible(request.actor).by_ref(ref), body.requests)
    return Suggested(
        rules=found.rules,
        source=found.source,
        covered=[CoveredOut.of(one) for one in found.covered],
        left=[CoveredOut.of(one) for one in found.left],
    )
