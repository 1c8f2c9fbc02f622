"""What tests through the front door share: a browser, its windows, and a real agent."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, sync_playwright

from tests.e2e.real_agent import RealAgent
from tests.e2e.window import WAIT_SECONDS, Window
from tests.machine import require
from tests.server import Server

ARGUMENTS = """
    --no-sandbox --disable-gpu --no-first-run --disable-background-networking
    --disable-component-update --disable-sync
""".split()


@pytest.fixture(scope="module")
def chromium(chromium_path: Path) -> Iterator[Browser]:
    """One browser for a file's tests.

    Not for the whole session: while it is open its event loop counts as running in this thread,
    and tests of other files use the database here.
    """
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium_path, args=ARGUMENTS)
        yield browser
        browser.close()


@pytest.fixture
def window(chromium: Browser) -> Iterator[Callable[..., Window]]:
    """Open windows, each of a browser of its own: `window(server, "approver@example.org")`.

    Without an address nobody is signed in. Further options are those of a Playwright context.
    A test fails when one of its windows has complained, unless it has looked at that itself.
    """
    windows: list[Window] = []

    def make(server: Server, email: str = "", role: str = "approver", **options: Any) -> Window:
        context = chromium.new_context(base_url=server.url, **options)
        context.set_default_timeout(WAIT_SECONDS * 1000)
        if email:
            cookies = _signed_in(server, email, role)
            context.add_cookies(
                [{"name": name, "value": value, "url": server.url} for name, value in cookies]
            )
        windows.append(Window(context))
        return windows[-1]

    yield make
    for one in windows:
        one.context.close()
    complaints = [line for one in windows for line in one.complaints]
    assert not complaints, "\n".join(complaints)


@cache
def _signed_in(server: Server, email: str, role: str) -> list[tuple[str, str]]:
    """Sign a person in once for all their windows; return the cookies."""
    with closing(server.browser(email, role)) as client:
        return [(cookie.name, cookie.value or "") for cookie in client.cookies.jar]


@pytest.fixture
def real_agent(tmp_path: Path) -> Iterator[Callable[..., RealAgent]]:
    """Start unmodified agents: `real_agent(server, token, "echo hello", network="allow")`."""
    require("omnicoreagent")
    agents: list[RealAgent] = []

    def make(server: Server, token: str, *commands: str, **options: str) -> RealAgent:
        agents.append(RealAgent(server.url, token, commands, options, tmp_path))
        return agents[-1]

    yield make
    for agent in agents:
        agent.stop()
