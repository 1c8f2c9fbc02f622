"""What every provider that runs commands does alike, whatever it runs them in."""

from __future__ import annotations

import hashlib
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from omniweb.core.errors import InvalidInput, NotFound, TooLarge
from sandboxes.providers.base import Command, LiveSandbox
from tests.providers import unique
from tests.providers.running import run, sh


def processes(live: LiveSandbox, word: str) -> int:
    """Count the sandbox's processes that have a word among their arguments."""
    # Looked at before anything is started that has the word among its own arguments.
    line = f"""
        all=$(cat /proc/[0-9]*/cmdline 2>/dev/null | tr '\\0' '\\n')
        printf '%s' "$all" | grep -c -x {word}"""
    return int(sh(live, line).text or 0)


def test_the_exit_code_is_the_commands_own(live: LiveSandbox) -> None:
    assert [sh(live, f"exit {code}").code for code in (0, 1, 3, 255)] == [0, 1, 3, 255]


def test_stdout_and_stderr_stay_apart(live: LiveSandbox) -> None:
    ran = sh(live, "echo out; echo err >&2")
    assert (ran.stdout, ran.stderr) == (b"out\n", b"err\n")
    assert (ran.result.stdout_bytes, ran.result.stderr_bytes) == (4, 4)


def test_arguments_arrive_as_they_are(live: LiveSandbox) -> None:
    arguments = ["", " ", "a b", "$HOME", "`id`", "*", "'\"", "\\", "ü", "line\nbreak", "-n", "--"]
    ran = run(live, "python3", "-c", "import sys; print(sys.argv[1:])", *arguments)
    assert ran.text == str(arguments)


def test_a_missing_program_is_127_and_says_its_name(live: LiveSandbox) -> None:
    ran = run(live, "no-such-program")
    assert ran.code == 127
    assert b"no-such-program" in ran.stderr


def test_a_file_that_is_no_program_is_126(live: LiveSandbox) -> None:
    assert run(live, "/etc/hosts").code == 126


def test_a_missing_directory_is_127_and_says_so(live: LiveSandbox) -> None:
    ran = run(live, "pwd", cwd="not/there")
    assert ran.code == 127
    assert b"not/there does not exist" in ran.stderr


def test_death_by_a_signal_is_128_and_its_number(live: LiveSandbox) -> None:
    assert sh(live, "kill -TERM $$").code == 143
    assert sh(live, "kill -KILL $$").code == 137
    assert not sh(live, "kill -KILL $$").result.timed_out


def test_a_directory_below_the_working_directory_can_be_the_cwd(live: LiveSandbox) -> None:
    name = unique("dir")
    live.write_file(f"{name}/file", b"")
    assert run(live, "pwd", cwd=name).text.endswith(f"/{name}")


def test_a_calls_variables_reach_it(live: LiveSandbox) -> None:
    assert sh(live, 'echo "$GREETING"', env={"GREETING": "a b\nc"}).text == "a b\nc"


