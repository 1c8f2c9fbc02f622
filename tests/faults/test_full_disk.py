"""A data folder without room: what ran is not lost, and all goes on once there is room again."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests import environment
from tests.faults.outside import POLICIES, Agent, Running, Word, rest, until
from tests.server import Server

pytestmark = pytest.mark.skipif(
    os.geteuid() != 0 or environment.DATABASE != "sqlite",
    reason="needs to mount a small disk, for the database of one process",
)


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of 16 MB."""
    made = tmp_path / "disk"
    made.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=16m", "omniweb-test", str(made)]
    if subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("this machine mounts nothing")
    yield made
    subprocess.run(["umount", "--lazy", str(made)], check=True)


def test_a_command_that_ended_while_the_disk_was_full_has_its_result_when_there_is_room(
    disk: Path, tmp_path: Path
) -> None:
    server = Server(disk / "data")
    try:
        server.environment_switch("local")
        server.start()
        server.policy("free", POLICIES["free"])
        agent = Agent(server.url, token=server.agent_made("fix-bot", "free"))
        session = agent.open()
        word = Word(tmp_path, "sleep 2")
        running = Running(lambda: agent.run(session, word))
        until(word.ran)
        ballast = disk / "ballast"
        subprocess.run(["dd", "if=/dev/zero", f"of={ballast}"], capture_output=True, check=False)
        with pytest.raises(AssertionError):
            running.told(5)
        ballast.unlink()
        assert running.told()["stdout"] == "said\n"
        assert word.ran() == 1
        rest(server)
        agent.close()
    finally:
        server.remove()
