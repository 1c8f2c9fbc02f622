"""A browser's window that remembers whatever its console and its content policy complain of."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

from playwright.sync_api import BrowserContext, ConsoleMessage, Locator, expect

# Generous, because the machine may be busy; nothing waits longer than it has to.
WAIT_SECONDS = 30
# A card takes no press within 400 ms after it changed under the reader's hand.
SETTLED_MS = 600

AXE = Path(__file__).parent / "vendor" / "axe.min.js"
SERIOUS = ("serious", "critical")

REPORT_VIOLATIONS = """
    document.addEventListener("securitypolicyviolation", (event) =>
      console.error(`CSP: ${event.violatedDirective} ${event.blockedURI} ${event.sample}`));
"""

expect.set_options(timeout=WAIT_SECONDS * 1000)


class Window:
    """One page in a browser of its own. `complaints` are console lines, errors and CSP reports."""

    def __init__(self, context: BrowserContext) -> None:
        self.context = context
        self.complaints: list[str] = []
        context.add_init_script(REPORT_VIOLATIONS)
        self.page = context.new_page()
        self.page.on("console", self._console)
        self.page.on("pageerror", lambda error: self.complaints.append(f"error: {error}"))

    def _console(self, message: ConsoleMessage) -> None:
        self.complaints.append(f"{message.type}: {message.text} ({self.page.url})")

    def open(self, path: str) -> int:
        """Go to a page and wait until all of it is there; return its HTTP status."""
        answer = self.page.goto(path, wait_until="load")
        assert answer is not None
        return answer.status

    def live(self) -> None:
        """Wait until the page says that changes appear by themselves."""
        expect(self.page.locator("[data-live-status]")).to_have_attribute(
            "data-live-status", "live"
        )

    def key(self, *keys: str) -> None:
        """Press keys, slowly enough that no card refuses them as too hasty."""
        for key in keys:
            self.page.wait_for_timeout(SETTLED_MS)
            self.page.keyboard.press(key)

    def card(self, ref: str = "") -> Locator:
        """The card that is open, perhaps of a certain request."""
        return self.page.locator(f'[data-card="{ref}"]' if ref else "[data-card]")

    def toast(self, text: str) -> None:
        """Wait for a short message in the corner."""
        expect(self.page.locator("#toasts .toast", has_text=text).first).to_be_visible()

    def mark(self) -> None:
        """Leave a mark that is gone once the page has been loaded anew."""
        self.page.evaluate("window.omniwebMark = true")

    @property
    def is_marked(self) -> bool:
        """Whether the page is still the one that was marked."""
        return bool(self.page.evaluate("window.omniwebMark === true"))

    @property
    def overflow(self) -> int:
        """By how many pixels the page is wider than the window."""
        return int(
            self.page.evaluate(
                "document.documentElement.scrollWidth - document.documentElement.clientWidth"
            )
        )

    def widest(self) -> str:
        """The elements that stick out of the page most, for whoever has to mend it."""
        return str(
            self.page.evaluate(
                """[...document.querySelectorAll("main *, nav *")]
                  .map((one) => [one.getBoundingClientRect().right, one])
                  .filter(([right]) => right > document.documentElement.clientWidth)
                  .sort(([one], [other]) => other - one)
                  .slice(0, 3).map(([, one]) => one.outerHTML.slice(0, 120)).join(" | ")"""
            )
        )

    def barriers(self) -> list[str]:
        """What axe finds that keeps people out, with where it is."""
        found = self.page.evaluate(
            f"{_axe()}; axe.run({{resultTypes: ['violations']}})"
            ".then((result) => result.violations)"
        )
        return [_barrier(entry) for entry in found if entry["impact"] in SERIOUS]


@cache
def _axe() -> str:
    return AXE.read_text()


def _barrier(entry: dict[str, Any]) -> str:
    nodes = [f"{node['target'][0]}: {node['failureSummary']}" for node in entry["nodes"][:3]]
    return f"{entry['id']} ({entry['impact']}) {json.dumps(nodes)}"
