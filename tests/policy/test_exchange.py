"""Policies as files: what is taken away can be read again, here or by the peer."""

from __future__ import annotations

import json

import pytest

from approvals.policy.document import parse_document
from approvals.policy.exchange import FORMATS, Format, exported
from approvals.policy.profiles import PROFILES, profile_document

OURS = """\
name: ours
rules:
  ask:
    - rule_id: ask_push
      capability: process.exec
      command: {prefix: [git, push]}
      constraints: {approval_expires_seconds: 60, approvals: {count: 2}, scopes: [once]}
  allow:
    - rule_id: allow_make
      capability: process.exec
      command: {program: make, writes: ["build/*"], env: [CI]}
      constraints: {scopes: [run]}
      examples: {match: ["make > build/log"]}
tests:
  - {request: {capability: process.exec, command: [make]}, expect: allow}
"""


@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize("name", PROFILES)
def test_what_is_taken_away_comes_back_as_it_was(name: str, form: Format) -> None:
    document = profile_document(name)
    assert parse_document(exported(document, form)).digest == document.digest
    assert parse_document(exported(document, form, for_peer=True)).digest == document.digest


@pytest.mark.parametrize("form", FORMATS)
def test_the_peer_gets_nothing_that_only_this_product_reads(form: Format) -> None:
    text = exported(parse_document(OURS), form, for_peer=True)
    document = parse_document(text)
    assert not document.tests
    (ask,), (allow,) = document.rules.ask, document.rules.allow
    assert ask.constraints.approval_expires_seconds == 60
    assert ask.constraints.approvals is None
    assert allow.command is not None
    assert (allow.command.program, allow.command.writes) == (("make",), ())
    assert allow.examples is None
    assert parse_document(exported(parse_document(OURS), form)).tests


def test_yaml_says_what_was_left_out() -> None:
    text = exported(parse_document(OURS), "yaml", for_peer=True)
    assert "# Left out, only OmniWeb reads it: 1 kept tests\n" in text
    assert "command.writes of allow_make" in text
    assert (
        "constraints"
        not in json.loads(exported(parse_document(OURS), "json", for_peer=True))["rules"]["allow"][
            0
        ]
    )
