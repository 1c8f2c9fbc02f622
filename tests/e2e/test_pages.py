"""Every page, empty and with data, light and dark, wide and narrow: it says nothing it should not.

No line on the console, no error, no report of the content policy, nothing wider than the window,
nothing that axe finds to keep people out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Literal

import pytest
from playwright.sync_api import expect

from tests.e2e.window import Window
from tests.e2e.world import World, world_make
from tests.server import ADMIN, Server

pytestmark = pytest.mark.browser

WIDTHS = {"desk": (1440, 900), "phone": (390, 844)}
THEMES: tuple[Literal["light", "dark"], ...] = ("light", "dark")

# Name → path; the words in braces are of the world.
PAGES = {
    "overview": "/",
    "inbox": "/inbox",
    "inbox of commands": "/inbox?kind=execution",
    "queue": "/inbox?view=queue",
    "runs": "/runs",
    "policies": "/policies",
    "archived policies": "/policies?show=archive",
    "new policy": "/policies/new",
    "grants": "/grants",
    "environments": "/environments",
    "new environment": "/environments/new",
    "new docker environment": "/environments/new?provider=docker",
    "new local environment as JSON": "/environments/new?provider=local&as=json",
    "providers": "/providers",
    "sandboxes": "/sandboxes",
    "agents": "/agents",
    "new agent": "/agents/new",
    "audit": "/audit",
    "people": "/people",
    "account": "/account",
    "choosing a password": "/account/password/set/",
    "the API": "/api/v1/docs",
}
PAGES_OF_THINGS = {
    "request": "/inbox/{request}",
    "decided request": "/inbox/{decided}",
    "run": "/runs/{run}",
    "ended run": "/runs/{ended}",
    "policy": "/policies/{policy}",
    "version": "/policies/{policy}/1",
    "new version": "/policies/{policy}/new",
    "asking a policy": "/policies/{policy}/explain",
    "trying on history": "/policies/{policy}/try",
    "rules from approvals": "/policies/{policy}/suggest",
    "rule": "/policies/{policy}/rules/deny_rm",
    "simulation": "/simulations/{simulation}",
    "shadow": "/shadows/{shadow}",
    "difference": "/policies/{policy}/diff",
    "decision": "/decisions/{decision}",
    "environment": "/environments/{environment}",
    "environment form": "/environments/{environment}/edit",
    "environment as JSON": "/environments/{environment}/edit?as=json",
    "sandbox": "/sandboxes/{sandbox}",
    "agent": "/agents/{agent}",
}
PAGES_OF_NOBODY = {
    "sign in": "/sign-in",
    "sign-in link that is no more": "/sign-in/link/nothing",
}


@pytest.fixture(scope="module")
def empty(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server in which nothing has happened."""
    one = Server(tmp_path_factory.mktemp("empty"))
    yield one.start()
    one.remove()


@pytest.fixture(scope="module")
def full(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server in which much has happened."""
    one = Server(tmp_path_factory.mktemp("full"))
    yield one.start()
    one.remove()


@pytest.fixture(scope="module")
def world(full: Server) -> World:
    """What has happened there."""
    return world_make(full)


def _look(window: Window, path: str, *, status: int = 200) -> None:
    """Look at a page from all sides."""
    faults = []
    for theme in THEMES:
        window.page.emulate_media(color_scheme=theme)
        for name, (width, height) in WIDTHS.items():
            window.page.set_viewport_size({"width": width, "height": height})
            assert window.open(path) == status
            if window.page.locator("[data-live-status]").count():
                window.live()
            faults += _faults(window, f"{theme}, {name}")
    # A browser says on its console, too, that a page is an error.
    said = [line for line in window.complaints if "Failed to load resource" not in line]
    if status == 200:
        said = window.complaints[:]
    window.complaints.clear()
    assert not faults + said, "\n".join(faults + said)


def _faults(window: Window, where: str) -> list[str]:
    page = window.page
    faults = [f"{where}: {barrier}" for barrier in window.barriers()]
    if window.overflow > 0:
        faults.append(f"{where}: {window.overflow} px too wide because of {window.widest()}")
    if (headings := page.locator("h1:not(dialog *)").count()) != 1:
        faults.append(f"{where}: {headings} headings of the first level")
    if page.locator("main").count() != 1:
        faults.append(f"{where}: not one main landmark")
    return faults


@pytest.mark.parametrize("path", PAGES.values(), ids=PAGES.keys())
def test_a_page_with_nothing_to_show_is_quiet_fits_and_keeps_nobody_out(
    path: str, empty: Server, window: Callable[..., Window]
) -> None:
    _look(window(empty, ADMIN), path)


@pytest.mark.parametrize("path", PAGES.values(), ids=PAGES.keys())
def test_a_page_with_data_is_quiet_fits_and_keeps_nobody_out(
    path: str, full: Server, world: World, window: Callable[..., Window]
) -> None:
    _look(window(full, ADMIN), path)


@pytest.mark.parametrize("path", PAGES_OF_THINGS.values(), ids=PAGES_OF_THINGS.keys())
def test_a_page_of_one_thing_is_quiet_fits_and_keeps_nobody_out(
    path: str, full: Server, world: World, window: Callable[..., Window]
) -> None:
    _look(window(full, ADMIN), path.format(**vars(world)))


@pytest.mark.parametrize("path", PAGES_OF_NOBODY.values(), ids=PAGES_OF_NOBODY.keys())
def test_a_page_for_strangers_is_quiet_fits_and_keeps_nobody_out(
    path: str, empty: Server, window: Callable[..., Window]
) -> None:
    stranger = window(empty)
    status = stranger.open(path)
    stranger.complaints.clear()
    _look(stranger, path, status=status)


@pytest.mark.parametrize(("path", "status"), [("/nowhere", 404), ("/people", 403)])
def test_an_error_is_quiet_fits_and_keeps_nobody_out(
    path: str, status: int, empty: Server, window: Callable[..., Window]
) -> None:
    _look(window(empty, "viewer@example.org", "viewer"), path, status=status)


def test_every_page_of_the_navigation_is_one_that_is_looked_at(
    empty: Server, window: Callable[..., Window]
) -> None:
    admin = window(empty, ADMIN)
    admin.open("/")
    links = admin.page.locator("nav a").evaluate_all("(all) => all.map((a) => a.pathname)")
    assert set(links) <= set(PAGES.values())


def test_what_an_agent_writes_is_shown_and_never_run(
    full: Server, world: World, window: Callable[..., Window]
) -> None:
    reviewer = window(full, "approver@example.org")
    reviewer.open(f"/inbox/{world.request}")
    expect(reviewer.card(world.request)).to_contain_text("<script>alert(1)</script>")
