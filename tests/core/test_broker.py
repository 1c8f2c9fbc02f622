"""The broker of a single process."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest
from celery import Celery

from omniweb.core import broker


@pytest.fixture
def app() -> Iterator[Celery]:
    """A Celery application of its own whose queue nobody else reads."""
    app = Celery("broker-test", set_as_current=False)
    app.conf.update(
        broker_url="memory://localhost/",
        broker_transport="omniweb.core.broker:Transport",
        task_default_queue="broker-test",
    )
    yield app
    broker.Channel.queues.pop("broker-test", None)


def test_a_worker_that_waits_is_woken_by_a_message(
    app: Celery, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Without the bell it would sleep for longer than this test may take.
    monkeypatch.setattr(broker, "MAX_WAIT_SECONDS", 600)
    got = threading.Event()
    with (
        app.connection_for_read() as connection,
        app.amqp.TaskConsumer(connection.channel()) as consumer,
    ):
        consumer.register_callback(lambda body, message: got.set())

        def listen() -> None:
            while not got.is_set():
                try:
                    connection.drain_events(timeout=600)
                except TimeoutError:
                    continue

        listener = threading.Thread(target=listen, daemon=True)
        listener.start()
        app.send_task("anything")
        assert got.wait(10)
        listener.join(10)
