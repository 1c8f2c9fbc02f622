"""The inbox and the run page in a real browser: live, by keyboard, by two people, on a phone."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

import pytest
from playwright.sync_api import expect

from tests.e2e.record import Record, until
from tests.e2e.window import Window
from tests.e2e.world import POLICY, WAITS_FOR_GO, Agent
from tests.server import Server

pytestmark = pytest.mark.browser

PASSWORD = "correct horse battery staple"


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server for the tests here, in whose inbox nothing else waits."""
    server = Server(tmp_path_factory.mktemp("place"))
    Record(server.start()).turn_on("local")
    server.policy("harbour", POLICY)
    yield server
    server.remove()


@pytest.fixture
def record(place: Server) -> Record:
    """What that server says happened."""
    return Record(place)


@pytest.fixture
def agent(place: Server, record: Record, request: pytest.FixtureRequest) -> Iterator[Agent]:
    """An agent of the test's own; nothing of it waits afterwards."""
    name = re.sub(r"\W", "-", request.node.name)[5:40]
    agent = Agent(place, name, "harbour")
    yield agent
    for run in record.rows("/runs", agent=name):
        agent.call("POST", f"/runs/{run['id']}/end", json={})


def asks(agent: Agent, record: Record, *names: str) -> list[str]:
    """Let an agent ask for files to be made; return the requests."""
    run = agent.run("Make files")
    asked = [agent.ask(run, f"touch {name}") for name in names]
    return [record.get(f"/executions/{one}")["request"] for one in asked]


def test_a_link_signs_in_once(place: Server, window: Callable[..., Window]) -> None:
    link = place.sign_in_link("linked@example.org", "viewer")
    stranger = window(place)
    stranger.page.goto("/inbox")
    expect(stranger.page).to_have_url(re.compile("/sign-in"))

    stranger.page.goto(link)
    stranger.page.get_by_role("button", name="Sign in").click()

    expect(stranger.page.get_by_role("navigation", name="Main")).to_be_visible()
    second = window(place)
    second.page.goto(link)
    second.page.get_by_role("button", name="Sign in").click()
    expect(second.page.get_by_role("main")).to_contain_text("used already or has expired")
    second.complaints.clear()  # the console tells the page's status


def test_a_password_that_was_chosen_signs_in(place: Server, window: Callable[..., Window]) -> None:
    email = "typist@example.org"
    person = window(place, email, "viewer")
    person.open("/account/password/set/")
    for field in person.page.locator("input[type=password]").all():
        field.fill(PASSWORD)
    person.page.get_by_role("button", name="Save").click()
    expect(person.page).not_to_have_url(re.compile("/set/"))
    person.open("/account")
    person.page.get_by_role("main").get_by_role("button", name="Sign out").click()
    expect(person.page).to_have_url(re.compile("/sign-in"))

    person.page.locator("input[type=email], input[name=login]").fill(email)
    person.page.locator("input[type=password]").fill(PASSWORD)
    person.page.get_by_role("button", name="Sign in").click()

    person.open("/account")
    expect(person.page.get_by_text(email).first).to_be_visible()


def test_what_is_asked_appears_by_itself_with_badge_and_title(
    place: Server, agent: Agent, record: Record, window: Callable[..., Window]
) -> None:
    elsewhere = window(place, "approver@example.org")
    elsewhere.open("/policies")
    elsewhere.live()
    inbox = window(place, "approver@example.org")
    inbox.open("/inbox")
    inbox.live()
    inbox.mark()

    (request,) = asks(agent, record, "one")

    expect(inbox.card(request)).to_be_visible()
    expect(inbox.page.locator("[data-item]")).to_have_count(1)
    for one in (inbox, elsewhere):
        expect(one.page.locator("#inbox-count")).to_have_attribute("data-count", "1")
        expect(one.page).to_have_title(re.compile(r"^\(1\) "))
    record.decide(record.request(request))
    expect(inbox.page.locator("[data-item]")).to_have_count(0)
    expect(elsewhere.page.locator("#inbox-count")).to_have_attribute("data-count", "0")
    assert inbox.is_marked


def test_the_keyboard_reads_on_approves_and_rejects(
    place: Server, agent: Agent, record: Record, window: Callable[..., Window]
) -> None:
    first, second, third = asks(agent, record, "one", "two", "three")
    inbox = window(place, "approver@example.org")
    inbox.open("/inbox")
    inbox.live()
    expect(inbox.card(first)).to_be_visible()

    inbox.key("j")
    expect(inbox.card(second)).to_be_visible()
    inbox.key("k")
    expect(inbox.card(first)).to_be_visible()
    inbox.key("?")
    expect(inbox.page.locator("dialog#keys")).to_contain_text("Approve")
    expect(inbox.page.locator("dialog#keys")).to_contain_text("Next in the list")
    inbox.page.keyboard.press("Escape")
    inbox.key("a")
    inbox.toast("Approved")
    expect(inbox.card(second)).to_be_visible()
    inbox.key("r")
    expect(inbox.page.locator("details.reject textarea")).to_be_focused()
    inbox.page.keyboard.type("Not this one.")
    inbox.page.keyboard.press("Control+Enter")
    inbox.toast("Rejected")
    expect(inbox.card(third)).to_be_visible()

    assert record.request(first)["decided_by"] == "approver@example.org"
    assert record.request(second)["state"] == "rejected"
    assert record.request(second)["reason"] == "Not this one."
    assert record.request(third)["state"] == "open"


