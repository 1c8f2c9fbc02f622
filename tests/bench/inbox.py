"""From asked to seen.

In Chromium the inbox is open and live. The page itself lets an agent ask for something that needs a
yes, and its clock runs from there until the row of the request is in its document: asking over
HTTP, deciding, recording, the hint through the WebSocket, fetching the queue, and drawing it in.
Beside it, the same page fetching nothing but the queue.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager

from playwright.sync_api import Page, sync_playwright

from tests import machine
from tests.bench.clock import Measure, alternate
from tests.bench.figure import Figure, Scale, at_most, timing
from tests.bench.machine import need
from tests.bench.serving import REVIEWED, Agent, checked, served
from tests.e2e.conftest import ARGUMENTS
from tests.server import Server

ROUNDS = 60
# Bursts of hints are spread over 150 ms; a request that comes alone is drawn at once.
QUIET_MS = 400

ASK_AND_SEE = """
async ([run, token, command]) => {
  const seen = new Promise((resolve) => {
    const look = () => document.querySelector("#queue [id^=row-req_]") && resolve(performance.now());
    new MutationObserver(look).observe(document.body, {childList: true, subtree: true});
  });
  const start = performance.now();
  const answer = await fetch(`/api/v1/runs/${run}/executions`, {
    method: "POST",
    credentials: "omit",
    headers: {"Authorization": `Bearer ${token}`, "Content-Type": "application/json"},
    body: JSON.stringify({command}),
  });
  return [(await seen) - start, (await answer.json()).id];
}
"""
FETCH_QUEUE = """
async () => {
  const start = performance.now();
  await (await fetch("/inbox?part=queue", {headers: {"HX-Request": "true"}})).text();
  return performance.now() - start;
}
"""


def measure(scale: Scale) -> Iterator[Figure]:
    """Measure in one window, one request at a time."""
    need("browser")
    with served() as server, Agent(server, "bench") as agent, window(server) as page:
        seen, fetched = alternate(
            scale.rounds(ROUNDS, 20),
            _seeing(page, agent),
            lambda: float(page.evaluate(FETCH_QUEUE)) / 1000,
        )
    reference = "fetching the queue in the page"
    yield timing("asked → in the inbox's document", seen, reference, fetched, aim=at_most(60, "ms"))


@contextmanager
def window(server: Server) -> Iterator[Page]:
    """Give a page that shows the inbox of an approver, and is live."""
    with closing(server.browser("approver@example.org")) as person:
        cookies = [(cookie.name, cookie.value or "") for cookie in person.cookies.jar]
    with sync_playwright() as playwright:
        path = machine.chromium()
        browser = playwright.chromium.launch(executable_path=path, args=ARGUMENTS)
        context = browser.new_context(base_url=server.url)
        context.add_cookies(
            [{"name": name, "value": value, "url": server.url} for name, value in cookies]
        )
        page = context.new_page()
        page.goto("/inbox")
        page.wait_for_selector("[data-live-status=live]")
        yield page
        browser.close()


def _seeing(page: Page, agent: Agent) -> Measure:
    def measure() -> float:
        page.wait_for_timeout(QUIET_MS)
        milliseconds, execution = page.evaluate(ASK_AND_SEE, [agent.run, agent.token, REVIEWED])
        checked(agent.client.post(f"/api/v1/executions/{execution}/cancel"))
        page.wait_for_selector("#queue [id^=row-req_]", state="detached")
        return float(milliseconds) / 1000

    return measure
