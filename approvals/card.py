"""The card: what people see of a request when they decide it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from approvals.eligibility import why_not_decide
from approvals.lens import Lens, PartView, command_lens
from approvals.models import Decision, Request, RequestKind, RequestState, Verdict, Vote
from approvals.queue import asked_for
from approvals.selectors import earlier_like
from omniweb.accounts.permissions import Action, Actor
from omniweb.core.canonical import digest
from omniweb.core.templatetags.ui import duration
from omniweb.core.text import ascii_host
from trajectories.models import Step, Trajectory
from trajectories.steps import StepKind
from trajectories.viewer.executions import execution_view

Data = Mapping[str, Any]

# How far back "just before" looks, and how much of it is shown.
STEPS_BACK, STEPS_SHOWN = 80, 4


@dataclass(frozen=True, kw_only=True)
class Reason:
    """Why the policy asks: a rule with its words, or words alone."""

    rule: str
    words: str


@dataclass(frozen=True, kw_only=True)
class Earlier:
    """How the same was decided before, for the same agent."""

    approved: int
    total: int
    last_rejection: Request | None

    @property
    def rejected(self) -> int:
        """How many of them were rejected."""
        return self.total - self.approved


@dataclass(frozen=True, kw_only=True)
class Moment:
    """Something that happened in the run just before; `speech` is what the agent said."""

    at: datetime
    command: str = ""
    word: str = ""
    tone: str = ""
    speech: str = ""


@dataclass(frozen=True, kw_only=True)
class Card:
    """A request with everything a decision needs."""

    request: Request
    version: str
    run: str
    task: str
    place: list[str]
    on_host: bool
    lens: Lens | None
    asked: list[PartView]
    reasons: list[Reason]
    earlier: Earlier
    before: list[Moment]
    votes: list[Vote]
    refusal: str | None
    may_configure: bool

    @property
    def candidate(self) -> Data:
        """The exact thing that will happen."""
        shown: Data = self.request.candidate
        return shown

    @property
    def time_limit(self) -> str:
        """How long a command may take, in words."""
        minutes, rest = divmod(int(self.candidate["time_limit_seconds"]), 60)
        return duration(minutes * 60 + rest) if rest else f"{minutes} min"

    @property
    def is_open(self) -> bool:
        """Whether it still waits."""
        return self.request.state == RequestState.OPEN

    @property
    def approvals(self) -> int:
        """How many have approved so far."""
        return sum(vote.verdict == Verdict.APPROVE for vote in self.votes)


def card_of(actor: Actor, request: Request) -> Card:
    """Return a request as the actor sees it."""
    votes = list(request.votes.select_related("voter"))
    opened = _run_opened(request.trajectory)
    is_command = request.kind == RequestKind.EXECUTION
    shown = request.candidate
    return Card(
        request=request,
        version=card_version(request, votes),
        run=opened.get("run", ""),
        task=opened.get("task", ""),
        place=_place(shown),
        on_host=opened.get("execution_surface") == "host",
        lens=command_lens(shown["argv"], shown["command"], shown["parts"]) if is_command else None,
        asked=[] if is_command else _sandbox_parts(request),
        reasons=_reasons(request.lines),
        earlier=_earlier(request),
        before=_just_before(request),
        votes=votes,
        refusal=_refusal(actor, request, votes),
        may_configure=actor.may(Action.CONFIGURE),
    )


def card_version(request: Request, votes: Sequence[Vote]) -> str:
    """Return what changes whenever the card would read differently."""
    return digest([request.review_token, request.state, len(votes)])[:16]


def _refusal(actor: Actor, request: Request, votes: Sequence[Vote]) -> str | None:
    if any(actor.user and vote.voter_id == actor.user.pk for vote in votes):
        return "You have voted; it still needs someone else"
    return why_not_decide(actor, request)


def _run_opened(trajectory: Trajectory) -> Data:
    step = Step.objects.filter(trajectory=trajectory, kind=StepKind.RUN_OPENED).first()
    return step.payload if step else {}


def _place(shown: Data) -> list[str]:
    """Say where it would run, in a few words each."""
    environment, provider = shown.get("environment", ""), shown.get("provider", "")
    network = shown.get("network", {})
    hosts = network.get("allowed_hosts", [])
    if network.get("default") == "allow":
        reach = "open network"
    elif hosts:
        reach = f"network to {', '.join(map(ascii_host, hosts))}"
    else:
        reach = "no network"
    runtime = shown.get("runtime") or ""
    isolation = "gVisor" if runtime == "runsc" else runtime
    words = [environment, provider if provider != environment else "", reach, isolation]
    return [word for word in words if word]


def _sandbox_parts(request: Request) -> list[PartView]:
    """Return everything the manifest gives, what is allowed already included."""
    decisions = Decision.objects.filter(
        trajectory_id=request.trajectory_id, subject_id=request.subject_id
    ).order_by("id")
    return [_sandbox_part(number, decision) for number, decision in enumerate(decisions, start=1)]


def _sandbox_part(number: int, decision: Decision) -> PartView:
    asked = decision.authority_request
    line = {"capability": decision.capability, "target": asked.get("target", {})}
    what, said = asked_for(line | {"metadata": asked.get("metadata", {})})
    rules = ", ".join(decision.matched_rules)
    return PartView(number=number, text=what, effect=decision.effect, rule=rules, why=said)


def _reasons(lines: Sequence[Data]) -> list[Reason]:
    found: dict[Reason, None] = {}
    for line in lines:
        words = line.get("reason", "")
        for rule in line.get("rules") or [""]:
            found.setdefault(Reason(rule=rule, words=words))
    return list(found)


def _earlier(request: Request) -> Earlier:
    decided = list(earlier_like(request).select_related("decided_by"))
    rejected = [item for item in decided if item.state == RequestState.REJECTED]
    return Earlier(
        approved=len(decided) - len(rejected),
        total=len(decided),
        last_rejection=next(iter(rejected), None),
    )


def _just_before(request: Request) -> list[Moment]:
    """Return the last commands and words of the run before it asked."""
    steps = Step.objects.filter(trajectory_id=request.trajectory_id)
    asked = steps.filter(about=request.subject_id).order_by("seq").first()
    end = asked.seq if asked else 0
    window = list(steps.filter(seq__lt=end, seq__gte=end - STEPS_BACK).order_by("seq"))
    commands: dict[Any, list[Step]] = {}
    for step in window:
        if step.about is not None:
            commands.setdefault(step.about, []).append(step)
    moments = [
        Moment(at=step.at, speech=step.payload["text"])
        for step in window
        if step.kind == StepKind.MESSAGE and step.payload["role"] == "assistant"
    ]
    for group in commands.values():
        view = execution_view(group, {})
        if view.command and view.reference:
            moments.append(Moment(at=view.at, command=view.command, word=view.word, tone=view.tone))
    return sorted(moments, key=lambda moment: moment.at)[-STEPS_SHOWN:]
