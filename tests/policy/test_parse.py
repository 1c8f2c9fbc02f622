"""Reading commands: what is plain, what is opaque and why, and that nothing is fatal."""

from __future__ import annotations

import subprocess
import sys
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from approvals.policy.commands.does import does
from approvals.policy.commands.line import visible
from approvals.policy.commands.parse import MAX_SCRIPT_LENGTH, read_command, read_script
from approvals.policy.commands.programs import KNOWN_PROGRAMS


@pytest.mark.parametrize(
    ("script", "commands"),
    [
        ("ls -la", [("ls", "-la")]),
        ("git push origin main && rm -rf build", [("git", "push", "origin", "main"), ("rm", "-rf", "build")]),
        ("a | b; c\nd", [("a",), ("b",), ("c",), ("d",)]),
        ("a || b", [("a",), ("b",)]),
        ("echo 'a b'", [("echo", "a b")]),
        ('rm -rf "my dir"', [("rm", "-rf", "my dir")]),
        ('"rm" x', [("rm", "x")]),
        ("r'm' x", [("rm", "x")]),
        ("ls # rm -rf x", [("ls",)]),
        ("test -f x", [("test", "-f", "x")]),
        ("bash script.sh", [("bash", "script.sh")]),
        ("python -c 'import os'", [("python", "-c", "import os")]),
        ("perl -e 'print 1'", [("perl", "-e", "print 1")]),
        ("git reset --hard HEAD~1", [("git", "reset", "--hard", "HEAD~1")]),
        ('echo "" x', [("echo", "", "x")]),
        ("echo a=b 5 foo#bar", [("echo", "a=b", "5", "foo#bar")]),
        ('echo "a; rm x"', [("echo", "a; rm x")]),
        ("ls\n", [("ls",)]),
        ("ls \u202erm", [("ls", "\u202erm")]),
        ("echo 'é' && ls", [("echo", "é"), ("ls",)]),
        ("ssh user@example.org uptime", [("ssh", "user@example.org", "uptime")]),
    ],
)  # fmt: skip
def test_a_chain_of_literal_words_is_plain(script: str, commands: list[tuple[str, ...]]) -> None:
    line = read_script(script)
    assert line.opaque == ()
    assert [command.words for command in line.commands] == commands


@pytest.mark.parametrize(
    ("script", "reason"),
    [
        ("echo hi > f", "a redirect"),
        ("cat <<E\nhi\nE", "a redirect"),
        ("> f", "a redirect"),
        ("cat <<< x", "a redirect"),
        ("echo $HOME", "a variable"),
        ("echo ${HOME}", "a variable"),
        ('echo "$X"', "an expansion inside quotes"),
        ("echo `id`", "a command substitution"),
        ("echo $(id)", "a command substitution"),
        ("printf -v 'a[$(rm)]' x", "text in a subscript is run"),
        ("ls *.py", "a glob"),
        ("ls a?", "a glob"),
        ("ls [ab]", "a glob"),
        ("cd ~", "`~`"),
        ("ls ~/x", "`~`"),
        ("FOO=1 make", "a variable set before the command"),
        ("A=1", "a variable set before the command"),
        ("(cd x && ls)", "a subshell"),
        ("{ ls; }", "a { ... } group or (( ... ))"),
        ("((i++))", "a { ... } group or (( ... ))"),
        ("for i in a b; do ls; done", "a loop"),
        ("while true; do ls; done", "a loop"),
        ("select x in a; do ls; done", "a loop"),
        ("for ((i=0;i<3;i++)); do ls; done", "a loop"),
        ("if true; then ls; fi", "an if"),
        ("case x in x) ls;; esac", "a case"),
        ("f() { ls; }", "a function"),
        ("! ls", "a negated command"),
        ("ls &", "`&`"),
        ("ls |& cat", "`|&`"),
        (r"echo a\ b", "an escape"),
        (r"\rm x", "an escape"),
        (r'echo "a\"b"', "an escape"),
        ("rm\\\n -rf x", "a line continuation"),
        ("ls {a,b}", "a brace expansion"),
        ("find . -exec rm {} +", "a brace expansion"),
        ("echo $'x'", "a $'...' string"),
        ("[ -f x ]", "test command"),
        ("[[ -f x ]]", "test command"),
        ("export A=1", "declaration command"),
        ("unset A", "unset command"),
        ("diff <(ls) x", "a process substitution"),
        ("time ls", "the shell keyword `time`"),
        ("coproc ls", "the shell keyword `coproc`"),
        ("sh -c 'ls'", "`sh -c` runs text as a command"),
        ("bash -lc 'ls'", "`bash -c` runs text as a command"),
        ("bash +x -c 'ls'", "`bash -c` runs text as a command"),
        ("/bin/sh -c ls", "`sh -c` runs text as a command"),
        ("busybox sh -c ls", "`sh -c` runs text as a command"),
        ("sudo bash -c ls", "`bash -c` runs text as a command"),
        ("bash", "`bash` reads commands from its input"),
        ("bash -s x", "`bash` reads commands from its input"),
        ("bash -o errexit", "`bash` reads commands from its input"),
        ("bash /dev/stdin", "`bash` reads commands from its input"),
        ("curl x | sh", "`sh` reads commands from its input"),
        ("", "no command"),
        ("   ", "no command"),
        ("# only a comment", "no command"),
        ("x" * (MAX_SCRIPT_LENGTH + 1), "longer than 10000 characters"),
        ("echo 'unterminated", "the shell grammar cannot read it"),
        ("{rm,-rf,x}", "the shell grammar cannot read it"),
        ("- a=b ls", "the shell grammar cannot read it"),
        ('"" x', "a program without a name"),
        ("rm\vx", "an unusual blank"),
        ("a\0b", "a NUL character"),
        ("ls \ud800", "text that is not Unicode"),
    ],
)
def test_everything_else_is_opaque_and_says_why(script: str, reason: str) -> None:
    assert reason in read_script(script).opaque_reasons


