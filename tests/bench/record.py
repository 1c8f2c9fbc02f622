"""The page of a run, however long its record.

The whole page over HTTP, opened in the middle of a record of 10,000 and of 100,000 steps: commands
that were decided, started and ended. Beside it, the same of one with 100 steps; each lives on a server of its own.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, closing

from tests.bench.clock import Measure, alternate, timed
from tests.bench.figure import Figure, Scale, at_most_times, timing
from tests.bench.serving import served
from tests.server import Server

ROUNDS = 40
SIZES = (100, 10_000, 100_000)
QUICK_SIZES = (100, 1_000)


def measure(scale: Scale) -> Iterator[Figure]:
    """Measure one page on each server in turn."""
    sizes = QUICK_SIZES if scale.quick else SIZES
    with ExitStack() as stack:
        pages = [_page(stack, steps) for steps in sizes]
        small, *large = alternate(scale.rounds(ROUNDS, 20), *pages)
    for steps, samples in zip(sizes[1:], large, strict=True):
        what, reference = f"a run of {steps:,} steps", f"a run of {sizes[0]} steps"
        yield timing(what, samples, reference, small, aim=at_most_times(1.3))


def _page(stack: ExitStack, steps: int) -> Measure:
    server = stack.enter_context(served())
    run = filled(server, f"print(fill.run_of({steps}))")
    # In the middle, where each page shows a full window of 100 steps.
    return page_of(stack, server, f"/runs/{run}?at={steps // 2}")


def filled(server: Server, code: str) -> str:
    """Make rows in a server's database; return what the code printed."""
    whole = f"from tests.bench import fill; {code}"
    return server.manage("shell", "--no-imports", "-c", whole).strip()


def page_of(stack: ExitStack, server: Server, path: str) -> Measure:
    """Measure getting a page as a person who is signed in."""
    person = stack.enter_context(closing(server.browser("approver@example.org")))
    return timed(lambda: person.get(path).raise_for_status())
