"""What people type when they ask a policy something: a command, or a whole authority request."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from approvals.policy.decision import AuthorityRequest, Target
from omniweb.core.errors import InvalidInput, Problem


def question(
    command: str | Sequence[str] | None, request: Mapping[str, Any] | None
) -> AuthorityRequest:
    """Return the request that one of both stands for; raises InvalidInput."""
    if (command is None) == (request is None):
        problem = Problem(path="command", message="ask about a command or a request")
        raise InvalidInput(problems=[problem])
    return AuthorityRequest.from_dict(request or {}) if command is None else of_command(command)


def of_command(command: str | Sequence[str]) -> AuthorityRequest:
    """Return what an agent would ask to run a shell line, or these words, in a sandbox."""
    argv = ("sh", "-c", command) if isinstance(command, str) else tuple(command)
    if not argv or not argv[-1].strip():
        raise InvalidInput(problems=[Problem(path="command", message="the command is empty")])
    return AuthorityRequest(
        capability="process.exec",
        target=Target(resource=argv[0]),
        execution_surface="sandbox",
        risk_level="high",
        command=argv,
    )


def of_json(text: str) -> AuthorityRequest:
    """Return the request a JSON text says; raises InvalidInput."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as error:
        problem = Problem(path="request", message=f"the request is not JSON: {error}")
        raise InvalidInput(problems=[problem]) from error
    return AuthorityRequest.from_dict(value)
