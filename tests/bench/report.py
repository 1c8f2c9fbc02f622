"""The table of the figures, on the console and as docs/benchmarks.md."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from omniweb.core.clock import now
from tests.bench import machine
from tests.bench.figure import Figure
from tests.server import ROOT

PAGE = ROOT / "docs" / "benchmarks.md"

INTRODUCTION = """\
# Benchmarks

Taken with `make bench` on {day}. Every figure is taken in one run together with the reference
beside it, in turns, and is the median of its rounds; so a busy machine moves both. The servers
measured are `manage.py serve` as it is installed, with its worker inside, on this machine, together
with whatever asks them.

{machine}

The load average was {before:.1f} when the run began. {busy}
"""
BUSY = """\
Other work was going on all the time, so every time here is longer than on a quiet machine, the
references' too; only ratios say much.
"""
# What people wrote below this line stays when the figures are taken anew.
NOTES = "## Notes\n"

HEAD = ("What", "Median", "95 %", "Beside it", "Median", "Ratio", "Aim", "")


@dataclass(frozen=True)
class Section:
    """The rows of one module, or what it needs and did not find."""

    name: str
    about: str
    figures: Sequence[Figure]
    missing: str = ""


def _number(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def _row(figure: Figure) -> tuple[str, ...]:
    return (
        figure.what,
        f"{_number(figure.value)} {figure.unit}",
        "" if figure.p95 is None else f"{_number(figure.p95)} {figure.unit}",
        figure.reference,
        f"{_number(figure.reference_value)} {figure.unit}",
        f"{figure.ratio:.2f}",
        figure.aim.text if figure.aim else "",
        figure.verdict,
    )


def table(figures: Sequence[Figure]) -> str:
    """Return rows as a table that reads well both as text and as Markdown."""
    rows = [HEAD, *map(_row, figures)]
    widths = [max(len(row[at]) for row in rows) for at in range(len(HEAD))]
    lines = ["| " + " | ".join(map(str.ljust, row, widths)) + " |" for row in rows]
    lines.insert(1, "|" + "|".join("-" * (width + 2) for width in widths) + "|")
    return "\n".join(lines)


def text(section: Section) -> str:
    """Return a section as text."""
    parts = [f"## {section.name}", section.about]
    if section.figures:
        parts.append(table(section.figures))
    if section.missing:
        parts.append(f"Not measured: {section.missing}")
    return "\n\n".join(parts)


def write(sections: Sequence[Section], facts: Mapping[str, str], before: float) -> None:
    """Keep the figures with the machine's size, and the notes as they were."""
    size = "\n".join(["| | |", "|---|---|", *(f"| {name} | {it} |" for name, it in facts.items())])
    busy = BUSY if before > machine.BUSY else ""
    head = INTRODUCTION.format(day=now().date(), machine=size, before=before, busy=busy)
    page = PAGE.read_text() if PAGE.exists() else ""
    notes = NOTES + page.partition(NOTES)[2]
    parts = [head.strip(), *map(text, sections), notes.strip()]
    PAGE.write_text("\n\n".join(parts) + "\n")