def test_no_variable_of_the_server_is_passed(
    live: LiveSandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LLM_API_KEY", "sk-secret")
    assert sh(live, 'echo "${LLM_API_KEY:-unset}"').text == "unset"


def test_stdin_reaches_the_command_and_ends(live: LiveSandbox) -> None:
    data = bytes(range(256)) * 20_000
    line = "import hashlib, sys; print(hashlib.sha256(sys.stdin.buffer.read()).hexdigest())"
    ran = run(live, "python3", "-c", line, stdin=data)
    assert ran.text == hashlib.sha256(data).hexdigest()


def test_stdin_comes_back_in_full_through_a_command_that_copies_it(live: LiveSandbox) -> None:
    data = b"0123456789abcdef" * 200_000
    ran = run(live, "cat", stdin=data, max_output_bytes=len(data))
    assert ran.stdout == data


def test_without_stdin_a_reader_finds_the_end_at_once(live: LiveSandbox) -> None:
    assert run(live, "cat", time_limit_seconds=20).code == 0


def test_a_command_that_does_not_read_its_stdin_ends_all_the_same(live: LiveSandbox) -> None:
    assert run(live, "true", stdin=b"x" * 2_000_000, time_limit_seconds=20).code == 0


def test_output_comes_while_the_command_runs(live: LiveSandbox) -> None:
    came: list[float] = []
    live.execute(
        Command(argv=("sh", "-c", "echo one; sleep 1; echo two")),
        on_output=lambda stream, data: came.append(time.monotonic()),
        cancelled=lambda: False,
    )
    assert came[-1] - came[0] > 0.7


def test_output_past_the_cap_is_counted_and_dropped(live: LiveSandbox) -> None:
    ran = sh(live, "yes | head -c 3000000; echo end >&2", max_output_bytes=1000)
    assert (len(ran.stdout), ran.result.stdout_bytes) == (1000, 3_000_000)
    assert (ran.result.stdout_truncated, ran.result.stderr_truncated) == (True, False)
    assert ran.code == 0


def test_output_exactly_at_the_cap_is_whole(live: LiveSandbox) -> None:
    ran = sh(live, "printf 12345", max_output_bytes=5)
    assert (ran.stdout, ran.result.stdout_truncated) == (b"12345", False)


def test_the_time_limit_kills_the_command_and_everything_it_started(live: LiveSandbox) -> None:
    mark = unique("tree")
    nap = f"python3 -c 'import time; time.sleep(60)' {mark}"
    started = time.monotonic()
    line = f"{nap} & setsid {nap} & (setsid {nap} &) ; nohup {nap} >/dev/null & echo on; wait"
    ran = sh(live, line, time_limit_seconds=2)
    assert (ran.code, ran.result.timed_out, ran.result.session_lost) == (137, True, False)
    assert ran.text == "on"
    assert time.monotonic() - started < 15
    assert processes(live, mark) == 0


def test_the_time_limit_kills_no_other_command(live: LiveSandbox) -> None:
    with ThreadPoolExecutor(2) as pool:
        other = pool.submit(sh, live, "sleep 4; echo survived")
        time.sleep(0.5)
        assert sh(live, "sleep 60", time_limit_seconds=1).result.timed_out
        assert other.result().text == "survived"


def test_a_cancelled_command_is_killed_with_all_it_started(live: LiveSandbox) -> None:
    mark, cancel = unique("gone"), threading.Event()
    threading.Timer(1.0, cancel.set).start()
    line = f"python3 -c 'import time; time.sleep(60)' {mark}"
    ran = sh(live, f"setsid {line} & {line}", cancel=cancel)
    assert (ran.code, ran.result.cancelled, ran.result.timed_out) == (137, True, False)
    assert processes(live, mark) == 0


def test_a_command_whose_output_cannot_be_taken_is_killed(live: LiveSandbox) -> None:
    mark = unique("full")

    def refuse(stream: str, data: bytes) -> None:
        raise RuntimeError("no room for output")

    line = f"echo on; python3 -c 'import time; time.sleep(60)' {mark}"
    with pytest.raises(RuntimeError, match="no room"):
        live.execute(Command(argv=("sh", "-c", line)), on_output=refuse, cancelled=lambda: False)
    assert processes(live, mark) == 0


def test_what_a_command_leaves_running_does_not_hold_it_up(live: LiveSandbox) -> None:
    started = time.monotonic()
    assert sh(live, "sleep 30 & echo done").text == "done"
    assert time.monotonic() - started < 10


def test_commands_run_side_by_side(live: LiveSandbox) -> None:
    started = time.monotonic()
    with ThreadPoolExecutor(6) as pool:
        ran = list(pool.map(lambda n: sh(live, f"sleep 2; echo {n}"), range(6)))
    assert [one.text for one in ran] == list("012345")
    assert time.monotonic() - started < 10


def test_a_file_comes_back_byte_for_byte(live: LiveSandbox) -> None:
    data, name = bytes(range(256)) * 4000, unique("binary")
    live.write_file(f"{name}/deep/er/file.bin", data)
    assert live.read_file(f"{name}/deep/er/file.bin") == data
    assert sh(live, f"wc -c < {name}/deep/er/file.bin").text.strip() == str(len(data))


def test_an_empty_file_is_a_file(live: LiveSandbox) -> None:
    name = unique("empty")
    live.write_file(name, b"")
    assert live.read_file(name) == b""


def test_a_file_of_100_mb_fits_through(live: LiveSandbox) -> None:
    data, name = b"0123456789abcdef" * (100 * 65536), unique("large")
    live.write_file(name, data)
    assert live.read_file(name) == data
    sh(live, f"rm {name}")


def test_writing_again_replaces_all_of_a_file_and_keeps_its_mode(live: LiveSandbox) -> None:
    name = unique("script")
    live.write_file(name, b"#!/bin/sh\necho one and more\n")
    assert sh(live, f"chmod 755 {name}").code == 0
    live.write_file(name, b"#!/bin/sh\necho two\n")
    assert sh(live, f"./{name}").text == "two"


@pytest.mark.parametrize(
    "name", ["a b", "ü-名", "-rf", "new\nline", "end\n", "quote'\"", "$(id)", "*", "\\n"]
)
def test_odd_names_are_names(live: LiveSandbox, name: str) -> None:
    folder = unique("odd")
    live.write_file(f"{folder}/{name}", name.encode())
    assert live.read_file(f"{folder}/{name}") == name.encode()
    assert [entry.path.rpartition(f"{folder}/")[2] for entry in live.list_files(folder)] == [name]


def test_a_listing_tells_files_directories_and_links_apart(live: LiveSandbox) -> None:
    folder = unique("list")
    live.write_file(f"{folder}/file", b"12345")
    live.write_file(f"{folder}/.hidden/x", b"")
    assert sh(live, f"ln -s file {folder}/link; mkfifo {folder}/pipe").code == 0
    listed = [(entry.path.rpartition("/")[2], entry.kind) for entry in live.list_files(folder)]
    assert listed == [
        (".hidden", "directory"),
        ("file", "file"),
        ("link", "link"),
        ("pipe", "other"),
    ]
    assert [entry.size for entry in live.list_files(folder) if entry.kind == "file"] == [5]


def test_many_files_are_listed(live: LiveSandbox) -> None:
    folder = unique("many")
    assert sh(live, f"mkdir {folder}; cd {folder}; for n in $(seq 300); do : > $n; done").code == 0
    assert len(live.list_files(folder)) == 300


@pytest.mark.parametrize("path", ["../x", "/etc/hosts", "a/../../x", "/", ".."])
def test_a_path_outside_the_working_directory_is_refused(live: LiveSandbox, path: str) -> None:
    message = f"Path {path} is outside the sandbox working directory"
    for use in (live.read_file, live.list_files, lambda path: live.write_file(path, b"")):
        with pytest.raises(InvalidInput) as refused:
            use(path)
        assert refused.value.detail == message


def test_a_link_out_of_the_working_directory_is_refused(live: LiveSandbox) -> None:
    folder = unique("links")
    line = f"mkdir {folder}; cd {folder}; ln -s /etc/hosts file; ln -s /tmp dir; ln -s /tmp/new dangling"
    assert sh(live, line).code == 0
    for path in ("file", "dir/x", "dangling"):
        with pytest.raises(InvalidInput, match="outside"):
            live.write_file(f"{folder}/{path}", b"")
    with pytest.raises(InvalidInput, match="outside"):
        live.read_file(f"{folder}/file")
    with pytest.raises(InvalidInput, match="outside"):
        live.list_files(f"{folder}/dir")
    assert sh(live, "ls /tmp/new").code != 0


def test_a_link_inside_the_working_directory_is_followed(live: LiveSandbox) -> None:
    folder = unique("inside")
    live.write_file(f"{folder}/real/file", b"found")
    assert sh(live, f"cd {folder}; ln -s real dir; ln -s real/file file").code == 0
    assert live.read_file(f"{folder}/file") == live.read_file(f"{folder}/dir/file") == b"found"
    live.write_file(f"{folder}/file", b"changed")
    assert live.read_file(f"{folder}/real/file") == b"changed"


def test_what_is_no_file_is_said_plainly(live: LiveSandbox) -> None:
    folder = unique("plain")
    live.write_file(f"{folder}/file", b"")
    assert sh(live, f"mkfifo {folder}/pipe").code == 0
    with pytest.raises(NotFound, match="does not exist"):
        live.read_file(f"{folder}/missing")
    with pytest.raises(NotFound, match="does not exist"):
        live.list_files(f"{folder}/missing")
    with pytest.raises(InvalidInput, match="is a directory"):
        live.read_file(folder)
    with pytest.raises(InvalidInput, match="is a directory"):
        live.write_file(folder, b"")
    with pytest.raises(InvalidInput, match="is not a file"):
        live.read_file(f"{folder}/pipe")
    with pytest.raises(InvalidInput):
        live.list_files(f"{folder}/file")


def test_a_file_over_the_limit_is_not_read(live: LiveSandbox) -> None:
    name = unique("over")
    live.write_file(name, b"123456")
    with pytest.raises(TooLarge):
        live.read_file(name, limit=5)
    assert live.read_file(name, limit=6) == b"123456"


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"argv": ()}, "needs a program"),
        ({"argv": ("",)}, "needs a program"),
        ({"argv": ("sh\n",)}, "control characters"),
        ({"argv": ("sh", "a\x1b[2J")}, "control characters"),
        ({"argv": ("sh", "x" * 200_000)}, "over 128 KiB"),
        ({"argv": ("sh",), "env": {"A=B": "1"}}, "variable name"),
        ({"argv": ("sh",), "env": {"A": "\0"}}, "null byte"),
        ({"argv": ("sh",), "time_limit_seconds": 0}, "time limit"),
        ({"argv": ("sh",), "cwd": "a\0b"}, "null byte"),
    ],
)
def test_a_command_no_system_could_start_is_refused_at_once(
    fields: dict[str, object], message: str
) -> None:
    with pytest.raises(InvalidInput, match=message):
        Command(**fields)  # type: ignore[arg-type] # wrong on purpose
