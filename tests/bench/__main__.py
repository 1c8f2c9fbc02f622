"""`python -m tests.bench [NAME…] [--quick | --full]`: measure, print, and keep a whole run."""

from __future__ import annotations

import sys
from argparse import ArgumentParser
from importlib import import_module

import tests.environment  # noqa: F401 - settings are read once, before anything that has models
from tests.bench import FIGURES, machine, report
from tests.bench.figure import Figure, Missing, Scale


def taken(name: str, scale: Scale) -> report.Section:
    """Take the figures of one module."""
    module = import_module(FIGURES[name])
    figures: list[Figure] = []
    missing = ""
    try:
        figures.extend(module.measure(scale))
    except Missing as why:
        missing = str(why)
    except Exception as error:  # noqa: BLE001 - one that fails must not cost what the others took
        missing = f"{type(error).__name__}: {error}".strip()
    title, _, about = str(module.__doc__).partition("\n")
    return report.Section(title.rstrip("."), " ".join(about.split()), figures, missing)


def main() -> None:
    """Measure what was named, or everything; a whole run in earnest is written down."""
    parser = ArgumentParser(prog="python -m tests.bench", description=main.__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=" ".join(FIGURES))
    parser.add_argument("--quick", action="store_true", help="a few rounds, to try the code")
    parser.add_argument("--full", action="store_true", help="with a million executions")
    asked = parser.parse_args()
    if unknown := set(asked.names) - FIGURES.keys():
        parser.error(f"there is no figure {', '.join(sorted(unknown))}")
    scale = Scale(quick=asked.quick, full=asked.full)
    before = machine.load()
    if before > machine.BUSY:
        sys.stderr.write(f"The machine is busy: its load average is {before:.1f}.\n")
    sections = []
    for name in asked.names or FIGURES:
        sections.append(taken(name, scale))
        sys.stdout.write(report.text(sections[-1]) + "\n\n")
        sys.stdout.flush()
    if not asked.names and not scale.quick:
        report.write(sections, machine.described(), before)


main()
