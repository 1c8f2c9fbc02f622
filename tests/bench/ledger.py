"""Appending to the record.

Batches of 100 steps are checked, redacted, hashed into the chain and signed, each batch in a
transaction, in steps a second. Beside it, plain INSERTs of the same finished rows, 100 to a
transaction, through the database's driver alone and through Django.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from statistics import median

from django.db import connection, transaction
from django.test.utils import setup_databases, teardown_databases

import tests.environment  # noqa: F401 - also runs by itself, once for each database
from omniweb.accounts.models import Team
from tests.bench import machine
from tests.bench.clock import alternate, timed
from tests.bench.figure import Figure, Scale, at_least_times
from tests.bench.fill import commands
from tests.server import ROOT
from trajectories.models import Step
from trajectories.services import steps_append, trajectory_open

ROUNDS, BATCH = 60, 100
STEPS = list(commands(BATCH))


def measure(scale: Scale) -> Iterator[Figure]:
    """Measure both databases, each in a process of its own."""
    rounds = scale.rounds(ROUNDS, 10)
    yield from _figures("SQLite", rounds, {"OMNIWEB_TEST_DATABASE": "sqlite"})
    with machine.postgres() as url:
        settings = {"OMNIWEB_TEST_DATABASE": "postgres", "OMNIWEB_TEST_POSTGRES_URL": url}
        yield from _figures(machine.postgres_version(url), rounds, settings)


def _figures(database: str, rounds: int, settings: dict[str, str]) -> Iterator[Figure]:
    done = subprocess.run(
        [sys.executable, "-m", "tests.bench.ledger", str(rounds)],
        cwd=ROOT,
        env={**os.environ, **settings},
        stdout=subprocess.PIPE,
        check=True,
    )
    rates = json.loads(done.stdout)
    aim = at_least_times(0.5)
    for reference, name, wanted in (
        ("django", "INSERT by Django", aim),
        ("driver", "INSERT by the driver", None),
    ):
        yield Figure(
            what=f"append, {database}",
            value=rates["append"],
            unit="steps/s",
            reference=name,
            reference_value=rates[reference],
            aim=wanted,
        )


class Batches:
    """The three ways to write a batch of the same rows."""

    def __init__(self) -> None:
        team = Team.objects.create(name="Bench")
        self.chain = trajectory_open(team=team, title="A chain")
        self.plain = trajectory_open(team=team, title="Rows without a chain")
        self.seq = 0
        with transaction.atomic():
            self.finished = steps_append(trajectory=self.chain, steps=STEPS)

    def append(self) -> None:
        """Append to the chain."""
        with transaction.atomic():
            steps_append(trajectory=self.chain, steps=STEPS)

    def rows(self) -> list[Step]:
        """Return finished rows that are not in the database yet."""
        fields = [field.attname for field in Step._meta.concrete_fields]
        rows = []
        for step in self.finished:
            values = {name: getattr(step, name) for name in fields}
            self.seq += 1
            rows.append(Step(**{**values, "trajectory_id": self.plain.pk, "seq": self.seq}))
        return rows

    def by_django(self) -> float:
        """Insert as Django does."""
        rows = self.rows()
        return timed(lambda: _in_transaction(lambda: Step.objects.bulk_create(rows)))()

    def by_driver(self) -> float:
        """Insert with one statement of the driver."""
        fields = Step._meta.concrete_fields
        values = [
            [field.get_db_prep_save(getattr(row, field.attname), connection) for field in fields]
            for row in self.rows()
        ]
        columns = ", ".join(connection.ops.quote_name(str(field.column)) for field in fields)
        places = ", ".join(["%s"] * len(fields))
        insert = f"INSERT INTO {Step._meta.db_table} ({columns}) VALUES ({places})"

        def execute() -> None:
            with connection.cursor() as cursor:
                cursor.executemany(insert, values)

        return timed(lambda: _in_transaction(execute))()


def _in_transaction(act: Callable[[], object]) -> None:
    with transaction.atomic():
        act()


def main() -> None:
    """Measure the database of the environment; print steps a second."""
    made = setup_databases(verbosity=0, interactive=False)
    try:
        batches = Batches()
        taken = alternate(
            int(sys.argv[1]), timed(batches.append), batches.by_driver, batches.by_django
        )
    finally:
        teardown_databases(made, verbosity=0)
    rates = [BATCH / median(seconds) for seconds in taken]
    sys.stdout.write(json.dumps(dict(zip(("append", "driver", "django"), rates, strict=True))))


if __name__ == "__main__":
    main()
