"""A first start with nothing installed: no Docker, no broker, no database server."""

from __future__ import annotations

import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from playwright.sync_api import expect

from tests.e2e.record import WAIT_SECONDS, Record
from tests.e2e.window import Window
from tests.server import ROOT, Server

pytestmark = pytest.mark.browser

NOWHERE = "unix:///nowhere/docker.sock"


@pytest.fixture
def bare(tmp_path: Path) -> Iterator[Server]:
    """A server in an empty folder that is given nothing but that folder."""
    server = Server(tmp_path / "bare", settings={"DOCKER_HOST": NOWHERE})
    server.variables.pop("DATABASE_URL", None)
    yield server.start()
    server.remove()


def demo(server: Server, log: Path) -> subprocess.Popen[bytes]:
    """Start the demo agent against a server."""
    with log.open("wb") as told:
        return subprocess.Popen(
            [sys.executable, "manage.py", "demo"],
            cwd=ROOT,
            env=server.variables,
            stdin=subprocess.DEVNULL,
            stdout=told,
            stderr=told,
        )


def test_it_greets_signs_in_and_shows_itself_at_work(
    bare: Server, window: Callable[..., Window], tmp_path: Path
) -> None:
    printed = re.findall(r"https?://\S+/sign-in/link/\S+", bare.log.read_text())
    assert len(printed) == 1
    newcomer = window(bare)
    newcomer.page.goto(printed[0])
    newcomer.page.get_by_role("button", name="Sign in").click()
    expect(newcomer.page.get_by_role("heading", level=1)).to_have_text("Nothing has run here yet")
    expect(newcomer.page.get_by_role("button", name="Run the demo agent")).to_be_visible()
    newcomer.open("/inbox")
    newcomer.live()
    log = tmp_path / "demo.log"

    with demo(bare, log) as playing:
        # It asks for two things, at any time and in any order.
        deadline = time.monotonic() + WAIT_SECONDS
        decided = 0
        while playing.poll() is None and time.monotonic() < deadline:
            if newcomer.card().locator("button[value=approve]:visible").count():
                newcomer.key("a")
                newcomer.toast("Approved")
                decided += 1
                expect(newcomer.page.locator("#toasts .toast")).to_have_count(0)
            newcomer.page.wait_for_timeout(200)
        assert playing.wait(WAIT_SECONDS) == 0, log.read_text()

    assert decided == 2
    record = Record(bare)
    assert [run["state"] for run in record.rows("/runs")] == ["succeeded", "succeeded"]
    states = {row["state"] for row in record.rows("/executions")}
    assert states == {"finished", "denied"}
    newcomer.open("/")
    expect(newcomer.page.get_by_role("heading", level=1)).to_have_text("Overview")
    expect(newcomer.page.get_by_role("main")).to_contain_text("2 decided in")
    newcomer.page.close()
    assert bare.stop() == 0


def test_the_button_of_the_empty_overview_starts_the_demo_too(
    bare: Server, window: Callable[..., Window]
) -> None:
    newcomer = window(bare, "admin@localhost")
    newcomer.open("/")
    newcomer.page.get_by_role("button", name="Run the demo agent").click()

    expect(newcomer.card()).to_be_visible(timeout=WAIT_SECONDS * 1000)
    newcomer.live()
    newcomer.key("r")
    newcomer.page.keyboard.type("Not in the demo.")
    newcomer.page.keyboard.press("Control+Enter")
    newcomer.toast("Rejected")