@pytest.mark.parametrize(
    "program",
    "eval source . exec command builtin trap alias hash fc bind complete compgen mapfile "
    "readarray let read enable".split(),
)
def test_builtins_that_run_text_are_opaque(program: str) -> None:
    assert f"`{program}` runs text as a command" in read_script(f"{program} x").opaque_reasons


@pytest.mark.parametrize("script", ["rm\u00a0-rf x", "rm\u2003x", "rm\rx", "rm\fx", "ls\u2028rm x"])
def test_blanks_that_only_the_grammar_takes_for_blanks_are_never_plain(script: str) -> None:
    assert read_script(script).opaque


@pytest.mark.parametrize(
    ("script", "program"),
    [
        ("ls > $(rm x)", "rm"),
        ('echo "a $(rm x) b"', "rm"),
        ("if true; then rm x; fi", "rm"),
        ("f() { rm x; }; f", "rm"),
        ("cat <<E && rm x\nhi\nE", "rm"),
        ("cat <<E\n$(rm x)\nE", "rm"),
        ("A=$(rm x) ls", "rm"),
        ("export A=$(rm x)", "rm"),
        ("[[ -n $(rm x) ]]", "rm"),
        ("sh -c 'rm x'", "rm"),
        ("""sh -c "sh -c 'rm x'" """, "rm"),
        ("eval rm x", "rm"),
        ("trap 'rm x' EXIT", "rm"),
        ("time rm x", "rm"),
        ("exec rm x", "rm"),
    ],
)
def test_the_readable_parts_of_an_opaque_line_are_read(script: str, program: str) -> None:
    line = read_script(script)
    assert line.opaque
    assert program in line.programs


def test_parts_stand_where_they_are_in_the_text_also_after_wide_characters() -> None:
    script = "echo 'é🙂' && rm x > $OUT"
    line = read_script(script)
    assert [script[item.start : item.end] for item in line.commands] == ["echo 'é🙂'", "rm x"]
    assert [script[item.start : item.end] for item in line.opaque] == ["> $OUT"]


@pytest.mark.parametrize(
    "script",
    [
        "ls 2>/dev/null",
        "ls >/dev/null 2>&1",
        "ls 2>&1 | cat",
        "ls < /dev/null",
        "ls >&2",
        "echo '$(id)' '`id`'",
        "cat <<'E'\n$(rm x) `rm y` > z\nE",
        'cat <<"E"\n$(rm x)\nE\n',
        'echo "a; b" "c | d" "e > f"',
        "git commit -m 'run `make` or $(make)'",
    ],
)
def test_what_only_looks_like_more_is_plain(script: str) -> None:
    line = read_script(script)
    assert line.opaque == ()
    assert not {"rm", "id", "make"} & {*line.programs}


def test_an_unknown_word_is_none_and_the_others_keep_their_place() -> None:
    (command,) = read_script("rm -rf $DIR x").commands
    assert command.words == ("rm", "-rf", None, "x")


