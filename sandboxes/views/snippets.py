"""Code to paste that connects an agent to this server."""

from __future__ import annotations

import json
import textwrap
from dataclasses import dataclass
from typing import Any

from django.conf import settings

from omniweb.accounts.models import AgentIdentity
from sandboxes.models import Profile

# Stands where the token belongs until one is made.
PLACEHOLDER = "PASTE-A-TOKEN-HERE"

_OMNICOREAGENT = """\
# pip install omnicoreagent; the model's key is read from LLM_API_KEY.
import asyncio

from omnicoreagent import OmniCoreAgent
from omnicoreagent.governance import build_default_policy

# Whether a command may run is decided by OmniWeb, so the agent itself does not ask as well.
policy = build_default_policy("permissive-dev")
policy.rules.ask = []


async def main():
    agent = OmniCoreAgent(
        name={name},
        system_instruction="Use the execute tool to run commands. Answer in plain text.",
        model_config={{"provider": "openai", "model": "gpt-5.4-mini"}},
        agent_config={{
            "governance_config": {{
                "enabled": True,
                "policy": policy,
                "sandbox_config": {{
                    "provider": "http",
                    "options": {{
                        "base_url": {base_url},
                        "token": {token},
                    }},
                }},
                "sandbox_manifest": {manifest},
            }},
        }},
    )
    result = await agent.run("Which Python does your sandbox have? Check, don't guess.")
    print(result["status"], "|", result["response"])
    await agent.cleanup()


asyncio.run(main())
"""

_CURL = """\
BASE={base_url}
TOKEN={token}

# Open a session. If a person is asked first, the commands wait for the answer.
SESSION=$(curl -fsS -X POST "$BASE/sessions" \\
  -H "Authorization: Bearer $TOKEN" -H "Content-Type: application/json" \\
  -d '{{}}' | sed -E 's/.*"session_id": ?"([^"]+)".*/\\1/')

# Run a command in it.
curl -sS -X POST "$BASE/sessions/$SESSION/exec" \\
  -H "Authorization: Bearer $TOKEN" -H "Content-Type: application/json" \\
  -d '{{"command": ["sh", "-c", "id; uname -a"], "timeout_seconds": 60}}'
echo

# End it; its sandbox goes with it.
curl -fsS -X DELETE "$BASE/sessions/$SESSION" -H "Authorization: Bearer $TOKEN"
"""

_PYTHON = """\
# pip install httpx
import httpx

client = httpx.Client(
    headers={{"Authorization": "Bearer " + {token}}},
    timeout=130,  # a command may wait for a person
)
base = {base_url}

# Open a session. If a person is asked first, the commands wait for the answer.
session = client.post(f"{{base}}/sessions", json={{}}).raise_for_status().json()["session_id"]
try:
    result = client.post(
        f"{{base}}/sessions/{{session}}/exec",
        json={{"command": ["sh", "-c", "id; uname -a"], "timeout_seconds": 60}},
    ).raise_for_status().json()
    print(result["exit_code"], result["stdout"], result["stderr"])
finally:
    # Ends the session; its sandbox goes with it.
    client.delete(f"{{base}}/sessions/{{session}}")
"""


@dataclass(frozen=True, kw_only=True)
class Snippet:
    """Code to paste and what it is for."""

    key: str
    title: str
    code: str


def snippets(agent: AgentIdentity, profile: Profile | None, secret: str) -> list[Snippet]:
    """Return the ways to connect; with a secret they work as they are."""
    values = {
        "name": json.dumps(agent.name),
        "base_url": json.dumps(f"{settings.PUBLIC_URL}/sandbox/v1"),
        "token": json.dumps(secret or PLACEHOLDER),
        "manifest": _indented(_client_manifest(profile)),
    }
    return [
        Snippet(key="omnicoreagent", title="OmniCoreAgent", code=_OMNICOREAGENT.format(**values)),
        Snippet(key="curl", title="curl", code=_CURL.format(**values)),
        Snippet(key="python", title="Python", code=_PYTHON.format(**values)),
    ]


def _client_manifest(profile: Profile | None) -> dict[str, Any]:
    """Return what this client has to say again: its own defaults would replace the environment's."""
    manifest = profile.environment.manifest if profile else {}
    network = manifest.get("network_policy") or {}
    said: dict[str, Any] = {"network_policy": {"default": "deny", **network}}
    if working_dir := manifest.get("working_dir"):
        said = {"working_dir": working_dir, **said}
    return said


def _indented(value: dict[str, Any]) -> str:
    # JSON of texts, lists and mappings is also Python.
    return textwrap.indent(json.dumps(value, indent=4), " " * 16).strip()
