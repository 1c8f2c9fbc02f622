"""A policy that was taken away for OmniCoreAgent, read by OmniCoreAgent itself."""

from __future__ import annotations

import subprocess

import pytest

from approvals.policy.document import parse_document
from approvals.policy.exchange import exported
from tests.e2e.real_agent import DOWNLOAD_SECONDS, ISOLATED
from tests.machine import require

pytestmark = pytest.mark.omnicoreagent

READ = """
import json, sys
from omnicoreagent.governance.policy import policy_from_mapping
print(*[rule.rule_id for rule in policy_from_mapping(json.load(sys.stdin)).rules.all_rules()])
"""

EXTENDED = """\
name: ours
rules:
  ask:
    - rule_id: ask_push
      capability: process.exec
      command: {prefix: [git, [push, fetch]]}
      constraints: {approval_expires_seconds: 60, approvals: {count: 2}, scopes: [once]}
      examples: {match: [git push]}
  allow:
    - rule_id: allow_make
      capability: process.exec
      command: {program: make, writes: ["build/*"], env: [CI]}
      examples: {match: ["make > build/log"]}
tests:
  - {request: {capability: process.exec, command: [make]}, expect: allow}
"""


def read(text: str) -> subprocess.CompletedProcess[str]:
    """Let the peer read a document."""
    return subprocess.run(
        [*ISOLATED, "python", "-c", READ],
        cwd="/",
        input=text,
        capture_output=True,
        text=True,
        timeout=DOWNLOAD_SECONDS,
        check=False,
    )


def test_the_peer_reads_what_was_taken_away_for_it_and_only_that() -> None:
    require("omnicoreagent")
    document = parse_document(EXTENDED)
    done = read(exported(document, "json", for_peer=True))
    assert done.stdout.split() == ["ask_push", "allow_make"], done.stderr
    assert "unknown key(s)" in read(exported(document, "json")).stderr
