"""What a measurement yields: a number, the number beside it, and what it should be."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import median, quantiles


class Missing(Exception):
    """A figure cannot be taken on this machine; the text says what is not there."""


@dataclass(frozen=True, kw_only=True)
class Scale:
    """How much to measure: `quick` to try the code, `full` with the largest tables."""

    quick: bool = False
    full: bool = False

    def rounds(self, count: int, quick: int = 3) -> int:
        """Return how many rounds to take."""
        return quick if self.quick else count


@dataclass(frozen=True)
class Aim:
    """What a figure should be, in words and as a question about it and its reference."""

    text: str
    holds: Callable[[float, float], bool]


def at_most(limit: float, unit: str) -> Aim:
    """The figure itself is no more than this."""
    return Aim(f"≤ {limit:g} {unit}", lambda value, _: value <= limit)


def at_most_times(limit: float) -> Aim:
    """The figure is no more than so many times its reference."""
    return Aim(f"≤ {limit:g} times", lambda value, reference: value <= limit * reference)


def at_least_times(limit: float) -> Aim:
    """The figure is no less than so many times its reference."""
    return Aim(f"≥ {limit:g} times", lambda value, reference: value >= limit * reference)


def at_most_above(limit: float, unit: str) -> Aim:
    """The figure is no more than this above its reference."""
    return Aim(f"≤ +{limit:g} {unit}", lambda value, reference: value - reference <= limit)


@dataclass(frozen=True, kw_only=True)
class Figure:
    """One row of the table. The values of both sides have the same unit; `p95` is of ours."""

    what: str
    value: float
    p95: float | None = None
    unit: str
    reference: str
    reference_value: float
    aim: Aim | None = None
    # Whether the aim is about `p95` and not about `value`.
    is_about_p95: bool = False

    @property
    def ratio(self) -> float:
        """How many times its reference it is."""
        return self.value / self.reference_value if self.reference_value else float("inf")

    @property
    def verdict(self) -> str:
        """Whether the aim holds; nothing when there is none."""
        if self.aim is None:
            return ""
        value = self.p95 if self.is_about_p95 and self.p95 is not None else self.value
        return "holds" if self.aim.holds(value, self.reference_value) else "misses"


MILLISECONDS = 1e3
MICROSECONDS = 1e6


def timing(
    what: str,
    samples: Sequence[float],
    reference: str,
    reference_samples: Sequence[float],
    *,
    aim: Aim | None = None,
    is_about_p95: bool = False,
    scale: float = MILLISECONDS,
) -> Figure:
    """Return the row of two lists of seconds: medians, and the 95th percentile of ours."""
    return Figure(
        what=what,
        value=median(samples) * scale,
        p95=quantiles(samples, n=20)[-1] * scale if len(samples) >= 20 else None,
        unit="ms" if scale == MILLISECONDS else "µs",
        reference=reference,
        reference_value=median(reference_samples) * scale,
        aim=aim,
        is_about_p95=is_about_p95,
    )
