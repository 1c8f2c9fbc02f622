"""Carrying bytes: frames cut anywhere, caps, and the reasons to stop."""

from __future__ import annotations

import os
import struct

from hypothesis import given
from hypothesis import strategies as st

from sandboxes.providers.engine import Frames
from sandboxes.providers.pump import Inlet, Output, Pump, Stop, Watch, read_pipe

PARTS = st.lists(st.tuples(st.sampled_from([1, 2]), st.binary(max_size=50)), max_size=20)


@given(parts=PARTS, size=st.integers(1, 40))
def test_frames_are_put_together_wherever_they_were_cut(
    parts: list[tuple[int, bytes]], size: int
) -> None:
    sent = b"".join(struct.pack(">BxxxL", kind, len(data)) + data for kind, data in parts)
    kept = {"stdout": b"", "stderr": b""}

    def keep(stream: str, data: bytes) -> None:
        kept[stream] += data

    frames = Frames(Output(10_000, keep))
    for start in range(0, len(sent), size):
        frames.feed(sent[start : start + size])
    expected = [b"".join(data for kind, data in parts if kind == wanted) for wanted in (1, 2)]
    assert [kept["stdout"], kept["stderr"]] == expected


@given(chunks=st.lists(st.binary(max_size=30), max_size=20), limit=st.integers(0, 200))
def test_a_cap_keeps_the_beginning_and_counts_the_rest(chunks: list[bytes], limit: int) -> None:
    kept: list[bytes] = []
    output = Output(limit, lambda stream, data: kept.append(data))
    for chunk in chunks:
        output.feed("stdout", chunk)
    whole, result = b"".join(chunks), output.result(0)
    assert b"".join(kept) == whole[:limit]
    assert (result.stdout_bytes, result.stdout_truncated) == (len(whole), len(whole) > limit)


def test_a_pump_stops_at_the_time_limit_and_when_it_is_cancelled() -> None:
    reader, writer = os.pipe()
    try:
        for watch, reason in (
            (Watch(0.2, lambda: False), Stop.TIME_LIMIT),
            (Watch(None, lambda: True), Stop.CANCELLED),
        ):
            pump = Pump([Inlet(reader, read_pipe(reader), lambda data: None)], None, lambda: False)
            assert pump.run(watch) is reason
    finally:
        os.close(reader)
        os.close(writer)


def test_a_pump_takes_all_that_was_written_before_the_end() -> None:
    reader, writer = os.pipe()
    kept: list[bytes] = []
    os.write(writer, b"x" * 1000)
    os.close(writer)
    try:
        pump = Pump([Inlet(reader, read_pipe(reader), kept.append)], None, lambda: True)
        assert pump.run(Watch(5, lambda: False)) is None
    finally:
        os.close(reader)
    assert b"".join(kept) == b"x" * 1000
