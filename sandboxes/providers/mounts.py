"""Which folders of this machine may never be mounted into a sandbox, and why."""

from __future__ import annotations

import os
import stat
from contextlib import suppress
from pathlib import Path

from omniweb.core.errors import SandboxUnsupported

# What is inside one of these, or contains one, hands over the machine.
_SYSTEM = tuple(
    Path(path)
    for path in (
        "/bin /boot /dev /etc /lib /lib32 /lib64 /proc /root /run /sbin /snap /sys /usr /var/run "
        "/var/lib/docker /var/lib/containerd /var/lib/containers /var/lib/kubelet"
    ).split()
)
_CREDENTIALS = frozenset(
    ".ssh .aws .azure .docker .kube .gnupg .config .netrc .git-credentials .pypirc .npmrc "
    ".modal.toml".split()
)
# A project may well hold a .config or .npmrc of its own; these it does not.
_GIVE_AWAY = _CREDENTIALS - {".config", ".npmrc", ".pypirc"}
_SOCKETS = frozenset(
    {"docker.sock", "containerd.sock", "podman.sock", "crio.sock", "buildkitd.sock"}
)


def mount_source(source: str) -> str:
    """Return the real path of a folder that may be mounted.

    Raises SandboxUnsupported with the reason when it may not, or is not there.
    """
    if "://" in source:
        raise _refused(source, "it is an address, and Docker mounts folders of this machine")
    real = Path(os.path.realpath(source))
    # What is written and what it leads to: neither may be on the list, in any spelling.
    for path in (Path(source), real):
        if reason := _reason(path):
            raise _refused(source, reason)
    try:
        mode = real.stat().st_mode
    except OSError:
        raise _refused(source, "it does not exist on this machine") from None
    if not stat.S_ISDIR(mode) and not stat.S_ISREG(mode):
        raise _refused(source, "it is neither a folder nor a file")
    if found := _held(real):
        raise _refused(source, f"it contains the credentials in {found}")
    return str(real)


def _reason(path: Path) -> str:
    folded = Path(str(path).casefold())
    if folded == Path("/"):
        return "it is the whole machine"
    if folded.name in _SOCKETS:
        return "it is the socket of a container engine"
    if found := _CREDENTIALS.intersection(folded.parts):
        return f"{sorted(found)[0]} holds credentials"
    for system in _SYSTEM:
        if folded == system or system in folded.parents:
            return f"{system} belongs to the system"
        if folded in system.parents:
            return f"it contains {system}, which belongs to the system"
    return ""


def _held(folder: Path) -> str:
    with suppress(OSError):
        return next(
            (found.name for found in folder.iterdir() if found.name.casefold() in _GIVE_AWAY), ""
        )
    return ""


def _refused(source: str, reason: str) -> SandboxUnsupported:
    return SandboxUnsupported(f"{source} must not be mounted into a sandbox: {reason}")
