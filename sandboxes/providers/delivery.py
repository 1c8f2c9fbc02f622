"""How a provider gives a sandbox its secrets, and what keeps each from going anywhere else.

A secret that names hosts goes nowhere but there. Where the provider itself adds it to requests,
commands never see it; where commands can read it, the network has to keep it in.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import combinations
from typing import Protocol

from sandboxes.manifest import Manifest, NetworkDefault, NetworkPolicy


class Delivery(StrEnum):
    """How a sandbox gets a secret.

    FILE: in memory, at SECRET_FOLDER/NAME, which the variable NAME_FILE names. VARIABLE: NAME holds
    it. HEADER: the provider adds it to requests on their way to its hosts. PLACEHOLDER: NAME holds a
    stand-in, which the provider replaces on the way to its hosts.
    """

    FILE = "file"
    VARIABLE = "variable"
    HEADER = "header"
    PLACEHOLDER = "placeholder"

    @property
    def is_readable(self) -> bool:
        """Whether a command can read the value itself."""
        return self in (Delivery.FILE, Delivery.VARIABLE)

    def variable(self, name: str) -> str | None:
        """Return the variable that commands find a secret by."""
        return {Delivery.FILE: f"{name}_FILE", Delivery.HEADER: None}.get(self, name)


# What may be reached is what keeps a secret in, and at some vendors its rules hold the secret itself.
FIXED_BY_SECRETS = "A sandbox with secrets keeps the network it was made with"
SECRET_FOLDER = "/run/secrets"  # noqa: S105 -- where they are, not one of them


class Named(Protocol):
    """What is known of a secret without its value."""

    @property
    def name(self) -> str:
        """What an environment refers to it by."""

    @property
    def hosts(self) -> Sequence[str]:
        """Where it may be sent; empty for wherever its reader sends it."""

    @property
    def header(self) -> str:
        """The header that carries it, where a provider adds it to requests."""


@dataclass(frozen=True, kw_only=True)
class GivenSecret:
    """A secret on its way into a sandbox; its value shows in no repr."""

    name: str
    value: str = field(repr=False)
    hosts: tuple[str, ...] = ()
    header: str = "Authorization"
    template: str = "{}"

    @property
    def header_value(self) -> str:
        """What its header says."""
        return self.template.replace("{}", self.value)


def covers(pattern: str, host: str) -> bool:
    """Say whether a host, or every host of a pattern, is one that another pattern names."""
    return pattern == host or (pattern.startswith("*.") and host.endswith(pattern[1:]))


def reachable(policy: NetworkPolicy, hosts: Sequence[str]) -> tuple[str, ...]:
    """Return the hosts, or the narrower patterns of both, that a network policy lets through."""
    if policy.default is NetworkDefault.ALLOW:
        return tuple(hosts)
    allowed = policy.allowed_hosts
    wide = [host for host in hosts if any(covers(one, host) for one in allowed)]
    narrow = [one for one in allowed if any(covers(host, one) for host in hosts)]
    return tuple(dict.fromkeys((*wide, *narrow)))


def headers_by_host(
    policy: NetworkPolicy, secrets: Sequence[GivenSecret]
) -> dict[str, dict[str, str]]:
    """Return the headers that requests to each host get on their way, for hosts that are let through."""
    added: dict[str, dict[str, str]] = {}
    for secret in secrets:
        for host in reachable(policy, secret.hosts):
            added.setdefault(host, {})[secret.header] = secret.header_value
    return added


def undelivered(
    provider: str, delivery: Delivery, manifest: Manifest, secrets: Sequence[Named]
) -> Iterator[str]:
    """Yield why a provider cannot give these secrets to a sandbox and keep where each may go."""
    for secret in secrets:
        variable = delivery.variable(secret.name)
        if variable in manifest.environment.plain:
            yield (
                f"The variable {variable} is how commands find the secret {secret.name}: "
                "take it out of environment.plain"
            )
        check = _unkept if delivery.is_readable else _unsent
        yield from check(provider, manifest.network_policy, secret)
    if delivery is Delivery.HEADER:
        yield from _clashing(secrets)


def _unkept(provider: str, policy: NetworkPolicy, secret: Named) -> Iterator[str]:
    """Yield why hosts cannot be kept of a secret that commands read."""
    kept = policy.default is NetworkDefault.DENY and all(
        any(covers(host, allowed) for host in secret.hosts) for allowed in policy.allowed_hosts
    )
    if secret.hosts and not kept:
        yield (
            f"The secret {secret.name} may only go to {', '.join(secret.hosts)}, and commands in a "
            f"{provider} sandbox can read it: let network_policy allow no other host, or use a "
            "provider that adds it to requests outside (e2b, daytona, vercel)"
        )


def _unsent(provider: str, policy: NetworkPolicy, secret: Named) -> Iterator[str]:
    """Yield why a secret would never be added to a request."""
    if not secret.hosts:
        yield (
            f"The {provider} sandbox adds a secret to requests to named hosts, and {secret.name} "
            "names none: use a secret that says where it may go"
        )
    elif not reachable(policy, secret.hosts):
        yield (
            f"The secret {secret.name} may only go to {', '.join(secret.hosts)}, which the sandbox "
            "cannot reach: allow one of them in network_policy"
        )


def _clashing(secrets: Sequence[Named]) -> Iterator[str]:
    for one, other in combinations(secrets, 2):
        same = one.header.lower() == other.header.lower()
        meet = any(covers(a, b) or covers(b, a) for a in one.hosts for b in other.hosts)
        if same and meet:
            yield (
                f"The secrets {one.name} and {other.name} would both be the header {one.header} "
                "of the same requests: use only one of them"
            )
