"""What a step can be: its kind, and the shape of its payload.

The law of this file: steps are hashed and kept for years, so it only grows.

* A kind's code is permanent. It is never renamed, and a retired one is never used again.
* A payload gains fields only at its end, and each new field has a default.
* A field is never removed, and never changes its meaning or its type.

Readers ignore fields they do not know; writers may not invent any.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from enum import StrEnum, unique
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Discriminator, Field, TypeAdapter, ValidationError

from omniweb.core.errors import InvalidInput, Problem
from omniweb.core.ids import parse_ref

COMMAND_CAPABILITY = "process.exec"


@unique
class StepKind(StrEnum):
    """The permanent codes."""

    RUN_OPENED = "run_opened"
    MESSAGE = "message"
    MODEL_CALL = "model_call"
    TOOL_CALL = "tool_call"
    AUTHORITY_DECISION = "authority_decision"
    REQUEST_OPENED = "request_opened"
    VOTE = "vote"
    REQUEST_DECIDED = "request_decided"
    GRANT_USED = "grant_used"
    SANDBOX_STATE = "sandbox_state"
    EXECUTION_STARTED = "execution_started"
    OUTPUT = "output"
    EXECUTION_ENDED = "execution_ended"
    FILE_WRITTEN = "file_written"
    FILE_READ = "file_read"
    BUDGET = "budget"
    GUARDRAIL = "guardrail"
    NOTE = "note"
    ANNOTATION = "annotation"
    CHECKPOINT = "checkpoint"
    RUN_ENDED = "run_ended"
    IMPORTED = "imported"


class Payload(BaseModel):
    """What every payload has: perhaps the thing it is about.

    `subject` is the key of what was asked about: an execution, or a run's manifest.
    """

    model_config = ConfigDict(frozen=True, extra="ignore")

    kind: StepKind
    subject: str | None = None


class RunOpened(Payload):
    """A run began: who, under which policy, where. The manifest is kept whole."""

    kind: Literal[StepKind.RUN_OPENED] = StepKind.RUN_OPENED
    run: str
    agent: str
    owner: str = ""
    policy: str = ""
    policy_version: int | str | None = None
    policy_digest: str = ""
    environment: str = ""
    provider: str = ""
    execution_surface: str = ""
    manifest: dict[str, Any] = Field(default_factory=dict)
    manifest_digest: str = ""
    task: str = ""
    group: str = ""
    options: dict[str, Any] = Field(default_factory=dict)


class Message(Payload):
    """Something said; a long text is a blob and `text` its beginning."""

    kind: Literal[StepKind.MESSAGE] = StepKind.MESSAGE
    role: Literal["system", "user", "assistant"]
    text: str
    blob: str | None = None
    size: int | None = None


class ModelCall(Payload):
    """The agent asked a model; costs are as the agent reports them."""

    kind: Literal[StepKind.MODEL_CALL] = StepKind.MODEL_CALL
    model: str = ""
    provider: str = ""
    input_tokens: int | None = None
    output_tokens: int | None = None
    cost_usd: float | None = None
    duration_ms: float | None = None
    finish_reason: str = ""
    error: str = ""


class ToolCall(Payload):
    """The agent called a tool of its own; what it reports, not what we saw."""

    kind: Literal[StepKind.TOOL_CALL] = StepKind.TOOL_CALL
    tool: str
    call: str = ""
    arguments: Any = None
    outcome: str = ""
    result: str = ""
    blob: str | None = None
    error: str = ""
    duration_ms: float | None = None


class AuthorityDecision(Payload):
    """A policy answered one question. `target` is what it was about, a command as written."""

    kind: Literal[StepKind.AUTHORITY_DECISION] = StepKind.AUTHORITY_DECISION
    decision: str
    capability: str
    target: str = ""
    effect: Literal["allow", "ask", "deny"]
    reason_code: str = ""
    reason: str = ""
    matched_rules: list[str] = Field(default_factory=list)
    policy: str = ""
    policy_version: int | str | None = None
    constraints: dict[str, Any] = Field(default_factory=dict)
    execution: str | None = None
    command: str | None = None


class RequestOpened(Payload):
    """People are asked. One line per decision that asks."""

    kind: Literal[StepKind.REQUEST_OPENED] = StepKind.REQUEST_OPENED
    request: str
    sentence: str = ""
    lines: list[Any] = Field(default_factory=list)
    digest: str = ""
    expires_at: str = ""
    execution: str | None = None


class VoteCast(Payload):
    """One person's verdict."""

    kind: Literal[StepKind.VOTE] = StepKind.VOTE
    request: str
    verdict: str
    scope: str = ""
    reason: str = ""
    voter: str
    execution: str | None = None


class RequestDecided(Payload):
    """A request ended, by votes or without them."""

    kind: Literal[StepKind.REQUEST_DECIDED] = StepKind.REQUEST_DECIDED
    request: str
    outcome: str
    by: str = ""
    reason: str = ""
    scope: str = ""
    waited_ms: int | None = None
    execution: str | None = None


class GrantUsed(Payload):
    """A standing yes answered instead of a person."""

    kind: Literal[StepKind.GRANT_USED] = StepKind.GRANT_USED
    grant: str
    request: str = ""
    scope: str = ""
    execution: str | None = None


class SandboxState(Payload):
    """A sandbox changed its state; `evidence` is what the isolation probe saw."""

    kind: Literal[StepKind.SANDBOX_STATE] = StepKind.SANDBOX_STATE
    sandbox: str
    state: str
    provider: str = ""
    handle: str = ""
    reason: str = ""
    evidence: dict[str, Any] = Field(default_factory=dict)


