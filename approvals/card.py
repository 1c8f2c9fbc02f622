"""What people see of a request: the row in the queue, and the card they decide from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.db.models import Count, Q

from approvals.eligibility import why_not_decide
from approvals.lens import Lens, PartView, command_lens
from approvals.models import Decision, Request, RequestKind, RequestState, Verdict, Vote
from approvals.selectors import earlier_like, inbox
from omniweb.accounts.permissions import Actor
from omniweb.core.canonical import digest
from omniweb.core.templatetags.ui import duration
from omniweb.core.text import ascii_host
from trajectories.models import Step, Trajectory
from trajectories.steps import StepKind
from trajectories.viewer.executions import execution_view

Data = Mapping[str, Any]

QUEUE_SIZE = 40
# How far back "just before" looks, and how much of it is shown.
STEPS_BACK, STEPS_SHOWN = 80, 4
# Which edge a row has: colour says how much is at stake.
_EDGES = {"critical": "high", "high": "med"}


@dataclass(frozen=True, kw_only=True)
class Row:
    """A request in the queue."""

    ref: str
    since: datetime
    what: str
    who: str
    edge: str
    need: str


@dataclass(frozen=True, kw_only=True)
class Queue:
    """One page of the queue, and the counts of its filters."""

    rows: list[Row]
    kind: str
    page: int
    counts: Mapping[str, int]

    @property
    def total(self) -> int:
        """How many requests pass the filter."""
        return self.counts[self.kind]

    @property
    def older(self) -> int | None:
        """The number of the next page, if there is one."""
        return self.page + 1 if self.page * QUEUE_SIZE < self.total else None

    @property
    def newer(self) -> int | None:
        """The number of the page before, if there is one."""
        return self.page - 1 if self.page > 1 else None


def queue_of(actor: Actor, *, kind: str = "", page: int = 1) -> Queue:
    """Return a page of what waits: riskiest first, then oldest; `kind` is one of RequestKind."""
    waiting = inbox(actor)
    counts = waiting.aggregate(
        all=Count("id"), **{name: Count("id", filter=Q(kind=name)) for name in RequestKind.values}
    )
    counts[""] = counts.pop("all")
    kind = kind if kind in counts else ""
    start = (max(page, 1) - 1) * QUEUE_SIZE
    # Sorting keys alone: the rows themselves are wide, and thousands may wait.
    keys = list(inbox(actor, kind).values_list("pk", flat=True)[start : start + QUEUE_SIZE])
    narrow = inbox(actor).filter(pk__in=keys).select_related(None)
    rows = (
        narrow.select_related("agent", "trajectory")
        .only(*_ROW_FIELDS)
        .annotate(approvals=Count("votes", filter=Q(votes__verdict=Verdict.APPROVE)))
    )
    return Queue(rows=list(map(_row, rows)), kind=kind, page=max(page, 1), counts=counts)


_ROW_FIELDS = (
    *("created_at", "kind", "risk", "candidate", "lines", "terms"),
    *("agent__name", "trajectory__title"),
)


def _row(request: Any) -> Row:
    needed = request.votes_needed
    task = request.trajectory.title
    who = (request.agent.name, task, request.candidate.get("environment", ""))
    return Row(
        ref=request.ref,
        since=request.created_at,
        what=summary(request),
        who=" · ".join(part for part in who if part),
        edge=_EDGES.get(request.risk, ""),
        need=f"{request.approvals} of {needed}" if needed > 1 else "1 vote",
    )


def summary(request: Request) -> str:
    """Return in a few words what a request is about: the command, or what a sandbox would get."""
    if request.kind == RequestKind.EXECUTION:
        return str(request.candidate.get("command", ""))
    return ", ".join(f"{said} {what}" for what, said in map(_asked, request.lines))


def _asked(line: Data) -> tuple[str, str]:
    """Return what a sandbox is to get, and what kind of thing that is."""
    target, details = line.get("target", {}), line.get("metadata", {})
    resource = target.get("resource", "")
    match line.get("capability"):
        case "sandbox.network.configure":
            host = target.get("host", "*")
            if host == "*":
                return "every host", "network to"
            verb = "no network to" if details.get("mode") == "deny" else "network to"
            return ascii_host(host), verb
        case "sandbox.image.use":
            return resource, "image"
        case "sandbox.filesystem.mount":
            mode = "read and write" if details.get("mode") == "read_write" else "read only"
            return f"{resource} → {target.get('path', '')}", f"folder of the host, {mode}:"
        case "sandbox.environment.set":
            return ", ".join(details.get("names", [])), "variables"
        case "sandbox.resources.set":
            given = (f"{name} {value}" for name, value in details.items() if value)
            return ", ".join(given), "resources"
        case "secret.use":
            return resource, "secret"
        case other:
            return " ".join(map(str, target.values())), str(other)


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
    what, said = _asked(line | {"metadata": asked.get("metadata", {})})
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
