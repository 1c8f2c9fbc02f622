"""What may never be mounted: by name, by link, by spelling, by what it contains."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest

from omniweb.core.errors import SandboxUnsupported
from sandboxes.providers.mounts import mount_source


@pytest.mark.parametrize(
    "source",
    [
        "/",
        "/etc",
        "/etc/ssl",
        "/ETC",
        "/proc/1",
        "/sys",
        "/dev",
        "/boot",
        "/root/project",
        "/run",
        "/var/run/docker.sock",
        "/var",
        "/var/lib/docker/volumes",
        "/var/lib/containerd",
        "/usr/share",
        "/bin",
        "/home/somebody/.ssh",
        "/home/somebody/.SSH/keys",
        "/home/somebody/.aws",
        "/srv/.git-credentials",
        "/srv/docker.sock",
        "s3://bucket/path",
    ],
)
def test_it_is_refused_with_a_reason(source: str) -> None:
    with pytest.raises(SandboxUnsupported) as refused:
        mount_source(source)
    assert refused.value.detail.startswith(f"{source} must not be mounted into a sandbox: ")


def test_a_link_is_judged_by_where_it_leads(tmp_path: Path) -> None:
    (tmp_path / "harmless").symlink_to("/etc")
    (tmp_path / "deeper").mkdir()
    (tmp_path / "deeper" / "up").symlink_to("/")
    for source in (
        tmp_path / "harmless",
        tmp_path / "harmless" / "ssl",
        tmp_path / "deeper" / "up" / "etc",
    ):
        with pytest.raises(SandboxUnsupported, match="belongs to the system"):
            mount_source(str(source))


def test_a_home_is_refused_for_the_credentials_in_it(tmp_path: Path) -> None:
    (tmp_path / ".ssh").mkdir()
    with pytest.raises(SandboxUnsupported, match=r"it contains the credentials in \.ssh"):
        mount_source(str(tmp_path))


def test_what_is_not_there_or_is_no_folder_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SandboxUnsupported, match="does not exist"):
        mount_source(str(tmp_path / "missing"))
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(SandboxUnsupported, match="neither a folder nor a file"):
        mount_source(str(tmp_path / "pipe"))
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(tmp_path / "s"))
        with pytest.raises(SandboxUnsupported, match="neither a folder nor a file"):
            mount_source(str(tmp_path / "s"))


def test_an_ordinary_folder_is_mounted_by_its_real_path(tmp_path: Path) -> None:
    (tmp_path / "project").mkdir()
    (tmp_path / "project" / ".config").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "project")
    assert mount_source(str(tmp_path / "link")) == str(tmp_path / "project")
