"""Lists, however long.

The inbox with 10,000 open requests and the list of runs with 100,000 executions (a million with
`--full`), two in each run, as whole pages over HTTP; then the overview, and the API's first page of
executions. Beside each, the same on a server with 10 requests and 100 executions. The large inbox
shows a page of 100 requests, so it is put beside one of 100, too.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack

from tests.bench.clock import Measure, alternate, timed
from tests.bench.figure import Aim, Figure, Scale, at_most_times, timing
from tests.bench.record import filled, page_of
from tests.bench.serving import checked, served
from tests.server import Server

ROUNDS = 40
AIM = at_most_times(1.5)


def measure(scale: Scale) -> Iterator[Figure]:
    """Measure each list on a small and on a large server, in turn."""
    requests = 1_000 if scale.quick else 10_000
    executions = 10_000 if scale.quick else 1_000_000 if scale.full else 100_000
    inbox, runs = f"{requests:,} open requests", f"{executions:,} executions"
    with ExitStack() as stack:
        small, page = _server(stack, 10, 100), _server(stack, 100, 100)
        large = _server(stack, requests, executions)
        rows: list[tuple[str, str, Server, str, Aim | None]] = [
            (f"inbox, {inbox}", "/inbox", small, "10 requests", AIM),
            (f"inbox, {inbox}", "/inbox", page, "100 requests", None),
            (f"list of runs, {runs}", "/runs", small, "100 executions", AIM),
            (f"overview, {runs}", "/", small, "100 executions", None),
            (f"API, {runs}", "/api/v1/executions", small, "100 executions", None),
        ]
        for what, path, other, reference, aim in rows:
            ours, theirs = alternate(
                scale.rounds(ROUNDS, 20), *(_getting(stack, one, path) for one in (large, other))
            )
            yield timing(what, ours, f"with {reference}", theirs, aim=aim)


def _server(stack: ExitStack, requests: int, executions: int) -> Server:
    server = stack.enter_context(served())
    filled(server, f"fill.requests({requests}); fill.executions({executions})")
    return server


def _getting(stack: ExitStack, server: Server, path: str) -> Measure:
    if not path.startswith("/api/"):
        return page_of(stack, server, path)
    client = stack.enter_context(server.client(server.admin_token))
    return timed(lambda: checked(client.get(path)))