class ExecutionStarted(Payload):
    """A command was handed to a provider: argv, and the names, not the values, of its env."""

    kind: Literal[StepKind.EXECUTION_STARTED] = StepKind.EXECUTION_STARTED
    execution: str
    argv: list[str]
    cwd: str = ""
    env_names: list[str] = Field(default_factory=list)
    time_limit_seconds: float | None = None
    stdin_bytes: int | None = None
    sandbox: str | None = None
    decision: str | None = None
    provider: str = ""


class Output(Payload):
    """One stream of a command, redacted: the blob `digest` of `kept` bytes out of `size`."""

    kind: Literal[StepKind.OUTPUT] = StepKind.OUTPUT
    execution: str
    stream: Literal["stdout", "stderr"]
    digest: str = ""
    size: int = 0
    kept: int = 0
    truncated: bool = False


class ExecutionEnded(Payload):
    """What came of a command. `error` is the provider's failure, never the command's."""

    kind: Literal[StepKind.EXECUTION_ENDED] = StepKind.EXECUTION_ENDED
    execution: str
    state: str
    exit_code: int | None = None
    timed_out: bool = False
    duration_ms: float | None = None
    error: str = ""
    stdout_truncated: bool = False
    stderr_truncated: bool = False


class FileTouched(Payload):
    """A file went in or came out through the bridge."""

    path: str
    size: int | None = None
    digest: str = ""
    blob: str | None = None


class FileWritten(FileTouched):
    """A file was put into the sandbox."""

    kind: Literal[StepKind.FILE_WRITTEN] = StepKind.FILE_WRITTEN


class FileRead(FileTouched):
    """A file was taken out of the sandbox."""

    kind: Literal[StepKind.FILE_READ] = StepKind.FILE_READ


class Budget(Payload):
    """A budget was reserved, settled, or ran out."""

    kind: Literal[StepKind.BUDGET] = StepKind.BUDGET
    budget: str = ""
    act: str = ""
    amount: float | None = None
    unit: str = ""
    limit: float | None = None
    used: float | None = None
    reason: str = ""


class Guardrail(Payload):
    """A content check said something."""

    kind: Literal[StepKind.GUARDRAIL] = StepKind.GUARDRAIL
    guardrail: str = ""
    outcome: str = ""
    reason: str = ""


class Note(Payload):
    """A sentence by the product itself."""

    kind: Literal[StepKind.NOTE] = StepKind.NOTE
    text: str


class Annotation(Payload):
    """A person's remark, perhaps on one step."""

    kind: Literal[StepKind.ANNOTATION] = StepKind.ANNOTATION
    text: str
    seq: int | None = None


class Checkpoint(Payload):
    """A signature over the chain so far: `count` steps, of which the last has the hash `head`."""

    kind: Literal[StepKind.CHECKPOINT] = StepKind.CHECKPOINT
    count: int
    head: str
    public_key: str
    signature: str
    algorithm: str = "ed25519"


class RunEnded(Payload):
    """A run ended."""

    kind: Literal[StepKind.RUN_ENDED] = StepKind.RUN_ENDED
    state: str
    reason: str = ""
    run: str = ""


class Imported(Payload):
    """A step of a session recorded elsewhere, in its own words."""

    kind: Literal[StepKind.IMPORTED] = StepKind.IMPORTED
    format: str
    at: str = ""
    data: Any = None


AnyPayload = Annotated[
    RunOpened
    | Message
    | ModelCall
    | ToolCall
    | AuthorityDecision
    | RequestOpened
    | VoteCast
    | RequestDecided
    | GrantUsed
    | SandboxState
    | ExecutionStarted
    | Output
    | ExecutionEnded
    | FileWritten
    | FileRead
    | Budget
    | Guardrail
    | Note
    | Annotation
    | Checkpoint
    | RunEnded
    | Imported,
    Discriminator("kind"),
]

# Building the adapter fails at import when two payloads claim the same code.
_ADAPTER: TypeAdapter[AnyPayload] = TypeAdapter(AnyPayload)


def payload_read(kind: str, data: Mapping[str, Any]) -> AnyPayload:
    """Return a stored payload as its model; fields of later versions are ignored."""
    return _ADAPTER.validate_python({**data, "kind": StepKind(kind)})


def payload_check(kind: StepKind, payload: Payload | Mapping[str, Any]) -> dict[str, Any]:
    """Return a payload as JSON data ready to be kept; its kind is not repeated in it.

    Raises InvalidInput, naming the fields, when it does not have the shape of its kind.
    """
    if isinstance(payload, Payload):
        if payload.kind is not kind:
            raise InvalidInput(f"a {kind} step cannot carry a {payload.kind} payload")
        model: Payload = payload
    else:
        try:
            model = _ADAPTER.validate_python({**payload, "kind": kind}, extra="forbid")
        except ValidationError as error:
            problems = [
                Problem(path=".".join(map(str, item["loc"][1:])), message=item["msg"])
                for item in error.errors(include_url=False)
            ]
            raise InvalidInput(f"not a {kind} payload: {error}", problems=problems) from None
    return model.model_dump(mode="json", exclude={"kind"}, exclude_none=True)


def subject_of(payload: Mapping[str, Any]) -> uuid.UUID | None:
    """Return the key of what a payload is about: its subject, or else its execution."""
    if payload.get("subject"):
        try:
            return uuid.UUID(payload["subject"])
        except ValueError:
            return None
    return parse_ref("exe", payload.get("execution") or "")


def blob_of(kind: str, payload: Mapping[str, Any]) -> str:
    """Return the digest of the blob a step points to, or an empty text."""
    digest: str = payload.get("digest" if kind == StepKind.OUTPUT else "blob") or ""
    return digest
