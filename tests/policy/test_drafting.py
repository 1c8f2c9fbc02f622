"""Adding tests and rules to the text of a document."""

from __future__ import annotations

import pytest
import yaml

from approvals.policy.document import parse_document
from approvals.policy.drafting import with_rule, with_test

TEXT = """\
# Ours.
name: ours  # a name
mode: interactive
rules:
  deny:
    - rule_id: deny_rm   # nothing is deleted
      capability: process.exec
      command: {program: rm}

  # What a person decides.
  ask:
  - rule_id: ask_push
    capability: process.exec
    command:
      prefix: [git, push]
# The end.
"""
ASKED = {"capability": "process.exec", "command": ["sh", "-c", "echo 'a: #b'\necho c"]}


@pytest.mark.parametrize(
    "text",
    [
        TEXT,
        TEXT + "tests:\n  - name: first\n    request: {capability: memory.read}\n    expect: ask\n",
        TEXT + "tests: []\n",
        "name: ours\n",
        '{"name": "ours", "rules": {}}',
        "{name: ours}",
    ],
)
def test_a_test_is_added_last_and_the_rest_says_the_same(text: str) -> None:
    before = yaml.safe_load(text)
    drafted = with_test(text, name="kept", request=ASKED, expect="deny")
    after = yaml.safe_load(drafted)
    kept = after["tests"].pop()
    assert kept == {"name": "kept", "request": ASKED, "expect": "deny"}
    assert {"tests": [], **before} == {"tests": [], **after}
    assert parse_document(drafted).tests[-1].expect == "deny"


def test_what_people_wrote_stays_as_it_was() -> None:
    drafted = with_test(TEXT, name="kept", request=ASKED, expect="deny")
    kept = iter(drafted.splitlines())
    assert all(line in kept for line in TEXT.splitlines())


@pytest.mark.parametrize("effect", ["deny", "ask", "allow"])
def test_a_rule_goes_to_those_with_its_effect(effect: str) -> None:
    rule = {"rule_id": "new", "capability": "process.exec", "command": {"prefix": ["npm", "ci"]}}
    drafted = with_rule(TEXT, effect=effect, rule=rule)
    rules = getattr(parse_document(drafted).rules, effect)
    assert rules[-1].rule_id == "new"
    assert "# nothing is deleted" in drafted
    assert drafted.endswith("# The end.\n")
