"""What editors complete from is what documents may say."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from approvals.policy.capabilities import CAPABILITIES
from approvals.policy.document import PolicyDocument
from approvals.policy.vocabulary import vocabulary

# Of older documents, or written by programs: read, but not offered with words.
UNSPOKEN = {
    "version", "policy_id", "policy_id_supplied", "profile", "provenance", "budget", "effect",
    "strict_telemetry", "application_id", "session", "agent", "application",
    "max_requests", "max_cost", "used_requests", "used_cost", "count_failed_attempts",
}  # fmt: skip


def entries(keys: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    for name, entry in keys.items():
        yield name, entry
        yield from entries(entry.get("keys", {}))


def test_it_holds_every_key_of_the_schema_with_what_it_is_for() -> None:
    assert set(vocabulary()) == set(PolicyDocument.model_fields)
    silent = {name for name, entry in entries(vocabulary()) if not entry["about"]}
    assert silent <= UNSPOKEN


def test_it_knows_the_values_a_key_takes() -> None:
    rule = vocabulary()["rules"]["keys"]["deny"]["keys"]
    assert rule["capability"]["values"] == list(CAPABILITIES)
    assert rule["constraints"]["keys"]["sandbox_required"]["values"] == ["true", "false"]
    approvals = rule["constraints"]["keys"]["approvals"]["keys"]
    assert approvals["at_expiry"]["values"] == ["deny", "allow"]
    assert vocabulary()["mode"]["values"] == ["permissive", "interactive", "strict"]
    assert vocabulary()["tests"]["keys"]["expect"]["values"] == ["allow", "ask", "deny"]
