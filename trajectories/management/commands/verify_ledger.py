"""`manage.py verify_ledger`: is every record what it was when it was written?"""

from __future__ import annotations

import json
from argparse import ArgumentParser
from collections.abc import Iterable
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from omniweb.core.ids import parse_ref
from trajectories.ledger import verify
from trajectories.models import Trajectory
from trajectories.signing import public_key


class Command(BaseCommand):
    """Verifies chains; exit code 1 when one is broken."""

    help = "Verify the hash chains of all trajectories, or of those given."

    def add_arguments(self, parser: ArgumentParser) -> None:
        """Declare the arguments."""
        parser.add_argument("refs", nargs="*", metavar="REF", help="trj_… or run_…")
        parser.add_argument("--json", action="store_true", help="print one JSON object")

    def handle(self, *args: Any, **options: Any) -> None:
        """Verify, print each failure and the totals."""
        count = steps = 0
        broken: list[dict[str, Any]] = []
        for trajectory in _chosen(options["refs"]):
            found = verify(trajectory)
            count, steps = count + 1, steps + found.steps
            if not found.ok:
                entry = {"seq": found.first_bad_seq, "why": found.why, "title": trajectory.title}
                broken.append({"trajectory": trajectory.ref, **entry})
        if options["json"]:
            totals = {"trajectories": count, "steps": steps, "public_key": public_key()}
            self.stdout.write(json.dumps({"ok": not broken, **totals, "broken": broken}))
        else:
            for entry in broken:
                self.stdout.write(f"{entry['trajectory']} step {entry['seq']}: {entry['why']}")
            self.stdout.write(
                f"{count} trajectories with {steps} steps verified, {len(broken)} broken"
                f" (key {public_key()[:16]}…)"
            )
        if broken:
            raise SystemExit(1)


def _chosen(refs: list[str]) -> Iterable[Trajectory]:
    if not refs:
        return Trajectory.objects.order_by("id").iterator(chunk_size=100)
    return [_named(reference) for reference in refs]


def _named(reference: str) -> Trajectory:
    key, run = parse_ref("trj", reference), parse_ref("run", reference)
    # `run` is the one-to-one relation by which the sandboxes room points here.
    rows = Trajectory.objects.filter(pk=key) if key else Trajectory.objects.filter(run=run)
    trajectory = rows.first() if key or run else None
    if trajectory is None:
        raise CommandError(f"there is no trajectory {reference}; give trj_… or run_… references")
    return trajectory
