"""Checks of what commands write."""

from __future__ import annotations

import threading

from sandboxes.capabilities import Ability
from sandboxes.providers.base import Command
from sandboxes.providers.conformance.bench import (
    EVENT_SECONDS,
    LONG_SECONDS,
    PATIENCE_SECONDS,
    Bench,
)
from sandboxes.providers.conformance.check import Topic, inside, same
from sandboxes.providers.limits import KIB

TOPIC = Topic("Output")


@TOPIC.check("Text on stdout comes back as it was written")
def stdout_is_text(bench: Bench) -> None:
    same("stdout", bench.sh("echo one; printf two").stdout, b"one\ntwo")


@TOPIC.check("A command that writes nothing has empty output")
def silence_is_empty(bench: Bench) -> None:
    ran = bench.run("true")
    same("stdout and stderr", (ran.stdout, ran.stderr), (b"", b""))


@TOPIC.check("stdout and stderr stay apart", Ability.STDERR)
def streams_stay_apart(bench: Bench) -> None:
    ran = bench.sh("echo out; echo err >&2")
    same("stdout and stderr", (ran.stdout, ran.stderr), (b"out\n", b"err\n"))


@TOPIC.check("What is written to stderr is not lost")
def stderr_is_kept(bench: Bench) -> None:
    inside("output", bench.sh("echo err >&2").said, "err\n")


@TOPIC.check("Characters of several bytes come whole, wherever output is cut into pieces")
def unicode_comes_whole(bench: Bench) -> None:
    text = "ü名😀" * 12_000
    same("stdout", bench.run("printf", "%s", text).stdout, text.encode())


@TOPIC.check("Control characters, escapes and null bytes come as they are")
def control_characters_come(bench: Bench) -> None:
    line = r"printf 'a\033[31mb\tc\rd\007e\000f'"
    same("stdout", bench.sh(line).stdout, b"a\x1b[31mb\tc\rd\x07e\0f")


@TOPIC.check("All 256 byte values come as they are", Ability.BYTES)
def bytes_come_as_they_are(bench: Bench) -> None:
    data, name = bytes(range(256)) * 300, bench.name("bytes")
    bench.live.write_file(name, data)
    same("stdout", bench.run("cat", name).stdout, data)


@TOPIC.check("One line of 300 KB comes whole")
def long_line_comes_whole(bench: Bench) -> None:
    ran = bench.sh("head -c 300000 /dev/zero | tr '\\0' x", max_output_bytes=400_000)
    same("stdout", ran.stdout, b"x" * 300_000)


@TOPIC.check("Lines keep their order")
def order_is_kept(bench: Bench) -> None:
    ran = bench.sh("i=0; while [ $i -lt 2000 ]; do echo $i; i=$((i+1)); done")
    same("lines", ran.text.split("\n"), [str(number) for number in range(2000)])


@TOPIC.check("Both streams can be full at once", Ability.STDERR)
def both_streams_fill(bench: Bench) -> None:
    line = "(yes out | head -c 400000) & yes err | head -c 400000 >&2; wait"
    ran = bench.sh(line, max_output_bytes=500_000)
    same("bytes of stdout and stderr", (len(ran.stdout), len(ran.stderr)), (400_000, 400_000))


@TOPIC.check("Output past the cap is cut, and said to be")
def output_is_capped(bench: Bench) -> None:
    ran = bench.sh("yes | head -c 300000", max_output_bytes=1000)
    same("bytes kept", len(ran.stdout), 1000)
    same("stdout_truncated", ran.result.stdout_truncated, True)
    same("stderr_truncated", ran.result.stderr_truncated, False)
    same("exit code", ran.code, 0)


@TOPIC.check("What is cut is counted all the same", Ability.STREAM)
def dropped_output_is_counted(bench: Bench) -> None:
    ran = bench.sh("yes | head -c 3000000", max_output_bytes=1000)
    same("stdout_bytes", ran.result.stdout_bytes, 3_000_000)


@TOPIC.check("Output exactly at the cap is whole")
def output_at_the_cap_is_whole(bench: Bench) -> None:
    ran = bench.sh("printf 12345", max_output_bytes=5)
    same("stdout and cut", (ran.stdout, ran.result.stdout_truncated), (b"12345", False))


@TOPIC.check("Output without an end is cut, and its command stopped at the limit")
def endless_output_ends(bench: Bench) -> None:
    ran = bench.run("yes", time_limit_seconds=2, max_output_bytes=64 * KIB)
    same("bytes kept", len(ran.stdout), 64 * KIB)
    same("timed_out", ran.result.timed_out, True)


@TOPIC.check("Output comes while the command runs", Ability.STREAM)
def output_comes_live(bench: Bench) -> None:
    live, name, came = bench.live, bench.name("go"), threading.Event()

    def answer() -> None:
        if came.wait(EVENT_SECONDS):
            live.write_file(name, b"")

    answering = threading.Thread(target=answer, daemon=True)
    answering.start()
    # It ends only if its first line is seen before.
    line = f"echo one; until [ -e {name} ]; do sleep 0.1; done"
    result = live.execute(
        Command(argv=("sh", "-c", line), time_limit_seconds=EVENT_SECONDS / 2),
        on_output=lambda stream, data: came.set(),
        cancelled=lambda: False,
    )
    came.set()
    answering.join(EVENT_SECONDS)
    same("timed_out", result.timed_out, False)


@TOPIC.check("What was written before the time limit is kept")
def output_before_the_limit_is_kept(bench: Bench) -> None:
    ran = bench.to_its_limit(f"echo on; sleep {LONG_SECONDS}")
    same("stdout and timed_out", (ran.stdout, ran.result.timed_out), (b"on\n", True))


@TOPIC.check("A command whose output cannot be taken is stopped", Ability.STREAM, Ability.STOP)
def refused_output_stops(bench: Bench) -> None:
    mark = bench.name("refused")

    class Full(Exception):
        """There is no room for output."""

    def refuse(stream: str, data: bytes) -> None:
        raise Full

    line = f"echo on; sh -c 'sleep {LONG_SECONDS}; :' {mark}"
    stopped = False
    try:
        bench.live.execute(
            Command(argv=("sh", "-c", line), time_limit_seconds=PATIENCE_SECONDS),
            on_output=refuse,
            cancelled=lambda: False,
        )
    except Full:
        stopped = True
    same("what on_output raises reaches the caller", stopped, True)
    same("processes left", processes(bench, mark), 0)


def processes(bench: Bench, word: str) -> int:
    """Count the sandbox's processes that have a word among their arguments."""
    # Looked at before anything is started that has the word among its own arguments.
    line = f"""
        all=$(cat /proc/[0-9]*/cmdline 2>/dev/null | tr '\\0' '\\n')
        printf '%s\\n' "$all" | grep -c -x -e {word}"""
    return int(bench.sh(line).text or 0)
