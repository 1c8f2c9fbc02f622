"""One step as one line: an icon, and phrases that a template escapes and colours."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from omniweb.core.templatetags.states import look_of
from omniweb.core.templatetags.ui import duration, duration_ms, size_words
from trajectories.models import Step
from trajectories.steps import StepKind

# How a phrase is drawn: muted words, code, or the colour of a state.
MUTED, CODE, GOOD, WAIT, BAD = "muted", "code", "good", "wait", "bad"

_EFFECTS = {"allow": ("Allowed", GOOD), "ask": ("Asked", WAIT), "deny": ("Denied", BAD)}
_SCOPES = {"once": "once", "run": "for this run"}
_TONES = {tone: tone for tone in ("good", "wait", "bad", "unsure", "busy")}

Data = Mapping[str, Any]


@dataclass(frozen=True)
class Phrase:
    """A few words and how they are drawn. The words may be an agent's."""

    text: str
    style: str = ""


@dataclass(frozen=True, kw_only=True)
class Line:
    """A step. `speech` is a whole text, shown with its line breaks, after the phrases.

    `also` lists steps that say nothing new; they keep their anchors and their raw JSON.
    """

    seq: int
    at: datetime
    icon: str
    phrases: list[Phrase]
    speech: str = ""
    also: list[int] = field(default_factory=list)


def line_of(step: Step, opened_at: datetime | None = None) -> Line:
    """Return a step as a line; `opened_at` is when the request it votes on was opened."""
    data = step.payload
    icon, words = _WORDS[StepKind(step.kind)]
    if step.kind == StepKind.VOTE:
        phrases = vote_phrases(data, step.at - opened_at if opened_at else None)
        icon = "yes" if data["verdict"] == "approve" else "no"
    else:
        phrases = words(data)
    if step.kind == StepKind.ANNOTATION:
        phrases = [Phrase(step.actor), Phrase(_on_step(data), MUTED)]
    return Line(seq=step.seq, at=step.at, icon=icon, phrases=phrases, speech=_speech(step))


def _speech(step: Step) -> str:
    if step.kind in (StepKind.MESSAGE, StepKind.ANNOTATION, StepKind.NOTE):
        text: str = step.payload["text"]
        return text
    return ""


def rule_phrases(data: Data) -> list[Phrase]:
    """Say which rules of which policy gave an answer."""
    policy = " ".join(part for part in (data.get("policy", ""), version_text(data)) if part)
    rules = data.get("matched_rules", [])
    if not rules:
        return [Phrase(f"by the default of {policy or 'the policy'}", MUTED)]
    phrases = [Phrase("by rule" if len(rules) == 1 else "by rules", MUTED)]
    phrases += [Phrase(rule, CODE) for rule in rules]
    return [*phrases, Phrase(f"of {policy}", MUTED)] if policy else phrases


def version_text(data: Data) -> str:
    """Return a policy version as people say it: v14."""
    version = data.get("policy_version")
    return f"v{version}" if isinstance(version, int) else str(version or "")


def decision_phrases(data: Data, *, target: bool = True) -> list[Phrase]:
    """Say what a policy answered and why; `target` also says to what."""
    word, style = _EFFECTS[data["effect"]]
    phrases = [Phrase(word, style)]
    if target:
        phrases.append(Phrase(data["capability"], CODE))
        phrases += [Phrase(data["target"], CODE)] if data.get("target") else []
    phrases += rule_phrases(data)
    if data["effect"] == "deny" and data.get("reason"):
        phrases.append(Phrase(data["reason"]))
    return phrases


def vote_phrases(data: Data, waited: Any = None) -> list[Phrase]:
    """Say who voted what, for how long it holds, after what wait, and their words."""
    is_yes = data["verdict"] == "approve"
    rest = [f"by {data['voter']}"]
    if is_yes and data.get("scope"):
        rest.append(_scope(data))
    if waited is not None:
        rest.append(f"after {duration(waited)}")
    said = f": “{data['reason']}”" if data.get("reason") else ""
    word = Phrase("Approved", GOOD) if is_yes else Phrase("Rejected", BAD)
    return [word, Phrase(", ".join(rest) + said, MUTED)]


def _scope(data: Data) -> str:
    scope = str(data.get("scope", ""))
    return _SCOPES.get(scope, scope)


def _decided(data: Data) -> list[Phrase]:
    look = look_of(data["outcome"])
    waited = data.get("waited_ms")
    rest = f"after {duration_ms(waited)}" if waited is not None else ""
    said = f": {data['reason']}" if data.get("reason") else ""
    return [Phrase(look.word, _TONES.get(look.tone, MUTED)), Phrase(rest + said, MUTED)]


def _run_opened(data: Data) -> list[Phrase]:
    place = data.get("environment") or data.get("provider", "")
    phrases = [Phrase("Run opened"), Phrase("by", MUTED), Phrase(data["agent"])]
    if data.get("policy"):
        policy = f"{data['policy']} {version_text(data)}".strip()
        phrases += [Phrase("under", MUTED), Phrase(policy)]
    return [*phrases, Phrase("in", MUTED), Phrase(place)] if place else phrases


def _message(data: Data) -> list[Phrase]:
    role = data["role"]
    return [] if role == "assistant" else [Phrase(role.capitalize(), MUTED)]


def _model_call(data: Data) -> list[Phrase]:
    facts = []
    if data.get("input_tokens") is not None:
        facts.append(f"{data['input_tokens']:,} tokens in, {data.get('output_tokens', 0):,} out")
    if data.get("cost_usd"):
        facts.append(f"${data['cost_usd']:.4f}")
    if data.get("duration_ms") is not None:
        facts.append(duration_ms(data["duration_ms"]))
    phrases = [Phrase("Asked the model", MUTED), Phrase(data.get("model") or "unnamed", CODE)]
    phrases += [Phrase(", ".join(facts), MUTED)] if facts else []
    return [*phrases, Phrase(data["error"], BAD)] if data.get("error") else phrases


