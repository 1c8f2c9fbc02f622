"""The questions a manifest raises when a sandbox opens, all asked at once.

Source: the manifest's authority requests of the governance reference, §3.4.
Unlike there, everything a question is about is in it: allowing a host and
denying it, or two different sets of variables, are never the same question.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from approvals.policy.decision import AuthorityRequest, Target
from omniweb.core.canonical import digest
from sandboxes.manifest import Manifest, MountMode, NetworkDefault

SURFACE = "sandbox"


def manifest_authority(manifest: Manifest) -> list[AuthorityRequest]:
    """Return one request per image, mount, host, set of variables, secret and set of resources."""
    return list(_questions(manifest))


def _questions(manifest: Manifest) -> Iterator[AuthorityRequest]:
    if manifest.image is not None:
        yield _question("sandbox.image.use", "medium", Target(resource=manifest.image))
    mount = manifest.workspace_mount
    if mount is not None:
        risk = "high" if mount.mode is MountMode.READ_WRITE else "medium"
        target = Target(path=mount.target, resource=mount.source)
        yield _question("sandbox.filesystem.mount", risk, target, mode=mount.mode.value)
    yield from _network(manifest)
    plain = manifest.environment.plain
    if plain:
        values = {name: digest(value) for name, value in plain.items()}
        yield _question(
            "sandbox.environment.set", "medium", None, names=sorted(plain), values=values
        )
    for ref in manifest.environment.secret_refs:
        yield AuthorityRequest(
            capability="secret.use",
            target=Target(resource=ref),
            execution_surface="secret_broker",
            risk_level="medium",
            metadata={"purpose": "sandbox environment"},
        )
    given = manifest.resources.model_dump(include={"cpu", "memory", "gpu"})
    if any(given.values()):
        yield _question("sandbox.resources.set", "medium", None, **given)


def _network(manifest: Manifest) -> Iterator[AuthorityRequest]:
    policy = manifest.network_policy
    lists = {"allowed": list(policy.allowed_hosts), "denied": list(policy.denied_hosts)}
    if policy.default is NetworkDefault.ALLOW:
        yield _host("*", "high", default="allow", **lists)
    for host in policy.allowed_hosts:
        yield _host(host, "medium", mode="allow")
    for host in policy.denied_hosts:
        yield _host(host, "medium", mode="deny")


def _host(host: str, risk: str, **details: Any) -> AuthorityRequest:
    return _question("sandbox.network.configure", risk, Target(host=host), **details)


def _question(
    capability: str, risk: str, target: Target | None, **details: Any
) -> AuthorityRequest:
    return AuthorityRequest(
        capability=capability,
        target=target,
        provider="sandbox",
        execution_surface=SURFACE,
        risk_level=risk,
        metadata=details,
    )
