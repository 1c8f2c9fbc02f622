"""Taking times: in turns, so that what disturbs the machine disturbs both sides."""

from __future__ import annotations

import time
from collections.abc import Callable

# Does a thing once and returns how many seconds that counts for.
Measure = Callable[[], float]
# Of each measure the seconds of its rounds.
Timings = list[list[float]]


def timed(act: Callable[[], object], count: int = 1) -> Measure:
    """Measure an act by the clock; `count` is how many things it does."""

    def measure() -> float:
        start = time.perf_counter()
        act()
        return (time.perf_counter() - start) / count

    return measure


def alternate(rounds: int, *measures: Measure) -> Timings:
    """Take every measure so many times, in turns and in both directions, after one for warmth.

    Return the seconds of each, in the order of the arguments.
    """
    taken: Timings = [[] for _ in measures]
    order = list(enumerate(measures))
    for number in range(rounds + 1):
        for at, measure in order if number % 2 else reversed(order):
            seconds = measure()
            if number:
                taken[at].append(seconds)
    return taken
