"""What sandboxes cost: seconds times price. No clock and no database."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from itertools import pairwise

HOUR = Decimal(3600)
# Smaller amounts have as many digits as it takes to show two.
CENT = Decimal("0.01")

# Currency → amount; empty where no price is known, which is not the same as free.
Cost = Mapping[str, Decimal]
Span = tuple[datetime, datetime]


@dataclass(frozen=True, kw_only=True)
class Rate:
    """A price from a time on; `is_own` is one for just this environment, which goes first."""

    starts_at: datetime
    per_hour: Decimal
    paused_per_hour: Decimal
    currency: str
    is_own: bool = False


def cost_of(lived: Span, pauses: Sequence[Span], rates: Iterable[Rate]) -> Cost:
    """Return what a time costs, some of it paused, by the rates that held in each part of it.

    Time for which there was no rate yet is left out.
    """
    known = list(rates)
    sums: dict[str, Decimal] = {}
    for piece in _pieces(lived, known):
        rate = _rate_at(piece[0], known)
        if rate is None:
            continue
        paused = sum((_overlap(piece, pause) for pause in pauses), Decimal(0))
        awake = _seconds(piece) - paused
        amount = (awake * rate.per_hour + paused * rate.paused_per_hour) / HOUR
        sums[rate.currency] = sums.get(rate.currency, Decimal(0)) + amount
    return sums


def added(costs: Iterable[Cost]) -> Cost:
    """Return the sum of costs, each currency by itself."""
    sums: dict[str, Decimal] = {}
    for cost in costs:
        for currency, amount in cost.items():
            sums[currency] = sums.get(currency, Decimal(0)) + amount
    return sums


def written(cost: Cost) -> str:
    """Return a cost for people: `0.42 USD`, `0.0031 USD`; empty where nothing is known."""
    return ", ".join(f"{_rounded(amount)} {currency}" for currency, amount in sorted(cost.items()))


def _rounded(amount: Decimal) -> str:
    if amount == 0 or amount >= CENT:
        return f"{amount:,.2f}"
    return f"{amount:.{1 - amount.adjusted()}f}"


def _pieces(lived: Span, rates: Sequence[Rate]) -> Iterator[Span]:
    start, end = lived
    cuts = {rate.starts_at for rate in rates if start < rate.starts_at < end}
    return pairwise(sorted({start, max(start, end), *cuts}))


def _rate_at(moment: datetime, rates: Sequence[Rate]) -> Rate | None:
    begun = [rate for rate in rates if rate.starts_at <= moment]
    return max(begun, key=lambda rate: (rate.is_own, rate.starts_at), default=None)


def _overlap(one: Span, other: Span) -> Decimal:
    return _seconds((max(one[0], other[0]), min(one[1], other[1])))


def _seconds(span: Span) -> Decimal:
    return Decimal(str(max(0.0, (span[1] - span[0]).total_seconds())))
