"""The commands an operator types, as scripts use them."""

from __future__ import annotations

import json
from io import StringIO
from typing import Any

import pytest
from django.core.management import call_command
from django.core.management.base import CommandError

from omniweb.accounts.auth import actor_for_token

pytestmark = pytest.mark.django_db


def told(*command: str) -> dict[str, Any]:
    """Run a command with --json and return what it printed."""
    out = StringIO()
    call_command(*command, "--json", stdout=out)
    facts: dict[str, Any] = json.loads(out.getvalue())
    return facts


def test_a_person_an_agent_and_their_tokens() -> None:
    person = told("user_create", "operator@example.org", "--role", "operator")
    assert person["id"].startswith("usr_")
    agent = told("agent_create", "fix-bot", "--owner", "operator@example.org")
    assert agent["id"].startswith("agt_")
    assert (agent["policy"], agent["environment"]) == ("interactive-dev", "docker")
    assert actor_for_token(agent["token"]).label == "agent fix-bot"
    token = told("token_create", "operator@example.org", "--scope", "read")
    assert token["scopes"] == ["read"]
    assert actor_for_token(token["token"]).label == "operator@example.org"
    assert told("token_create", "fix-bot")["scopes"] == ["run"]


@pytest.mark.parametrize(
    ("command", "error"),
    [
        (["agent_create", "x", "--owner", "nobody@example.org"], "is not a member of"),
        (["token_create", "no-such-agent"], "There is no agent named no-such-agent"),
        (
            ["agent_create", "x", "--owner", "admin@localhost", "--policy", "none"],
            "There is no policy named none",
        ),
        (["user_create", "nonsense", "--role", "viewer"], "is not an e-mail address"),
    ],
)
def test_what_is_wrong_is_said_without_a_traceback(command: list[str], error: str) -> None:
    with pytest.raises(CommandError, match=error):
        call_command(*command)


def test_the_doctor_looks_at_every_provider() -> None:
    findings = {item["name"]: item for item in told("doctor")["findings"]}
    assert findings["database"]["ok"]
    assert findings["broker"]["ok"]
    assert {"docker", "gvisor", "e2b", "http", "local", "none"} <= set(findings)
    assert findings["local"]["ok"]
    assert not findings["e2b"]["ok"]
