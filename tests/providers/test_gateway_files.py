"""A network policy as the files of a gateway: the same verdicts, and no name in a configuration."""

from __future__ import annotations

import re
from ipaddress import IPv4Address, ip_network

import pytest
from hypothesis import given
from hypothesis import strategies as st

from omniweb.core.errors import InvalidInput
from sandboxes.manifest import Manifest, NetworkPolicy
from sandboxes.providers import gateway
from sandboxes.providers.table import DOCKER
from tests.test_repository import ROOT

ADDRESS = IPv4Address("10.207.0.2")
LABELS = st.sampled_from(["a", "b", "com", "x-1", "_s"])
HOSTS = st.lists(LABELS, min_size=1, max_size=4).map(".".join)
PATTERNS = st.tuples(st.sampled_from(["", "*."]), HOSTS).map("".join)
POLICIES = st.builds(
    NetworkPolicy,
    default=st.sampled_from(["deny", "allow"]),
    allowed_hosts=st.lists(PATTERNS, max_size=4).map(tuple),
    denied_hosts=st.lists(PATTERNS, max_size=4).map(tuple),
)


def files(policy: NetworkPolicy, *name_servers: str) -> dict[str, str]:
    """Return a gateway's files."""
    return gateway.files(policy, ADDRESS, map(IPv4Address, name_servers))


def answered(zone: str, name: str) -> bool:
    """Say whether a zone has an address for a name, as RFC 4592 has it."""
    records = [line.split(" ", 2) for line in zone.splitlines() if line[0] not in "$." and line]
    addresses = {owner for owner, kind, _ in records if kind == "A"}
    there = {"."}
    for owner, _, _ in records:
        labels = owner.rstrip(".").split(".")
        there |= {".".join(labels[n:]) + "." for n in range(len(labels))}
    sought = f"{name}."
    if sought in there:
        return sought in addresses
    while sought not in there:
        sought = sought.partition(".")[2] or "."
    return f"*.{sought}".replace("..", ".") in addresses


@given(POLICIES, HOSTS)
def test_the_zone_has_exactly_the_allowed_names(policy: NetworkPolicy, name: str) -> None:
    zone = files(policy)["zone"]
    assert answered(zone, name) is gateway.is_allowed(policy, name)
    assert answered(zone, f"deep.er.{name}") is gateway.is_allowed(policy, f"deep.er.{name}")


@pytest.mark.parametrize(
    ("name", "is_allowed"),
    [
        ("a.example", True),
        ("b.a.example", False),
        ("x.files.example", True),
        ("x.y.files.example", True),
        ("files.example", False),
        ("secret.files.example", False),
        ("x.secret.files.example", True),
        ("x.deep.files.example", False),
        ("deep.files.example", True),
        ("nofiles.example", False),
        ("example", False),
    ],
)
def test_patterns_mean_what_the_manifest_says(name: str, is_allowed: bool) -> None:
    policy = NetworkPolicy(
        allowed_hosts=("a.example", "*.files.example"),
        denied_hosts=("secret.files.example", "*.deep.files.example"),
    )
    assert gateway.is_allowed(policy, name) is is_allowed
    assert answered(files(policy)["zone"], name) is is_allowed


@given(POLICIES, POLICIES)
def test_a_configuration_depends_on_no_name(one: NetworkPolicy, other: NetworkPolicy) -> None:
    def shape(policy: NetworkPolicy) -> tuple[object, ...]:
        return policy.default, bool(policy.denied_hosts)

    same = files(one)["haproxy.cfg"] == files(other)["haproxy.cfg"]
    assert same is (shape(one) == shape(other))
    assert files(one)["knot.conf"] == files(other)["knot.conf"]


@given(st.text(max_size=40) | st.from_regex(r"[a-z.*#\"' \n\\$()-]{1,20}"))
def test_no_text_that_a_manifest_takes_breaks_out_of_its_line(text: str) -> None:
    try:
        policy = Manifest.parse({"network_policy": {"allowed_hosts": [text]}}).network_policy
    except InvalidInput:
        return
    made = files(policy)
    lines = (made["allowed"] + made["allowed-below"]).splitlines()
    assert len(lines) == 1
    assert re.fullmatch(r"[a-z0-9_.-]+", lines[0])
    for line in made["zone"].splitlines()[3:]:
        assert re.fullmatch(r'[a-z0-9_.*-]+\. (A 10\.207\.0\.2|TXT "not allowed")', line)


def test_a_name_that_is_too_long_for_any_zone_is_in_none() -> None:
    longest = ".".join(["a" * 49] * 5)
    policy = NetworkPolicy(allowed_hosts=(longest, f"aaaa.{longest}", f"*.{longest}"))
    owners = [line.split(". ")[0] for line in files(policy)["zone"].splitlines()[3:]]
    assert longest in owners
    assert max(map(len, owners)) <= gateway.LONGEST_NAME


def test_name_servers_are_those_that_were_given_or_dockers() -> None:
    policy = NetworkPolicy(allowed_hosts=("a.example",))
    assert "    parse-resolv-conf\n" in files(policy)["haproxy.cfg"]
    told = files(policy, "192.0.2.1", "192.0.2.2")["haproxy.cfg"]
    assert "nameserver server0 192.0.2.1:53\n    nameserver server1 192.0.2.2:53\n" in told
    assert "parse-resolv-conf" not in told


def test_every_address_that_is_not_public_is_refused() -> None:
    refused = [ip_network(one) for one in gateway.NOT_PUBLIC]
    for sample in (
        "0.0.0.0 10.1.2.3 100.64.0.1 127.0.0.1 168.63.129.16 169.254.169.254 172.31.0.1 "
        "192.0.0.192 192.168.1.1 198.18.0.1 224.0.0.1 239.1.1.1 240.0.0.1 255.255.255.255"
    ).split():
        assert any(IPv4Address(sample) in one for one in refused), sample
    for sample in "1.1.1.1 9.9.9.9 100.63.0.1 172.15.0.1 172.32.0.1 223.255.255.255".split():
        assert not any(IPv4Address(sample) in one for one in refused), sample


@pytest.mark.parametrize(
    ("fields", "is_needed"),
    [
        ({"default": "deny"}, False),
        ({"default": "allow"}, False),
        ({"default": "deny", "allowed_hosts": ["a"]}, True),
        ({"default": "deny", "denied_hosts": ["a"]}, False),
        ({"default": "allow", "allowed_hosts": ["a"]}, False),
        ({"default": "allow", "denied_hosts": ["a"]}, True),
    ],
)
def test_a_gateway_is_needed_where_hosts_are_told_apart(
    fields: dict[str, object], is_needed: bool
) -> None:
    assert gateway.is_needed(NetworkPolicy.model_validate(fields)) is is_needed


@given(POLICIES)
def test_what_is_tried_from_inside_is_denied(policy: NetworkPolicy) -> None:
    names = {target.server_name for target in gateway.targets(policy, "10.207.0.2")} - {""}
    names -= {"dns.google"}
    assert all(not gateway.is_allowed(policy, name) for name in names)


def test_the_shipped_image_has_what_the_command_starts() -> None:
    made = (ROOT / "deploy/gateway/Dockerfile").read_text()
    [packages] = re.findall(r'^ARG PACKAGES="(.*)"$', made, re.MULTILINE)
    assert packages.split() == ["bash", "haproxy", "knot"]
    [said] = re.findall(r"docker build -t (\S+) deploy/gateway$", made, re.MULTILINE)
    assert said == DOCKER.read_options({})["gateway_image"]
