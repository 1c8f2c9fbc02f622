"""What a manifest can ask for, what a provider can keep, and the words for the difference."""

from __future__ import annotations

from collections.abc import Collection
from enum import StrEnum

from omniweb.core.errors import InvalidInput, Problem, SandboxUnsupported
from sandboxes.manifest import Manifest, NetworkDefault


class Setting(StrEnum):
    """A manifest setting that a provider may or may not enforce, by its place in the manifest.

    Listed in the order in which they are checked; the first that is not kept is named.
    """

    IMAGE = "image"
    ALLOWED_HOSTS = "network_policy.allowed_hosts"
    DENIED_HOSTS = "network_policy.denied_hosts"
    NETWORK_OFF = "network_policy.default"
    WORKSPACE_MOUNT = "workspace_mount"
    SECRETS = "environment.secret_refs"
    CPU = "resources.cpu"
    MEMORY = "resources.memory"
    GPU = "resources.gpu"
    LIFETIME = "resources.timeout_seconds"


class Ability(StrEnum):
    """Something a provider can do beyond running a command to its end.

    STREAM: output comes while it is written. STDERR: apart from stdout. BYTES: in stdin and output,
    not only text. STOP: one command, without ending its sandbox. BACKGROUND: what a command leaves
    running goes on. FILES: listed. STATE: told.
    """

    STREAM = "stream"
    STDERR = "stderr"
    BYTES = "bytes"
    STDIN = "stdin"
    STOP = "stop"
    BACKGROUND = "background"
    FILES = "list_files"
    STATE = "state"
    PAUSE = "pause"
    SNAPSHOT = "snapshot"
    NETWORK_CHANGE = "network_change"
    LIST = "list"


# The names are part of messages that callers match on.
NAMES = {
    Setting.IMAGE: "an image (image)",
    Setting.ALLOWED_HOSTS: "a network host allowlist (allowed_hosts)",
    Setting.DENIED_HOSTS: "blocking named hosts (denied_hosts)",
    Setting.NETWORK_OFF: "network off",
    Setting.WORKSPACE_MOUNT: "a workspace mount (workspace_mount)",
    Setting.SECRETS: "delivering secrets (environment.secret_refs)",
    Setting.CPU: "a CPU limit (resources.cpu)",
    Setting.MEMORY: "a memory limit (resources.memory)",
    Setting.GPU: "a GPU (resources.gpu)",
    Setting.LIFETIME: "a sandbox lifetime (resources.timeout_seconds)",
}

_LEAVE_UNSET = "leave it unset, or use a provider that applies it"
ADVICE = {
    Setting.IMAGE: "local runs on the host and has no image; remove it, or use a provider that runs one",
    Setting.ALLOWED_HOSTS: (
        "use network_policy default 'deny' or 'allow', or a provider that enforces one (modal, http)"
    ),
    Setting.DENIED_HOSTS: (
        "use network_policy default 'deny' with allowed_hosts on a provider that enforces them, "
        "or the http provider with a service that does"
    ),
    Setting.NETWORK_OFF: (
        "local runs on the host and cannot cut its network; set network_policy default 'allow' "
        "with no host lists, or use an isolating provider such as docker"
    ),
    Setting.WORKSPACE_MOUNT: (
        "use the workspace bridge, which copies files in and out on every provider, "
        "or the docker provider"
    ),
    Setting.SECRETS: (
        "put a value the command may see in environment.plain, or keep the secret out of the "
        "sandbox and call the service from a tool instead"
    ),
    Setting.CPU: _LEAVE_UNSET,
    Setting.MEMORY: _LEAVE_UNSET,
    Setting.GPU: "leave it unset, or use the http provider with a service that provides one",
    Setting.LIFETIME: "set the provider's own timeout_seconds option in sandbox_config instead",
}


def settings_asked(manifest: Manifest) -> list[Setting]:
    """Return what a manifest asks a provider to keep, in the order it is checked."""
    network, resources = manifest.network_policy, manifest.resources
    asked = {
        Setting.IMAGE: manifest.image is not None,
        Setting.ALLOWED_HOSTS: bool(network.allowed_hosts),
        Setting.DENIED_HOSTS: bool(network.denied_hosts),
        Setting.NETWORK_OFF: network.default is NetworkDefault.DENY,
        Setting.WORKSPACE_MOUNT: manifest.workspace_mount is not None,
        Setting.SECRETS: bool(manifest.environment.secret_refs),
        Setting.CPU: resources.cpu is not None,
        Setting.MEMORY: resources.memory is not None,
        Setting.GPU: resources.gpu,
        Setting.LIFETIME: resources.timeout_seconds is not None,
    }
    return [setting for setting in Setting if asked[setting]]


def unkept(enforced: Collection[Setting] | None, manifest: Manifest) -> list[Setting]:
    """Return what a manifest asks for and a provider does not keep; None enforces whatever is asked."""
    if enforced is None:
        return []
    return [setting for setting in settings_asked(manifest) if setting not in enforced]


def refusal(provider: str, setting: Setting) -> str:
    """Return the sentence that refuses a setting (requirement document 1, "When things go wrong")."""
    return f"The {provider} sandbox does not enforce {NAMES[setting]}: {ADVICE[setting]}"


def check_when_saved(
    provider: str, enforced: Collection[Setting] | None, manifest: Manifest
) -> None:
    """Raise InvalidInput with a problem for each setting the provider does not keep."""
    problems = [
        Problem(path=f"manifest.{setting}", message=refusal(provider, setting))
        for setting in unkept(enforced, manifest)
    ]
    if problems:
        raise InvalidInput(problems[0].message, problems=problems)


def check_when_opened(
    provider: str, enforced: Collection[Setting] | None, manifest: Manifest
) -> None:
    """Raise SandboxUnsupported for the first setting the provider does not keep."""
    for setting in unkept(enforced, manifest):
        raise SandboxUnsupported(refusal(provider, setting), setting=setting.value)
