"""The questions a manifest asks when a sandbox opens."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import pytest

from approvals.policy.capabilities import CARRIED, PROCESS_EXEC, RAISED
from approvals.policy.decision import AuthorityRequest
from omniweb.core.canonical import digest_bytes
from sandboxes.authority import manifest_requests
from sandboxes.manifest import Manifest
from sandboxes.services.files import CAPABILITIES


def asked(fields: dict[str, Any]) -> list[AuthorityRequest]:
    """Return the questions of a manifest on Docker."""
    return manifest_requests(Manifest.parse(fields), provider="docker", execution_surface="sandbox")


def brief(fields: dict[str, Any]) -> list[tuple[str, str | None, str]]:
    """Return capability, what it is about, and risk of each question."""
    found = []
    for request in asked(fields):
        target = request.target
        about = (target.host or target.path or target.resource) if target else None
        found.append((request.capability, about, request.risk_level))
    return found


def test_a_bare_manifest_asks_nothing() -> None:
    assert asked({"working_dir": "/srv", "network_policy": {"default": "deny"}}) == []


def test_each_thing_a_manifest_gives_is_its_own_question() -> None:
    fields = {
        "image": "base:1",
        "workspace_mount": {"source": "/srv/data", "target": "/data"},
        "network_policy": {
            "default": "deny",
            "allowed_hosts": ["a.example.org", "*.b.example.org"],
        },
        "environment": {"plain": {"A": "1"}, "secret_refs": ["vault/key"]},
        "resources": {"memory": "1g"},
    }
    assert brief(fields) == [
        ("sandbox.image.use", "base:1", "medium"),
        ("sandbox.filesystem.mount", "/data", "medium"),
        ("sandbox.network.configure", "a.example.org", "medium"),
        ("sandbox.network.configure", "*.b.example.org", "medium"),
        ("sandbox.environment.set", None, "medium"),
        ("secret.use", "vault/key", "medium"),
        ("sandbox.resources.set", None, "medium"),
    ]


def test_an_open_network_is_a_high_risk_for_every_host() -> None:
    (request,) = asked({"network_policy": {"default": "allow"}})
    assert request.target is not None
    assert (request.capability, request.target.host, request.risk_level) == (
        "sandbox.network.configure",
        "*",
        "high",
    )
    assert request.metadata == {"default": "allow", "allowed_hosts": [], "denied_hosts": []}


def test_a_mount_that_can_be_written_to_is_a_high_risk() -> None:
    mount = {"source": "/srv/data", "target": "/data", "mode": "read_write"}
    assert brief({"workspace_mount": mount}) == [("sandbox.filesystem.mount", "/data", "high")]


def test_a_request_says_where_it_would_happen() -> None:
    (request,) = asked({"image": "base:1"})
    assert (request.provider, request.execution_surface) == ("docker", "sandbox")


def test_variables_are_told_by_name_and_digest_and_never_by_value() -> None:
    (request,) = asked({"environment": {"plain": {"B": "hunter2", "A": "1"}}})
    assert request.metadata["names"] == ["A", "B"]
    assert request.metadata["value_digests"]["B"] == digest_bytes(b"hunter2")
    assert "hunter2" not in str(request.to_dict())


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (
            {"network_policy": {"allowed_hosts": ["a.org"]}},
            {"network_policy": {"denied_hosts": ["a.org"]}},
        ),
        ({"environment": {"plain": {"A": "1"}}}, {"environment": {"plain": {"A": "2"}}}),
        ({"environment": {"plain": {"A": "1"}}}, {"environment": {"plain": {"B": "1"}}}),
        ({"resources": {"cpu": "1"}}, {"resources": {"cpu": "2"}}),
        ({"resources": {"memory": "1g"}}, {"resources": {"memory": "1g", "gpu": True}}),
        (
            {"workspace_mount": {"source": "/srv/a", "target": "/data"}},
            {"workspace_mount": {"source": "/srv/b", "target": "/data"}},
        ),
        (
            {"network_policy": {"default": "allow"}},
            {"network_policy": {"default": "allow", "denied_hosts": ["a.org"]}},
        ),
    ],
)
def test_manifests_that_differ_never_ask_the_same(
    first: dict[str, Any], second: dict[str, Any]
) -> None:
    assert asked(first)[0].to_dict() != asked(second)[0].to_dict()


def test_the_linter_knows_everything_that_is_asked_here_and_on_which_surfaces() -> None:
    fields = {
        "image": "base:1",
        "workspace_mount": {"source": "/srv/data", "target": "/data"},
        "network_policy": {"default": "allow"},
        "environment": {"plain": {"A": "1"}, "secret_refs": ["token"]},
        "resources": {"cpu": 1},
    }
    raised: dict[str, set[str]] = {}
    carried: dict[str, set[str]] = {}
    for surface in ("sandbox", "host"):
        for one in manifest_requests(
            Manifest.parse(fields), provider="own", execution_surface=surface
        ):
            raised.setdefault(one.capability, set()).add(one.execution_surface or "")
            target = asdict(one.target) if one.target else {}
            said = {name for name, value in target.items() if value is not None}
            carried.setdefault(one.capability, set()).update(said)
            assert not any((one.data_classes, one.method, one.host, one.mcp_server))
    # Commands and files are asked about one at a time, in services/executions and services/files.
    raised |= {name: {"workspace"} for name, _ in CAPABILITIES.values()}
    raised[PROCESS_EXEC] = {"sandbox", "host"}
    assert raised == RAISED
    assert carried.items() <= CARRIED.items()
