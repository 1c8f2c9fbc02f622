"""Checks of time limits, cancelling, and commands that run at the same time."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

from sandboxes.capabilities import Ability
from sandboxes.providers.conformance.bench import EVENT_SECONDS, LONG_SECONDS, Bench
from sandboxes.providers.conformance.check import Topic, arrives, same
from sandboxes.providers.conformance.output import processes

LIMITS = Topic("Time limits and cancelling")
TOGETHER = Topic("Several at once")

# Shows a mark among the processes for as long as it sleeps.
NAP = f"sh -c 'sleep {LONG_SECONDS}; :'"


@LIMITS.check("A command that ends within its limit is left alone")
def within_the_limit(bench: Bench) -> None:
    ran = bench.sh("sleep 1; echo done", time_limit_seconds=40)
    same("stdout and timed_out", (ran.text, ran.result.timed_out), ("done", False))


@LIMITS.check("At its limit a command is killed, with exit code 137")
def limit_kills(bench: Bench) -> None:
    ran = bench.run("sleep", str(LONG_SECONDS), time_limit_seconds=2)
    same("exit code and timed_out", (ran.code, ran.result.timed_out), (137, True))
    same("cancelled", ran.result.cancelled, False)


@LIMITS.check("One that ignores TERM is killed, too")
def limit_kills_the_stubborn(bench: Bench) -> None:
    line = f"trap '' TERM INT HUP; sleep {LONG_SECONDS} & wait; sleep {LONG_SECONDS}"
    ran = bench.sh(line, time_limit_seconds=2)
    same("exit code and timed_out", (ran.code, ran.result.timed_out), (137, True))


@LIMITS.check("Everything it has started is killed with it", Ability.STOP)
def limit_kills_children(bench: Bench) -> None:
    mark = bench.name("tree")
    line = f"{NAP} {mark} & ({NAP} {mark} &) ; nohup {NAP} {mark} >/dev/null 2>&1 & echo on; wait"
    ran = bench.to_its_limit(line)
    same("stdout and timed_out", (ran.text, ran.result.timed_out), ("on", True))
    same("processes left", processes(bench, mark), 0)


@LIMITS.check("Even what has left its session is killed with it", Ability.STOP, tools=("setsid",))
def limit_kills_other_sessions(bench: Bench) -> None:
    mark = bench.name("session")
    ran = bench.to_its_limit(f"setsid {NAP} {mark} & (setsid {NAP} {mark} &) ; echo on; wait")
    same("stdout and timed_out", (ran.text, ran.result.timed_out), ("on", True))
    same("processes left", processes(bench, mark), 0)


@LIMITS.check("The sandbox and its files outlive a killed command", Ability.STOP)
def sandbox_outlives_a_limit(bench: Bench) -> None:
    name = bench.name("outlives")
    ran = bench.to_its_limit(f"echo kept > {name}; echo on; sleep {LONG_SECONDS}")
    same("session_lost", ran.result.session_lost, False)
    same("file", bench.live.read_file(name), b"kept\n")


@LIMITS.check("So they do when it was writing without end", Ability.STOP)
def sandbox_outlives_endless_output(bench: Bench) -> None:
    ran = bench.run("yes", time_limit_seconds=2, max_output_bytes=1000)
    same(
        "timed_out and session_lost", (ran.result.timed_out, ran.result.session_lost), (True, False)
    )


@LIMITS.check("No other command is killed with it", Ability.STOP)
def limit_kills_no_other(bench: Bench) -> None:
    start, stop = bench.name("start"), bench.name("stop")
    line = f"echo > {start}; until [ -e {stop} ]; do sleep 0.1; done; echo survived"
    with ThreadPoolExecutor(1) as pool:
        other = pool.submit(bench.sh, line, time_limit_seconds=EVENT_SECONDS)
        arrives(bench.live, start)
        ran = bench.sh(f"sleep {LONG_SECONDS}", time_limit_seconds=1)
        bench.live.write_file(stop, b"")
        same("timed_out", ran.result.timed_out, True)
        same("the other's stdout", other.result(EVENT_SECONDS).text, "survived")


@LIMITS.check("A cancelled command is killed, and says that it was")
def cancelling_kills(bench: Bench) -> None:
    cancel = threading.Event()
    timer = threading.Timer(1.0, cancel.set)
    timer.start()
    ran = bench.run("sleep", str(LONG_SECONDS), cancelled=cancel.is_set)
    timer.cancel()
    same("exit code and cancelled", (ran.code, ran.result.cancelled), (137, True))
    same("timed_out", ran.result.timed_out, False)


@LIMITS.check("So is all that it has started", Ability.STOP)
def cancelling_kills_children(bench: Bench) -> None:
    mark, name, cancel = bench.name("cancelled"), bench.name("begun"), threading.Event()
    with ThreadPoolExecutor(1) as pool:
        line = f"{NAP} {mark} & echo > {name}; {NAP} {mark}"
        running = pool.submit(
            bench.sh, line, cancelled=cancel.is_set, time_limit_seconds=EVENT_SECONDS
        )
        arrives(bench.live, name)
        cancel.set()
        same("cancelled", running.result(EVENT_SECONDS).result.cancelled, True)
    same("processes left", processes(bench, mark), 0)


@TOGETHER.check("Commands run side by side")
def commands_run_side_by_side(bench: Bench) -> None:
    folder, in_vain = bench.name("together"), threading.Event()
    bench.live.write_file(f"{folder}/begun", b"")
    # None of them ends before all four have begun.
    line = "echo > in-$1; until [ $(ls | grep -c in-) = 4 ]; do sleep 0.1; done; echo $1"

    def one(number: int) -> str:
        limits = {"time_limit_seconds": EVENT_SECONDS, "cancelled": in_vain.is_set}
        ran = bench.sh(line, str(number), cwd=folder, **limits)
        if ran.result.timed_out:
            # Where they run one after the other, the rest would wait as long.
            in_vain.set()
        return ran.text

    with ThreadPoolExecutor(4) as pool:
        same("stdout of each", list(pool.map(one, range(4))), list("0123"))


@TOGETHER.check("Their outputs do not mix")
def outputs_do_not_mix(bench: Bench) -> None:
    line = "i=0; while [ $i -lt 300 ]; do echo $1; i=$((i+1)); done"

    def one(number: int) -> str:
        return bench.sh(line, str(number)).text

    with ThreadPoolExecutor(6) as pool:
        texts = list(pool.map(one, range(6)))
    same("stdout of each", texts, ["\n".join([str(number)] * 300) for number in range(6)])


@TOGETHER.check("Each has its own variables and directory")
def surroundings_do_not_mix(bench: Bench) -> None:
    folders = [bench.name("own") for _ in range(4)]
    for folder in folders:
        bench.live.write_file(f"{folder}/name", folder.encode())

    def one(folder: str) -> str:
        return bench.sh('cat name; echo " $WHO"', cwd=folder, env={"WHO": folder}).text

    with ThreadPoolExecutor(4) as pool:
        same(
            "stdout of each",
            list(pool.map(one, folders)),
            [f"{folder} {folder}" for folder in folders],
        )


@TOGETHER.check("Files are written and read side by side")
def files_side_by_side(bench: Bench) -> None:
    live, folder = bench.live, bench.name("parallel")

    def one(number: int) -> bytes:
        live.write_file(f"{folder}/{number}", bytes([number]) * 50_000)
        return live.read_file(f"{folder}/{number}")

    with ThreadPoolExecutor(6) as pool:
        read = list(pool.map(one, range(12)))
    same("files", read, [bytes([number]) * 50_000 for number in range(12)])


@TOGETHER.check("Files move while a command runs")
def files_move_meanwhile(bench: Bench) -> None:
    live, asked, told = bench.live, bench.name("asked"), bench.name("told")
    line = f"until [ -e {asked} ]; do sleep 0.1; done; cat {asked} > {told}; echo moved"
    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(bench.sh, line, time_limit_seconds=EVENT_SECONDS)
        live.write_file(asked, b"data")
        same("stdout", running.result(EVENT_SECONDS).text, "moved")
    same("file", live.read_file(told), b"data")