def _tool_call(data: Data) -> list[Phrase]:
    phrases = [Phrase("Called", MUTED), Phrase(data["tool"], CODE)]
    outcome = data.get("outcome", "")
    phrases += [Phrase(outcome, GOOD if outcome == "success" else MUTED)] if outcome else []
    return [*phrases, Phrase(data["error"], BAD)] if data.get("error") else phrases


def _request_opened(data: Data) -> list[Phrase]:
    return [Phrase("People are asked", WAIT), Phrase(data.get("sentence", ""))]


def _grant_used(data: Data) -> list[Phrase]:
    words = f"by an earlier yes, {_scope(data)}".rstrip(", ")
    return [Phrase("Approved", GOOD), Phrase(words, MUTED)]


def _sandbox_state(data: Data) -> list[Phrase]:
    look = look_of(data["state"])
    phrases = [Phrase("Sandbox", MUTED), Phrase(look.word.lower(), _TONES.get(look.tone, ""))]
    phrases += [Phrase(data["provider"], MUTED)] if data.get("provider") else []
    phrases += _isolation(data.get("evidence") or {})
    return [*phrases, Phrase(data["reason"], MUTED)] if data.get("reason") else phrases


def _isolation(evidence: Data) -> list[Phrase]:
    """Return what was seen of a sandbox's isolation before its first command."""
    known = {
        "proven": Phrase("isolation proven", GOOD),
        "promised": Phrase("isolation not tried", MUTED),
        "unchecked": Phrase("isolation not checked", BAD),
        "unknown": Phrase("isolation not to be told", BAD),
        "reached": Phrase("it reached the network", BAD),
    }
    found = known.get(evidence.get("verdict", ""))
    return [found] if found else []


def _file(word: str) -> Callable[[Data], list[Phrase]]:
    def phrases(data: Data) -> list[Phrase]:
        size = data.get("size")
        known = [Phrase(word), Phrase(data["path"], CODE)]
        return [*known, Phrase(size_words(size), MUTED)] if size is not None else known

    return phrases


def _budget(data: Data) -> list[Phrase]:
    amount = data.get("amount")
    quantity = f"{amount:g} {data.get('unit', '')}".strip() if amount is not None else ""
    words = (data.get("act", ""), quantity, data.get("reason", ""))
    return [Phrase("Budget", MUTED), Phrase(" ".join(word for word in words if word))]


def _guardrail(data: Data) -> list[Phrase]:
    words = (data.get("guardrail", ""), data.get("outcome", ""), data.get("reason", ""))
    return [Phrase("Content check", MUTED), Phrase(" ".join(word for word in words if word))]


def _on_step(data: Data) -> str:
    return f"on step {data['seq']}" if data.get("seq") else "remarked"


def _checkpoint(data: Data) -> list[Phrase]:
    return [Phrase(f"Record signed over {data['count']:,} steps", MUTED)]


def _run_ended(data: Data) -> list[Phrase]:
    look = look_of(data["state"])
    phrases = [Phrase("Run ended", MUTED), Phrase(look.word.lower(), _TONES.get(look.tone, ""))]
    return [*phrases, Phrase(data["reason"], MUTED)] if data.get("reason") else phrases


def _execution_started(data: Data) -> list[Phrase]:
    return [Phrase("Command started", MUTED), Phrase(" ".join(data["argv"]), CODE)]


def _output(data: Data) -> list[Phrase]:
    return [Phrase(f"{data['stream']}, {size_words(data.get('size', 0))}", MUTED)]


def _execution_ended(data: Data) -> list[Phrase]:
    return [Phrase("Command ended", MUTED), Phrase(look_of(data["state"]).word.lower())]


def _imported(data: Data) -> list[Phrase]:
    return [Phrase("From a record in", MUTED), Phrase(data["format"], CODE)]


def _nothing(data: Data) -> list[Phrase]:
    return []


_WORDS: dict[StepKind, tuple[str, Callable[[Data], list[Phrase]]]] = {
    StepKind.RUN_OPENED: ("play", _run_opened),
    StepKind.MESSAGE: ("message", _message),
    StepKind.MODEL_CALL: ("model", _model_call),
    StepKind.TOOL_CALL: ("tool", _tool_call),
    StepKind.AUTHORITY_DECISION: ("policy", decision_phrases),
    StepKind.REQUEST_OPENED: ("wait", _request_opened),
    StepKind.VOTE: ("yes", vote_phrases),
    StepKind.REQUEST_DECIDED: ("wait", _decided),
    StepKind.GRANT_USED: ("grant", _grant_used),
    StepKind.SANDBOX_STATE: ("sandbox", _sandbox_state),
    StepKind.EXECUTION_STARTED: ("command", _execution_started),
    StepKind.OUTPUT: ("command", _output),
    StepKind.EXECUTION_ENDED: ("command", _execution_ended),
    StepKind.FILE_WRITTEN: ("file", _file("Wrote")),
    StepKind.FILE_READ: ("file", _file("Read")),
    StepKind.BUDGET: ("money", _budget),
    StepKind.GUARDRAIL: ("warning", _guardrail),
    StepKind.NOTE: ("note", _nothing),
    StepKind.ANNOTATION: ("note", _nothing),
    StepKind.CHECKPOINT: ("seal", _checkpoint),
    StepKind.RUN_ENDED: ("flag", _run_ended),
    StepKind.IMPORTED: ("import", _imported),
}
