"""What opening a sandbox asks of a policy: one question for each thing its manifest gives it.

The metadata holds all that would make a difference to whoever approves, so that two manifests
that differ never look like the same request. Values of variables appear as digests only.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Any

from approvals.policy.decision import AuthorityRequest, Target
from omniweb.core.canonical import digest_bytes
from sandboxes.manifest import Manifest, MountMode, NetworkDefault

SECRET_SURFACE = "secret_broker"  # noqa: S105 -- where secrets are used, not one of them
NO_SECRETS: Mapping[str, Mapping[str, Any]] = MappingProxyType({})


def manifest_requests(
    manifest: Manifest,
    *,
    provider: str,
    execution_surface: str,
    secrets: Mapping[str, Mapping[str, Any]] = NO_SECRETS,
) -> list[AuthorityRequest]:
    """Return the questions a manifest raises, in a fixed order; none for a bare one.

    `secrets` is what is known of each, by its name. The working directory, a network that stays off and the lifetime ask nothing.
    """
    requests = [
        *_image(manifest),
        *_mount(manifest),
        *_network(manifest),
        *_environment(manifest),
        *_secrets(manifest, secrets),
        *_resources(manifest),
    ]
    return [
        AuthorityRequest(
            **{"provider": provider, "execution_surface": execution_surface, **request}
        )
        for request in requests
    ]


def _image(manifest: Manifest) -> Iterator[dict[str, Any]]:
    if manifest.image is not None:
        target = Target(resource=manifest.image)
        yield {"capability": "sandbox.image.use", "target": target, "risk_level": "medium"}


def _mount(manifest: Manifest) -> Iterator[dict[str, Any]]:
    mount = manifest.workspace_mount
    if mount is not None:
        yield {
            "capability": "sandbox.filesystem.mount",
            "target": Target(path=mount.target, resource=mount.source),
            "risk_level": "high" if mount.mode is MountMode.READ_WRITE else "medium",
            "metadata": {"mode": mount.mode.value},
        }


def _network(manifest: Manifest) -> Iterator[dict[str, Any]]:
    network = manifest.network_policy
    questions: list[tuple[str, str, dict[str, Any]]] = []
    if network.default is NetworkDefault.ALLOW:
        lists = {
            "default": network.default.value,
            "allowed_hosts": list(network.allowed_hosts),
            "denied_hosts": list(network.denied_hosts),
        }
        questions.append(("*", "high", lists))
    questions += [(host, "medium", {"mode": "allow"}) for host in network.allowed_hosts]
    questions += [(host, "medium", {"mode": "deny"}) for host in network.denied_hosts]
    for host, risk, metadata in questions:
        yield {
            "capability": "sandbox.network.configure",
            "target": Target(host=host),
            "risk_level": risk,
            "metadata": metadata,
        }


def _environment(manifest: Manifest) -> Iterator[dict[str, Any]]:
    plain = manifest.environment.plain
    if plain:
        values = {
            name: digest_bytes(plain[name].encode("utf-8", "surrogatepass"))
            for name in sorted(plain)
        }
        yield {
            "capability": "sandbox.environment.set",
            "risk_level": "medium",
            "metadata": {"names": list(values), "value_digests": values},
        }


def _secrets(
    manifest: Manifest, secrets: Mapping[str, Mapping[str, Any]]
) -> Iterator[dict[str, Any]]:
    for reference in manifest.environment.secret_refs:
        yield {
            "capability": "secret.use",
            "target": Target(resource=reference),
            "risk_level": "medium",
            "execution_surface": SECRET_SURFACE,
            "metadata": {"purpose": "sandbox environment", **secrets.get(reference, {})},
        }


def _resources(manifest: Manifest) -> Iterator[dict[str, Any]]:
    resources = manifest.resources
    if resources.cpu or resources.memory or resources.gpu:
        yield {
            "capability": "sandbox.resources.set",
            "risk_level": "medium",
            "metadata": {"cpu": resources.cpu, "memory": resources.memory, "gpu": resources.gpu},
        }
