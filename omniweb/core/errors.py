"""Every error a person or program can be told about, as one tree.

    OmniWebError               500 internal_error
    ├── InvalidInput           422 invalid_input       the input is wrong; `problems` say where
    ├── NotAuthenticated       401 not_authenticated   no valid session or token
    ├── NotPermitted           403 not_permitted       known, but may not do this
    ├── PolicyDenied           403 policy_denied       a policy said no; `decision` says why
    ├── NotFound               404 not_found           absent, or another team's
    ├── MethodNotAllowed       405 method_not_allowed  there is something here, but not for this verb
    ├── Conflict               409 conflict            the state has moved on
    │   ├── AlreadyDecided     409 already_decided     someone else was first
    │   ├── Overtaken          409 overtaken           someone else saved on top of what was read
    │   ├── Stale              409 stale               what was shown is no longer what would happen
    │   ├── IllegalTransition  409 illegal_transition  this state cannot become that one
    │   └── KeyReused          409 key_reused          the idempotency key belongs to another request
    ├── TooSlow                408 too_slow            the body did not come in time
    ├── TooLarge               413 too_large           more bytes than the limit allows
    ├── TooMany                429 too_many            slow down
    └── ProviderError          502 provider_error      the sandbox provider failed
        ├── ProviderUnavailable 503 provider_unavailable  it cannot be reached
        │   └── CommandLost    503 provider_unavailable  nor what it was running; that may go on
        ├── ProviderMissing    503 provider_missing    an SDK or credential is not there
        ├── SandboxUnsupported 422 sandbox_unsupported the provider cannot keep what was asked
        └── SandboxLost        410 sandbox_lost        the sandbox no longer exists

Codes are permanent: clients match on them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar


@dataclass(frozen=True, kw_only=True)
class Problem:
    """One thing wrong with an input: where it is, what it is, and what to do instead."""

    message: str
    path: str = ""
    line: int | None = None
    column: int | None = None
    suggestion: str = ""

    def __str__(self) -> str:
        where = f"line {self.line}: " if self.line else ""
        return f"{where}{self.message}" + (f" ({self.suggestion})" if self.suggestion else "")

    def to_dict(self) -> dict[str, Any]:
        """Return the problem as JSON, without what it does not have."""
        fields = {"message": self.message, "path": self.path, "line": self.line}
        fields |= {"column": self.column, "suggestion": self.suggestion}
        return {name: value for name, value in fields.items() if value not in (None, "")}


class OmniWebError(Exception):
    """The root: a stable code, an HTTP status, and one sentence for people."""

    code: ClassVar[str] = "internal_error"
    status: ClassVar[int] = 500
    title: ClassVar[str] = "Something went wrong"

    def __init__(self, detail: str = "", **extra: Any) -> None:
        self.detail = detail or self.title
        self.extra = extra
        super().__init__(self.detail)


class InvalidInput(OmniWebError):
    """The input is wrong; each problem says where and what to do."""

    code = "invalid_input"
    status = 422
    title = "The input is not valid"

    def __init__(self, detail: str = "", *, problems: Sequence[Problem] = (), **extra: Any) -> None:
        super().__init__(detail or "; ".join(map(str, problems)), **extra)
        self.problems = tuple(problems) or (Problem(message=self.detail),)


class NotAuthenticated(OmniWebError):
    """There is no valid session or token."""

    code = "not_authenticated"
    status = 401
    title = "Sign in, or send a valid token"


class NotPermitted(OmniWebError):
    """The actor is known but may not do this."""

    code = "not_permitted"
    status = 403
    title = "You may not do this"


class PolicyDenied(OmniWebError):
    """A policy said no."""

    code = "policy_denied"
    status = 403
    title = "The policy denies this"

    def __init__(self, detail: str = "", *, decision: Mapping[str, Any] | None = None) -> None:
        super().__init__(detail, decision=dict(decision or {}))


class NotFound(OmniWebError):
    """There is no such thing, or it belongs to another team."""

    code = "not_found"
    status = 404
    title = "There is nothing here"


class MethodNotAllowed(OmniWebError):
    """There is something at this address, but not for this verb."""

    code = "method_not_allowed"
    status = 405
    title = "This address does not take that method"


class Conflict(OmniWebError):
    """The state has moved on since it was read."""

    code = "conflict"
    status = 409
    title = "This has changed in the meantime"


class AlreadyDecided(Conflict):
    """Someone else decided first."""

    code = "already_decided"
    title = "This request is already decided"


class Overtaken(Conflict):
    """Someone else saved on top of what this was made from; `latest` says what."""

    code = "overtaken"
    title = "Someone else has saved in the meantime"


class Stale(Conflict):
    """What was shown is no longer what would happen."""

    code = "stale"
    title = "This request has changed since it was shown"


class IllegalTransition(Conflict):
    """The state machine has no such arrow."""

    code = "illegal_transition"
    title = "This is not possible in the present state"


class KeyReused(Conflict):
    """The idempotency key was sent before with another request."""

    code = "key_reused"
    title = "This idempotency key belongs to another request"


class TooSlow(OmniWebError):
    """The body did not come in time."""

    code = "too_slow"
    status = 408
    title = "The request came too slowly"


class TooLarge(OmniWebError):
    """More bytes than the limit allows."""

    code = "too_large"
    status = 413
    title = "This is too large"


class TooMany(OmniWebError):
    """More requests than the limit allows."""

    code = "too_many"
    status = 429
    title = "Too many requests; try again in a moment"


class ProviderError(OmniWebError):
    """The sandbox provider failed; never to be read as a command's result."""

    code = "provider_error"
    status = 502
    title = "The sandbox provider failed"


class ProviderUnavailable(ProviderError):
    """The provider cannot be reached."""

    code = "provider_unavailable"
    status = 503
    title = "The sandbox provider cannot be reached"


class CommandLost(ProviderUnavailable):
    """The provider went away after a command was handed over; it may still be running."""


class ProviderMissing(ProviderError):
    """An SDK or a credential the provider needs is not there."""

    code = "provider_missing"
    status = 503
    title = "The sandbox provider is not installed"


class SandboxUnsupported(ProviderError):
    """The provider cannot keep what the manifest asks for."""

    code = "sandbox_unsupported"
    status = 422
    title = "The sandbox provider cannot keep this"


class SandboxLost(ProviderError):
    """The sandbox no longer exists."""

    code = "sandbox_lost"
    status = 410
    title = "The sandbox no longer exists"
