"""Measurements, each beside a reference taken in the same run: `make bench`, never `make test`.

`FIGURES` is the literal table: a figure's name and its module, whose `measure(scale)` yields rows.
"""

from __future__ import annotations

FIGURES = {
    "decision": "tests.bench.decision",
    "authorize": "tests.bench.authorize",
    "inbox": "tests.bench.inbox",
    "approve": "tests.bench.approve",
    "docker": "tests.bench.docker",
    "gateway": "tests.bench.gateway",
    "hosted": "tests.bench.hosted",
    "start": "tests.bench.start",
    "ledger": "tests.bench.ledger",
    "record": "tests.bench.record",
    "lists": "tests.bench.lists",
    "replay": "tests.bench.replay",
    "crowd": "tests.bench.crowd",
}