def test_whoever_decides_second_is_told_who_was_first(
    place: Server, agent: Agent, record: Record, window: Callable[..., Window]
) -> None:
    (request,) = asks(agent, record, "one")
    first = window(place, "approver@example.org")
    second = window(place, "second-approver@example.org")
    # Nobody tells this page that its card has been decided, as in the instant before the news.
    second.context.route_web_socket("**/ws/live", lambda socket: None)
    for one in (first, second):
        one.open(f"/inbox/{request}")
        expect(one.card(request)).to_be_visible()

    first.key("a")
    first.toast("Approved")
    second.key("r")
    second.page.keyboard.type("Too late.")
    second.page.keyboard.press("Control+Enter")

    second.toast("approver@example.org was first and approved this request")
    expect(second.card(request)).to_contain_text("Approved by approver@example.org")
    decided = record.request(request)
    assert [vote["voter"] for vote in decided["votes"]] == ["approver@example.org"]
    assert decided["decided_by"] == "approver@example.org"
    second.complaints.clear()  # the console tells that the vote was refused


def test_a_card_that_another_decides_says_so_by_itself(
    place: Server, agent: Agent, record: Record, window: Callable[..., Window]
) -> None:
    (request,) = asks(agent, record, "one")
    first = window(place, "approver@example.org")
    second = window(place, "second-approver@example.org")
    for one in (first, second):
        one.open(f"/inbox/{request}")
        one.live()

    first.key("a")

    expect(second.card(request)).to_contain_text("Approved by approver@example.org")
    expect(second.page.get_by_role("button", name="Approve")).to_have_count(0)


def test_on_a_phone_the_card_comes_first_with_buttons_for_a_thumb(
    place: Server, agent: Agent, record: Record, window: Callable[..., Window]
) -> None:
    first, second = asks(agent, record, "one", "two")
    phone = window(
        place,
        "approver@example.org",
        viewport={"width": 390, "height": 844},
        has_touch=True,
        is_mobile=True,
    )
    phone.open("/inbox")
    phone.live()

    expect(phone.card(first)).to_be_visible()
    expect(phone.page.locator("#queue")).to_be_hidden()
    approve = phone.page.get_by_role("button", name="Approve")
    expect(approve).to_be_in_viewport(ratio=1)
    box = approve.bounding_box()
    assert box
    assert box["height"] >= 40
    assert box["width"] >= 150
    phone.page.get_by_role("link", name="Queue").click()
    expect(phone.page.locator("[data-item]").first).to_be_visible()
    phone.page.locator("[data-item]").nth(1).tap()
    expect(phone.card(second)).to_be_visible()
    phone.page.wait_for_timeout(600)
    approve.tap()
    phone.toast("Approved")
    assert record.request(second)["state"] in ("approved", "spent")
    assert phone.overflow == 0


def test_a_run_is_told_while_it_goes_on(
    place: Server, agent: Agent, record: Record, window: Callable[..., Window]
) -> None:
    run = agent.run("Count")
    reader = window(place, "approver@example.org")
    reader.open(f"/runs/{run}")
    reader.live()
    reader.mark()

    asked = agent.ask(run, f"echo begun; {WAITS_FOR_GO}; echo done")
    expect(reader.page.locator("#run-now")).to_contain_text("begun")
    agent.call("PUT", f"/runs/{run}/files", params={"path": "go"}, content=b"")
    agent.settled(asked)

    expect(reader.page.locator("main")).to_contain_text("done")
    expect(reader.page.locator("#run-now")).not_to_contain_text("begun")
    assert reader.is_marked


def test_a_page_whose_server_is_away_says_so_and_catches_up(
    server_new: Callable[..., Server], window: Callable[..., Window]
) -> None:
    server = server_new()
    record = Record(server.start())
    record.turn_on("local")
    server.policy("harbour", POLICY)
    agent = Agent(server, "patient", "harbour")
    inbox = window(server, "approver@example.org")
    inbox.open("/inbox")
    inbox.live()
    inbox.mark()
    banner = inbox.page.locator("#not-live")
    expect(banner).to_be_hidden()

    server.stop()
    expect(banner).to_contain_text("the server cannot be reached")
    server.start()
    (request,) = asks(agent, record, "one")

    expect(inbox.card(request)).to_be_visible()
    expect(banner).to_be_hidden()
    inbox.live()
    assert inbox.is_marked
    inbox.key("a")
    inbox.toast("Approved")
    until(lambda: record.request(request)["state"] == "spent", "a command that ran")
    inbox.complaints.clear()  # the console tells that nobody answered
