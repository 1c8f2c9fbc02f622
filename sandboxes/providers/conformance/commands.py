"""Checks of how commands are started and how they end."""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from omniweb.core.errors import InvalidInput
from sandboxes.capabilities import Ability
from sandboxes.providers.base import Command
from sandboxes.providers.conformance.bench import VALUE, VARIABLE, Bench, Skip
from sandboxes.providers.conformance.check import Differs, Topic, inside, raises, same
from sandboxes.providers.limits import KIB

ENDS = Topic("How commands end")
ARGUMENTS = Topic("Arguments")
AROUND = Topic("Variables and directories")
STDIN = Topic("Standard input")

ODD_ARGUMENTS = (
    "",
    " ",
    "a b",
    "$HOME",
    "`id`",
    "$(id)",
    "*",
    "'\"",
    "\\",
    "ü名",
    "line\nbreak",
    "-n",
    "--",
)
# Of a server that runs here; a command must not see it.
PLANTED = "OMNIWEB_CONFORMANCE_PLANTED"


@ENDS.check("The exit code is the command's own")
def exit_code_is_its_own(bench: Bench) -> None:
    codes = (0, 1, 3, 42, 125, 255)
    same("exit codes", tuple(bench.sh(f"exit {code}").code for code in codes), codes)


@ENDS.check("Output and an exit code go together")
def failing_keeps_output(bench: Bench) -> None:
    ran = bench.sh("echo before; exit 7")
    same("exit code and stdout", (ran.code, ran.stdout), (7, b"before\n"))


@ENDS.check("Death by a signal is 128 and its number, and no time-out")
def signal_is_128_more(bench: Bench) -> None:
    ended = [bench.sh(f"kill -{name} $$") for name in ("TERM", "KILL")]
    same("exit codes", [ran.code for ran in ended], [143, 137])
    same("timed_out", [ran.result.timed_out for ran in ended], [False, False])


@ENDS.check("A missing program is 127 and is named")
def missing_program_is_127(bench: Bench) -> None:
    ran = bench.run("no-such-program")
    same("exit code", ran.code, 127)
    inside("output", ran.said, "no-such-program")


@ENDS.check("A file that is no program is 126")
def no_program_is_126(bench: Bench) -> None:
    name = bench.name("plain")
    bench.live.write_file(name, b"just text")
    same("exit code", bench.run(f"./{name}").code, 126)


@ENDS.check("What a command leaves running does not hold it up")
def leftovers_do_not_hold(bench: Bench) -> None:
    ran = bench.sh("sleep 50 & echo done", time_limit_seconds=30)
    same("stdout and timed_out", (ran.text, ran.result.timed_out), ("done", False))


@ENDS.check("How long it took is told")
def duration_is_told(bench: Bench) -> None:
    if (took := bench.run("sleep", "1").result.duration_ms) < 900:
        raise Differs(f"duration_ms of a second's sleep: got {took}")


@ENDS.check("A second command follows the first in the same sandbox")
def commands_share_files(bench: Bench) -> None:
    name = bench.name("kept")
    bench.sh(f"echo left > {name}")
    same("stdout", bench.run("cat", name).text, "left")


@ARGUMENTS.check("Arguments arrive as they are, spaces, quotes and line breaks included")
def arguments_arrive(bench: Bench) -> None:
    expected = "".join(f"<{argument}>\n" for argument in ODD_ARGUMENTS)
    ran = bench.run("printf", "<%s>\\n", *ODD_ARGUMENTS)
    same("arguments", ran.stdout.decode("utf-8", "replace"), expected)


@ARGUMENTS.check("No shell reads them in between")
def no_shell_between(bench: Bench) -> None:
    text = "$((1+1)); echo two & `three` > four | five"
    same("stdout", bench.run("printf", "%s", text).text, text)


@ARGUMENTS.check("A thousand arguments arrive")
def many_arguments_arrive(bench: Bench) -> None:
    same("count", bench.sh('echo "$#"', *map(str, range(1000))).text, "1000")


@ARGUMENTS.check("An argument of 100 KB arrives")
def long_argument_arrives(bench: Bench) -> None:
    ran = bench.sh('printf %s "$1" | wc -c', "x" * 100 * KIB)
    same("size", ran.text.strip(), str(100 * KIB))


@ARGUMENTS.check("A command that no system could start is refused before it is sent")
def impossible_is_refused(bench: Bench) -> None:
    impossible: dict[str, Mapping[str, Any]] = {
        "no program": {"argv": ()},
        "an empty program": {"argv": ("",)},
        "a control character": {"argv": ("sh", "a\x1b[2J")},
        "an argument of 200 KB": {"argv": ("sh", "x" * 200_000)},
        "a variable named A=B": {"argv": ("sh",), "env": {"A=B": "1"}},
        "a null byte in a variable": {"argv": ("sh",), "env": {"A": "\0"}},
        "a time limit of 0": {"argv": ("sh",), "time_limit_seconds": 0},
    }
    for what, fields in impossible.items():
        raises(what, InvalidInput, lambda fields=fields: Command(**fields))  # type: ignore[misc] # a default


