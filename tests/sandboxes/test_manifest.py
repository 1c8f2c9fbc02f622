"""Manifests: what they hold, what they refuse and how two of them become one."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest

from omniweb.core.errors import InvalidInput
from sandboxes.manifest import Manifest, NetworkDefault, cpu_count, memory_bytes


def problems(fields: Any) -> dict[str, str]:
    """Return the message for each path of a manifest that is refused."""
    with pytest.raises(InvalidInput) as error:
        Manifest.parse(fields)
    return {problem.path: problem.message for problem in error.value.problems}


def test_a_bare_manifest_has_no_network_and_works_in_workspace() -> None:
    manifest = Manifest.parse({})
    assert manifest.network_policy.default is NetworkDefault.DENY
    assert (manifest.image, manifest.working_dir, manifest.workspace_mount) == (
        None,
        "/workspace",
        None,
    )


def test_every_field_is_read() -> None:
    fields = {
        "image": "registry.example.org/team/image:1",
        "working_dir": "/srv/app",
        "workspace_mount": {"source": "/srv/data", "target": "/data", "mode": "read_write"},
        "network_policy": {
            "default": "allow",
            "allowed_hosts": ["a.example.org"],
            "denied_hosts": ["*.b.example.org"],
        },
        "environment": {"plain": {"A": "1"}, "secret_refs": ["vault/key"]},
        "resources": {"cpu": "2", "memory": "1g", "gpu": True, "timeout_seconds": 60},
    }
    assert Manifest.parse(fields).to_dict() == fields


def test_an_unknown_field_is_refused_with_those_there_are() -> None:
    known = "image, working_dir, workspace_mount, network_policy, environment, resources"
    assert problems({"imagee": "x"}) == {
        "imagee": f"sandbox_manifest has unknown field(s) imagee; known: {known}"
    }


def test_an_unknown_nested_field_is_refused_with_those_there_are() -> None:
    assert problems({"network_policy": {"mode": "deny"}}) == {
        "network_policy.mode": (
            "sandbox_manifest.network_policy has unknown field(s) mode; known: default, allowed_hosts, denied_hosts"
        )
    }


@pytest.mark.parametrize("field", ["lifecycle", "filesystem_policy", "provider", "sandbox_id"])
def test_what_nobody_would_keep_is_refused_with_the_reason(field: str) -> None:
    with pytest.raises(InvalidInput) as error:
        Manifest.parse({field: {}})
    assert error.value.problems[0].suggestion


def test_every_problem_is_told_at_once() -> None:
    found = problems(
        {
            "image": 3,
            "resources": {"cpu": "fast", "memory": "lots"},
            "network_policy": {"default": "maybe"},
        }
    )
    assert set(found) == {"image", "resources.cpu", "resources.memory", "network_policy.default"}
    assert found["network_policy.default"] == "'maybe' is not a valid SandboxNetworkDefault"


@pytest.mark.parametrize("fields", [None, [], "docker", 3])
def test_what_is_no_mapping_is_no_manifest(fields: Any) -> None:
    assert problems(fields) == {"": "a manifest is a mapping of its fields"}
    with pytest.raises(InvalidInput):
        Manifest.from_wire(fields)


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("workspace", "sandbox path must be absolute: workspace"),
        ("/workspace/../etc", "sandbox path escapes allowed scope: /workspace/../etc"),
        ("/workspace/%2e%2e/etc", "sandbox path escapes allowed scope: /workspace/%2e%2e/etc"),
        ("\\workspace\\..\\etc", "sandbox path escapes allowed scope: \\workspace\\..\\etc"),
        ("/work\0space", "sandbox path must not contain a null byte"),
    ],
)
def test_a_working_directory_that_is_no_safe_path_is_refused(path: str, message: str) -> None:
    assert problems({"working_dir": path}) == {"working_dir": message}


@pytest.mark.parametrize(
    "path", ["/srv//app/", "//srv/app", "/srv/./app", "/srv%2Fapp", "\\srv\\app"]
)
def test_a_working_directory_has_one_spelling(path: str) -> None:
    assert Manifest.parse({"working_dir": path}).working_dir == "/srv/app"


@pytest.mark.parametrize("host", ["A.Example.ORG", " a.example.org ", "a.example.org."])
def test_hosts_have_one_spelling(host: str) -> None:
    assert Manifest.parse(
        {"network_policy": {"allowed_hosts": [host]}}
    ).network_policy.allowed_hosts == ("a.example.org",)


@pytest.mark.parametrize(
    "host",
    [
        "https://a.example.org",
        "a.example.org/x",
        "me@a.example.org",
        "",
        "*",
        "a.*.org",
        "a b",
        "-a.org",
        "a..org",
    ],
)
def test_what_is_no_host_is_refused(host: str) -> None:
    assert problems({"network_policy": {"allowed_hosts": [host]}}) == {
        "network_policy.allowed_hosts.0": f"invalid network host pattern: {host}"
    }


def test_a_host_has_no_port() -> None:
    assert problems({"network_policy": {"denied_hosts": ["a.example.org:443"]}}) == {
        "network_policy.denied_hosts.0": "network host pattern must not include a port: a.example.org:443"
    }


@pytest.mark.parametrize("name", ["1A", "A-B", "A B", "", "A=B"])
def test_a_variables_name_is_one(name: str) -> None:
    assert (
        f"invalid sandbox environment variable name: {name}"
        in problems({"environment": {"plain": {name: "x"}}}).values()
    )


def test_a_variables_value_becomes_text() -> None:
    plain = {"A": 1, "B": True, "C": 1.5, "D": "text"}
    assert Manifest.parse({"environment": {"plain": plain}}).environment.plain == {
        "A": "1",
        "B": "true",
        "C": "1.5",
        "D": "text",
    }
    assert "environment.plain.A" in problems({"environment": {"plain": {"A": None}}})
    assert "environment.plain.A" in problems({"environment": {"plain": {"A": "a\0b"}}})


@pytest.mark.parametrize("reference", ["", "a b", "../a", "a\0b"])
def test_a_secret_reference_is_one(reference: str) -> None:
    assert "environment.secret_refs.0" in problems({"environment": {"secret_refs": [reference]}})


@pytest.mark.parametrize(
    ("text", "size"),
    [("512m", 512 * 2**20), ("2g", 2**31), ("1.5GB", 3 * 2**29), ("64kb", 65536), ("1000", 1000)],
)
def test_memory_is_a_number_with_a_unit(text: str, size: int) -> None:
    assert memory_bytes(text) == size


@pytest.mark.parametrize("text", ["", "g", "-1g", "1t", "1e9", "0", "1 g", "1.m"])
def test_what_is_no_size_is_refused_at_once(text: str) -> None:
    assert "is not a size" in problems({"resources": {"memory": text}})["resources.memory"]


@pytest.mark.parametrize(("text", "count"), [("2", "2"), ("0.5", "0.5"), ("500m", "0.5")])
def test_processors_are_a_number(text: str, count: str) -> None:
    assert cpu_count(text) == Decimal(count)


@pytest.mark.parametrize("text", ["", "many", "0", "-1", "nan", "inf", "1e9"])
def test_what_is_no_number_of_processors_is_refused_at_once(text: str) -> None:
    assert (
        "is not a number of processors" in problems({"resources": {"cpu": text}})["resources.cpu"]
    )


@pytest.mark.parametrize("seconds", [0, -1, 1.5, "60", True])
def test_a_lifetime_is_whole_seconds(seconds: Any) -> None:
    assert "resources.timeout_seconds" in problems({"resources": {"timeout_seconds": seconds}})


@pytest.mark.parametrize("source", ["data", "s3://", "s3://key:secret@bucket/path", "s3://bucket"])
def test_a_mount_comes_from_a_path_or_an_address_without_credentials(source: str) -> None:
    assert "workspace_mount.source" in problems(
        {"workspace_mount": {"source": source, "target": "/data"}}
    )


def test_the_wire_form_is_read_and_what_it_does_not_know_is_ignored() -> None:
    body = {
        "image": None,
        "working_dir": "/workspace",
        "environment": {"A": "1"},
        "network": {
            "default": "deny",
            "allowed_hosts": ["packages.example.org"],
            "denied_hosts": [],
            "new": 1,
        },
        "resources": {"cpu": "1", "memory": None, "gpu": False},
        "later": {"added": True},
    }
    manifest = Manifest.from_wire(body)
    assert manifest.environment.plain == {"A": "1"}
    assert manifest.network_policy.allowed_hosts == ("packages.example.org",)
    assert manifest.resources.cpu == "1"
    assert manifest.model_fields_set == {
        "working_dir",
        "environment",
        "network_policy",
        "resources",
    }


def test_what_is_wrong_in_the_wire_form_is_refused() -> None:
    with pytest.raises(InvalidInput):
        Manifest.from_wire({"network": "deny"})
    with pytest.raises(InvalidInput):
        Manifest.from_wire({"environment": ["A"]})


def test_a_session_says_what_it_wants_and_the_environment_fills_in_the_rest() -> None:
    environment = Manifest.parse(
        {
            "image": "base:1",
            "network_policy": {"default": "allow"},
            "environment": {"plain": {"A": "1", "B": "1"}, "secret_refs": ["one"]},
            "resources": {"memory": "1g", "cpu": "1"},
        }
    )
    session = Manifest.parse(
        {
            "working_dir": "/srv",
            "network_policy": {},
            "environment": {"plain": {"B": "2"}, "secret_refs": ["two", "one"]},
            "resources": {"cpu": "2"},
        }
    )
    merged = environment.merged_with(session)
    assert (merged.image, merged.working_dir) == ("base:1", "/srv")
    assert merged.network_policy.default is NetworkDefault.DENY
    assert merged.environment.plain == {"A": "1", "B": "2"}
    assert merged.environment.secret_refs == ("one", "two")
    assert (merged.resources.memory, merged.resources.cpu) == ("1g", "2")


def test_a_session_that_says_nothing_changes_nothing() -> None:
    environment = Manifest.parse({"image": "base:1", "network_policy": {"default": "allow"}})
    assert environment.merged_with(Manifest()) == environment


def test_equal_manifests_have_equal_digests_and_others_do_not() -> None:
    first = Manifest.parse({"environment": {"plain": {"A": "1", "B": "2"}}})
    same = Manifest.parse(
        {"working_dir": "/workspace/", "environment": {"plain": {"B": "2", "A": "1"}}}
    )
    other = Manifest.parse({"environment": {"plain": {"A": "1", "B": "3"}}})
    assert first.digest() == same.digest() != other.digest()
    assert Manifest.parse(first.to_dict()).digest() == first.digest()
