"""A grammar of shell lines: every construct nested in every other, with programs that only log."""

from __future__ import annotations

from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

type Text = SearchStrategy[str]

_WORDS = st.sampled_from([
    "a", "-n", "f", "'a b'", '"a;b"', r"a\ b", "$X", '"$X"', "*", "{a,b}", "~", "$((1+2))", "$'a'", "''", "--", "'$(one)'",
    "a=b", "#x", "x#", "!", "[", "]", "=", "%", "@{u}", "\\\n", "'x\ny'", "${X:-a}", "${#X}", "\"a'b\"", "\\$X", "\\`",
])  # fmt: skip
_PROGRAMS = st.sampled_from(
    ["one", "two", "three", "'one'", r"t\wo", "t'w'o", "/bin/one", "ls", "cat", "echo"]
)
_WRAPPERS = st.sampled_from([
    "env", "env A=1", "env -i", "nice", "nice -n 5", "timeout 5", "timeout -k 1 5", "nohup", "setsid -w", "stdbuf -oL",
    "xargs", "xargs -n1", "xargs -I{}", "time", "command", "exec", "eval", "env -u X", "nice timeout 3", "A=1", "A=1 B='x y'",
    "!", "builtin", "command -p", "busybox", "env --",
])  # fmt: skip
_REDIRECTS = st.sampled_from([
    "> out", "2>/dev/null", "2>&1", ">> out", "< f", "&> out", ">&2", "<<< x", '<<< "a b"', "3> out", ">| out", "< /dev/null",
])  # fmt: skip
_OPERATORS = st.sampled_from(
    [" ; ", " && ", " || ", " | ", " & ", "\n", ";", "|", " |& ", " && \\\n "]
)
_QUOTES = st.sampled_from(["'", '"'])


def _simple() -> Text:
    words = st.lists(_WORDS, max_size=3)
    return st.tuples(_PROGRAMS, words).map(lambda parts: " ".join([parts[0], *parts[1]]))


def _script(text: str) -> str:
    return "'" + text.replace("'", "'\\''") + "'"


def _nested(inner: Text) -> Text:
    """Return a construct around lines."""
    pairs = st.tuples(inner, inner)
    return st.one_of(
        st.tuples(inner, _OPERATORS, inner).map("".join),
        inner.map(lambda text: f"({text}\n)"),
        inner.map(lambda text: f"{{ {text}\n}}"),
        pairs.map(lambda two: f"if {two[0]}\nthen {two[1]}\nfi"),
        pairs.map(lambda two: f"if false; then {two[0]}\nelse {two[1]}\nfi"),
        inner.map(lambda text: f"for i in a b; do {text}\ndone"),
        inner.map(lambda text: f"while {text}\ndo break; done"),
        inner.map(lambda text: f"until false; do {text}\nbreak; done"),
        pairs.map(lambda two: f"case a in b) {two[0]}\n;; *) {two[1]}\n;; esac"),
        inner.map(lambda text: f"fn() {{ {text}\n}}; fn"),
        inner.map(lambda text: f"echo $({text}\n)"),
        inner.map(lambda text: f'echo "x $({text}\n) y"'),
        inner.map(lambda text: f"echo `{text}`" if "`" not in text and "\\" not in text else text),
        inner.map(lambda text: f"cat <({text}\n)"),
        inner.map(lambda text: f"A=$({text}\n) one"),
        inner.map(lambda text: f"echo ${{X:-$({text}\n)}}"),
        inner.map(lambda text: f'[ -n "$({text}\n)" ]'),
        inner.map(lambda text: f"cat <<E\n$({text}\n)\nE"),
        inner.map(lambda text: f"cat <<'E'\n$({text}\n)\nE"),
        inner.map(lambda text: f"cat <<E | two\n$({text}\n)\nE"),
        inner.map(lambda text: f"bash -c {_script(text)}"),
        inner.map(lambda text: f"env sh -c {_script(text)}"),
        inner.map(lambda text: f"eval {_script(text)}"),
        inner.map(lambda text: f"bash <<'EOF'\n{text}\nEOF"),
        inner.map(lambda text: f"trap {_script(text)} EXIT"),
        inner.map(lambda text: f"find f -exec sh -c {_script(text)} \\;"),
        inner.map(lambda text: f"echo f | xargs -I% sh -c {_script(text)}"),
        inner.map(lambda text: f"awk {_script('BEGIN{system(' + _awk(text) + ')}')}"),
        inner.map(lambda text: f"[[ -f f ]] && {text}"),
        inner.map(lambda text: f"coproc {text}"),
        st.tuples(_WRAPPERS, inner).map(" ".join),
        st.tuples(inner, _REDIRECTS).map(" ".join),
        st.tuples(_REDIRECTS, inner).map(" ".join),
        inner.map(lambda text: f"{text} # two"),
        st.tuples(_QUOTES, inner).map(lambda two: f"echo {two[0]}{two[1]}{two[0]}"),
    )


def _awk(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n") + '"'


def lines_of_all_kinds(count: int) -> SearchStrategy[list[str]]:
    """Return a strategy of lists of lines, short enough for a shell to run many of them."""
    line = st.recursive(_simple(), _nested, max_leaves=6).filter(lambda text: len(text) < 2_000)
    return st.lists(line, min_size=count, max_size=count)