@AROUND.check("A command's own variables reach it")
def variables_reach_it(bench: Bench) -> None:
    value = "a b\nc='\"$HOME` ü"
    same("stdout", bench.sh('printf %s "$GREETING"', env={"GREETING": value}).text, value)


@AROUND.check("An empty variable is set")
def empty_variable_is_set(bench: Bench) -> None:
    same("stdout", bench.sh('echo "${EMPTY-unset}"', env={"EMPTY": ""}).text, "")


@AROUND.check("They are gone with the command")
def variables_do_not_stay(bench: Bench) -> None:
    bench.run("true", env={"PASSING": "1"})
    same("stdout", bench.sh('echo "${PASSING:-unset}"').text, "unset")


@AROUND.check("The manifest's variables reach every command")
def manifest_variables_reach_it(bench: Bench) -> None:
    same("stdout", bench.sh(f'echo "${VARIABLE}"').text, VALUE)


@AROUND.check("A command's own variable wins over the manifest's")
def own_variable_wins(bench: Bench) -> None:
    same("stdout", bench.sh(f'echo "${VARIABLE}"', env={VARIABLE: "mine"}).text, "mine")


@AROUND.check("No variable of the server is passed")
def servers_variables_stay(bench: Bench) -> None:
    if bench.provider.options.get("inherit_environment"):
        raise Skip("the option inherit_environment passes them on purpose")
    os.environ[PLANTED] = "secret"
    try:
        same("stdout", bench.sh(f'echo "${{{PLANTED}:-unset}}"').text, "unset")
    finally:
        with suppress(KeyError):
            del os.environ[PLANTED]


@AROUND.check("Commands start in the directory that files are kept in")
def cwd_is_where_files_are(bench: Bench) -> None:
    name = bench.name("here")
    bench.sh(f"printf found > {name}")
    same("file", bench.live.read_file(name), b"found")


@AROUND.check("A directory below it can be the cwd, by its relative and its full path")
def cwd_can_be_below(bench: Bench) -> None:
    folder = bench.name("below")
    bench.live.write_file(f"{folder}/file", b"found")
    for cwd in (folder, f"./{folder}/", f"{bench.manifest.working_dir.rstrip('/')}/{folder}"):
        same(f"stdout in {cwd}", bench.run("cat", "file", cwd=cwd).text, "found")


@AROUND.check("A directory with spaces and quotes can be the cwd")
def cwd_can_be_odd(bench: Bench) -> None:
    folder = f"{bench.name('odd')} '\" $x"
    bench.live.write_file(f"{folder}/file", b"found")
    same("stdout", bench.run("cat", "file", cwd=folder).text, "found")


@AROUND.check("Changing directory does not stay")
def cwd_does_not_stay(bench: Bench) -> None:
    same("same directory", bench.sh("cd /; true").code, 0)
    name = bench.name("stay")
    bench.sh(f"printf x > {name}")
    same("file", bench.live.read_file(name), b"x")


@AROUND.check("A missing cwd is 127 and is named")
def missing_cwd_is_127(bench: Bench) -> None:
    ran = bench.run("pwd", cwd="not/there")
    same("exit code", ran.code, 127)
    inside("output", ran.said, "not/there does not exist")


@STDIN.check("Standard input reaches the command and ends", Ability.STDIN)
def stdin_reaches_it(bench: Bench) -> None:
    text = "one\ntwo ü名\n"
    same("stdout", bench.run("cat", stdin=text.encode()).stdout, text.encode())


@STDIN.check("Every byte of it arrives", Ability.STDIN, Ability.BYTES)
def stdin_carries_bytes(bench: Bench) -> None:
    data = bytes(range(256)) * 4
    same("stdout", bench.run("cat", stdin=data).stdout, data)


@STDIN.check("A megabyte of it arrives", Ability.STDIN)
def stdin_can_be_large(bench: Bench) -> None:
    data = b"0123456789abcdef" * 65536
    same("size", bench.run("wc", "-c", stdin=data).text.strip(), str(len(data)))


@STDIN.check("What comes in can go out at the same time", Ability.STDIN)
def stdin_comes_back(bench: Bench) -> None:
    data = b"0123456789abcdef" * 40_000
    same("stdout", bench.run("cat", stdin=data, max_output_bytes=len(data)).stdout, data)


@STDIN.check("Empty input ends at once", Ability.STDIN)
def empty_stdin_ends(bench: Bench) -> None:
    same("exit code", bench.run("cat", stdin=b"").code, 0)


@STDIN.check("Without input a reader finds the end at once")
def no_stdin_ends(bench: Bench) -> None:
    same("exit code", bench.run("cat", time_limit_seconds=20).code, 0)


@STDIN.check("A command that does not read its input ends all the same", Ability.STDIN)
def unread_stdin_is_fine(bench: Bench) -> None:
    ran = bench.run("true", stdin=b"x" * 1_000_000, time_limit_seconds=30)
    same("exit code", ran.code, 0)