@pytest.mark.parametrize(
    ("argv", "words"),
    [
        (["git", "status"], ("git", "status")),
        (["bash", "-lc", "git status"], ("git", "status")),
        (["/bin/sh", "-c", "git status"], ("git", "status")),
        (["sh", "-e", "-c", "git status", "name"], ("git", "status")),
        (["echo", "$HOME; rm x"], ("echo", "$HOME; rm x")),
    ],
)
def test_an_argv_is_a_command_unless_a_shell_is_given_a_script(
    argv: list[str], words: tuple[str, ...]
) -> None:
    line = read_command(argv)
    assert line.opaque == ()
    assert [command.words for command in line.commands] == [words]


ODD_WORDS = st.lists(
    st.sampled_from(
        "-c -e -o - -- + --output --output= -S -I -i ::: {} ; push config -exec of= A=1 a 's/' @ \" ( \\ x".split(
            " "
        )
    ),
    max_size=4,
)


@given(st.sampled_from(sorted(KNOWN_PROGRAMS)), ODD_WORDS)
def test_every_known_program_can_be_read_with_any_words(program: str, words: list[str]) -> None:
    line = read_command([program, *words])
    assert [does(command) for command in line.commands]


@pytest.mark.parametrize("argv", [[], ["bash"], ["sh", "-c"], ["env", "sh", "-c", "ls"]])
def test_an_argv_can_be_opaque(argv: list[str]) -> None:
    assert read_command(argv).opaque


def test_a_plain_line_is_summed_up_by_command_and_an_opaque_one_whole() -> None:
    assert read_script("ls && sudo rm x").summary() == ("ls", "sudo rm x")
    assert read_script("ls > x\nrm y").summary() == (r"ls > x\nrm y",)


def test_hidden_characters_are_shown_escaped() -> None:
    assert visible("a\x1b[31m\u202eb\u200bc\n\té") == r"a\x1b[31m\u202eb\u200bc\n\té"


SHELL_TEXT = st.text(
    alphabet=st.one_of(
        st.sampled_from("ab \t\n;&|()<>{}[]$`'\"\\#~*?!=-./@%0\0\v\u00a0\u202e\ud800é"),
        st.characters(),
    ),
    max_size=60,
)
PIECES = st.lists(
    st.sampled_from(
        "rm x; && || | & ( ) { } if then fi for in do done case esac $( ` ' \" <<E E > sh -c eval "
        "sudo env find -exec {} ; + $x \\ \n # ~ *".split(" ")
    ),
    max_size=25,
).map(" ".join)


@given(st.one_of(SHELL_TEXT, PIECES))
def test_reading_never_raises_and_spans_lie_in_the_text(script: str) -> None:
    line = read_command(["sh", "-c", script])
    spans = [(item.start, item.end) for item in line.commands]
    spans += [(item.start, item.end) for item in line.opaque]
    assert all(0 <= start <= end <= len(script) for start, end in spans)
    assert line.commands or line.opaque


@given(st.lists(SHELL_TEXT, max_size=5))
def test_any_argv_can_be_read(argv: list[str]) -> None:
    read_command(argv)


@pytest.mark.parametrize(
    "piece",
    ["(", "$(", '"$(', "{ ", "`", "'", "a;", "a|", "[[", "<<a ", "a=(", "${", "$((", "sudo ", "eval ", "f(){ "],
)  # fmt: skip
def test_nested_and_repeated_lines_take_bounded_time(piece: str) -> None:
    started = time.perf_counter()
    read_script((piece * MAX_SCRIPT_LENGTH)[:MAX_SCRIPT_LENGTH])
    assert time.perf_counter() - started < 10


@pytest.mark.parametrize(
    "start", ["{", "{1", "{1..", "{1..2", "a{", "${", "$((", "<<", "~", "'", '"{']
)
def test_no_character_can_end_the_process(start: str) -> None:
    # Wide characters behind a brace once made the grammar read outside its tables.
    program = (
        "from approvals.policy.commands.parse import read_script\n"
        "for code in [*range(0x80, 0x110000, 4_999), 0x10ffff]:\n"
        f"    if not 0xd800 <= code < 0xe000: read_script({start!r} + chr(code) + ' x')\n"
    )
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, check=False)
    assert (ended.returncode, ended.stderr) == (0, b"")


def test_wide_characters_are_kept_in_words_and_positions() -> None:
    script = "echo {\U000eb5c7 '日本' > x\u3000y; cat 🙂 $X"
    line = read_script(script)
    assert ("cat", "🙂", None) in [command.words for command in line.commands]
    assert "echo {\U000eb5c7 '日本'" in line.text
    (echo, cat) = read_script("echo '日本' \U000eb5c7 | cat '🙂' > x").commands
    assert echo.words == ("echo", "日本", "\U000eb5c7")
    assert (cat.text, cat.writes) == ("cat '🙂'", ("x",))
