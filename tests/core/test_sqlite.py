"""Threads that write to one SQLite file stand in line."""

from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from django.db import OperationalError
from django.db.utils import ConnectionHandler

# They are not the test's database, but pytest-django guards every one.
pytestmark = pytest.mark.django_db(transaction=True)

WRITERS, ROUNDS = 30, 10


def opened(file: Path, timeout: float = 1) -> Any:
    """Return a connection of its own to a file."""
    pragmas = "PRAGMA journal_mode=WAL; PRAGMA synchronous=OFF"
    options = {"transaction_mode": "IMMEDIATE", "timeout": timeout, "init_command": pragmas}
    database = {"ENGINE": "omniweb.core.sqlite", "NAME": str(file), "OPTIONS": options}
    return ConnectionHandler({"default": database})["default"]


def begin(connection: Any) -> None:
    """Begin a transaction the way `atomic` does."""
    connection.set_autocommit(False, force_begin_transaction_with_broken_autocommit=True)


def test_no_writer_of_many_waits_in_vain(tmp_path: Path) -> None:
    file = tmp_path / "rows"
    with closing(opened(file)) as connection:
        connection.cursor().execute("CREATE TABLE row (writer)")
    every_writer = threading.Barrier(WRITERS)

    def write(writer: int) -> None:
        with closing(opened(file)) as connection:
            every_writer.wait()
            for _ in range(ROUNDS):
                begin(connection)
                connection.cursor().execute("INSERT INTO row VALUES (%s)", [writer])
                time.sleep(0.005)
                connection.commit()

    with ThreadPoolExecutor(WRITERS) as pool:
        list(pool.map(write, range(WRITERS)))
    with closing(opened(file)) as connection, connection.cursor() as cursor:
        cursor.execute("SELECT count(*) FROM row")
        assert cursor.fetchone() == (WRITERS * ROUNDS,)


@pytest.mark.parametrize("end", ["commit", "rollback", "close"])
def test_however_a_transaction_ends_the_next_one_begins(tmp_path: Path, end: str) -> None:
    first, second = (opened(tmp_path / "rows", timeout=0.1) for _ in range(2))
    begin(first)
    with pytest.raises(OperationalError, match="locked"):
        begin(second)
    getattr(first, end)()
    begin(second)
    second.rollback()
    begin(first)
    first.close()
    second.close()
