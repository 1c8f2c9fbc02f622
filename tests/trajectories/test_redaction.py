"""Secrets: which are masked, what is left alone, and that no cut in a stream lets one through."""

from __future__ import annotations

import base64
import json
import time
from urllib.parse import quote

import pytest
from django.conf import settings
from hypothesis import given
from hypothesis import settings as examples
from hypothesis import strategies as st

from tests.trajectories.build import append
from trajectories import redaction
from trajectories.models import Trajectory
from trajectories.patterns import MASK, MAX_MATCH, is_secret_name
from trajectories.redaction import MAX_HELD, Redactor, redactor
from trajectories.steps import StepKind

KNOWN = "hunter2hunter2!"
GITHUB = "ghp_" + "a1b2c3" * 6
JWT = "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.SflKxwRJSMeKKF2QT4fw"
KEY_BLOCK = "-----BEGIN RSA PRIVATE KEY-----\nMIIEpAIBAAKCAQEA\nx9\n-----END RSA PRIVATE KEY-----"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("token=abc", "token=[REDACTED]"),
        ("https://x.example/?access_token=abc&page=2", "https://x.example/?access_token=[REDACTED]&page=2"),
        ("password: hunter2", "password: [REDACTED]"),
        ("export API_KEY='two words' next", "export API_KEY='[REDACTED]' next"),
        ('{"token": "abc", "n": 1}', '{"token": "[REDACTED]", "n": 1}'),
        (r'{"password":"a\"b","n":2}', '{"password":"[REDACTED]","n":2}'),
        (r'"{\"client_secret\": \"abc\"}"', r'"{\"client_secret\": \"[REDACTED]\"}"'),
        ("curl -H 'Authorization: Bearer abc.def' x", "curl -H 'Authorization: [REDACTED]' x"),
        ("proxy got Bearer abcdefghijkl123 back", "proxy got Bearer [REDACTED] back"),
        ("Set-Cookie: session=abc; Path=/", "Set-Cookie: [REDACTED]"),
        ("tool --password hunter2 --dry-run", "tool --password [REDACTED] --dry-run"),
        ("postgres://ada:pw@db.example/x", "postgres://ada:[REDACTED]@db.example/x"),
        (f"cloned with {GITHUB}.", "cloned with [REDACTED]."),
        (f"jwt {JWT} end", "jwt [REDACTED] end"),
        (f"\x1b[31m{JWT}\x1b[0m xx{GITHUB}", "\x1b[31m[REDACTED]\x1b[0m xx[REDACTED]"),
        ("id AKIAIOSFODNN7EXAMPLE", "id [REDACTED]"),
        ("omw_" + "Ab3-" * 8, "[REDACTED]"),
        (f"{KEY_BLOCK}\nok", "[REDACTED]\nok"),
        (f"say {KNOWN} twice {KNOWN}", "say [REDACTED] twice [REDACTED]"),
    ],
)  # fmt: skip
def test_what_looks_like_a_credential_is_masked(text: str, expected: str) -> None:
    assert Redactor(known=[KNOWN]).text(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        "max_tokens=500 token_count: 12 token_type: bearer",
        "token: string",
        "token = get_token()",
        "if token == other:",
        "a basic understanding of bearer authentication",
        'curl -H "Authorization: Bearer $TOKEN" https://x.example',
        "API_TOKEN=${API_TOKEN} tool --password-stdin",
        "password=null",
        "task-sk-learn-and-more-words",
        "the secret of the garden",
        "sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
    ],
)
def test_what_only_speaks_of_credentials_is_left_alone(text: str) -> None:
    assert Redactor().text(text) == text


@pytest.mark.parametrize(
    "written",
    [
        KNOWN,
        quote(KNOWN, safe=""),
        base64.b64encode(f"ada:{KNOWN}".encode()).decode(),
        base64.b64encode(f"a{KNOWN}zz".encode()).decode(),
        base64.urlsafe_b64encode(f"ab{KNOWN}".encode()).decode(),
        json.dumps(f"x{KNOWN}y"),
    ],
)
def test_a_known_secret_is_found_in_other_spellings(written: str) -> None:
    clean = Redactor(known=[KNOWN]).text(f"<{written}>")
    assert MASK in clean
    assert KNOWN not in clean
    assert "dW50ZXIyaHVudGVy" not in clean


def test_a_known_secret_of_several_lines_is_masked_line_by_line() -> None:
    secret = "first-line-of-it\nsecond-line-of-it"
    clean = Redactor(known=[secret])
    assert clean.text(f"> {secret}") == f"> {MASK}"
    assert clean.text("> second-line-of-it") == f"> {MASK}"


def test_values_under_secret_names_are_masked_in_data() -> None:
    data = {
        "env": {"API_TOKEN": "x", "accessToken": 12345, "LANG": "C"},
        "argv": ["tool", "--password", "p", "--token=q", "-v"],
        "tokens": 500,
        "secret": None,
        "nested": [{"text": f"said {KNOWN}"}],
    }
    assert Redactor(known=[KNOWN]).value(data) == {
        "env": {"API_TOKEN": MASK, "accessToken": MASK, "LANG": "C"},
        "argv": ["tool", "--password", MASK, f"--token={MASK}", "-v"],
        "tokens": 500,
        "secret": None,
        "nested": [{"text": f"said {MASK}"}],
    }


@pytest.mark.parametrize(
    ("name", "expected"),
    [("token", True), ("DB_PASSWORD", True), ("refresh_token", True), ("apiKey", True),
     ("set-cookie", True), ("tokens", False), ("token_count", False), ("monkey", False)],
)  # fmt: skip
def test_secret_names(name: str, expected: bool) -> None:
    assert is_secret_name(name) is expected


def test_the_process_knows_its_own_secrets(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("E2B_API_KEY", "e2b-zzzzzzzzzzzz")
    monkeypatch.setenv("SOME_TOKEN", "short")
    monkeypatch.setenv("KEY_PASSWORD", "/run/secrets/password")
    monkeypatch.setenv("QUEUE_URL", "redis://:queue-password-1@localhost/0")
    redaction._standard.cache_clear()
    try:
        clean = redactor()
        text = (
            f"e2b-zzzzzzzzzzzz {settings.SECRET_KEY} queue-password-1 short /run/secrets/password"
        )
        assert clean.text(text) == f"{MASK} {MASK} {MASK} short /run/secrets/password"
        redaction.secret_register("a-decrypted-credential")
        assert redactor().text("a-decrypted-credential") == MASK
        assert redactor(known=["of-this-run"]).text("of-this-run") == MASK
        assert redactor().text("of-this-run") == "of-this-run"
    finally:
        redaction._registered.clear()
        redaction._standard.cache_clear()


def test_secrets_are_masked_before_a_step_is_hashed(trajectory: Trajectory) -> None:
    step = append(trajectory, StepKind.NOTE, text=f"pushed with {GITHUB}")
    assert step.payload["text"] == f"pushed with {MASK}"


PIECES = st.sampled_from(
    [KNOWN, GITHUB, JWT, KEY_BLOCK + "\n", "\n", "\r\n", "\r", " ", "x", "password=", "token: ", '"',
     "Authorization: Bearer abc123def456", "-----BEGIN PRIVATE KEY-----", "é", "\x00", "&"]
)  # fmt: skip


@examples(deadline=None)
@given(pieces=st.lists(PIECES, max_size=14), cuts=st.lists(st.integers(1, 40), min_size=1))
def test_a_stream_says_the_same_wherever_it_is_cut(pieces: list[str], cuts: list[int]) -> None:
    clean = Redactor(known=[KNOWN])
    data = "".join(pieces).encode()
    stream, out, start, turn = clean.stream(), b"", 0, 0
    while start < len(data):
        size = cuts[turn % len(cuts)]
        out += stream.feed(data[start : start + size])
        start, turn = start + size, turn + 1
    out += stream.close()
    assert out == clean.text(data.decode("latin-1")).encode("latin-1")
    assert KNOWN.encode() not in out
    assert GITHUB.encode() not in out


@pytest.mark.parametrize("secret", [KNOWN, GITHUB, f"password={KNOWN}", JWT])
@pytest.mark.parametrize("before", [0, 1, MAX_HELD - 20, MAX_HELD - MAX_MATCH - 8, MAX_HELD + 5])
def test_no_secret_passes_in_a_line_without_end(secret: str, before: int) -> None:
    clean = Redactor(known=[KNOWN])
    data = b"." * before + secret.encode() + b"." * (2 * MAX_HELD)
    for size in (1000, 4096, 65_536):
        stream = clean.stream()
        out = b"".join(stream.feed(data[i : i + size]) for i in range(0, len(data), size))
        out += stream.close()
        assert secret.encode() not in out
        assert MASK.encode() in out


def test_whole_lines_pass_at_once_and_little_is_held_back() -> None:
    stream = Redactor(known=[KNOWN]).stream()
    assert stream.feed(b"first line\nsecond") == b"first line\n"
    assert stream.feed(b" line\n") == b"second line\n"
    passed = stream.feed(b"." * (3 * MAX_HELD))
    assert len(passed) >= 2 * MAX_HELD


def test_a_private_key_without_end_never_shows() -> None:
    stream = Redactor().stream()
    out = stream.feed(b"-----BEGIN PRIVATE KEY-----\nMIIE")
    for _ in range(2000):
        out += stream.feed(b"vQIBADANBgkqhkiG9w0BAQEFAASC" * 10)
    out += stream.feed(b"\n-----END PRIVATE KEY-----\nafter\n") + stream.close()
    assert out == MASK.encode() + b"\nafter\n"


@pytest.mark.parametrize(
    "unit",
    ["a", "token=", "Bearer ", "eyJ", "key ", "://a:", "authorization:", "--a-a-a-", "sk-",
     "-----BEGIN PRIVATE KEY-----", 'secret\\\\"', "AKIA", "password '"],
)  # fmt: skip
def test_time_grows_with_the_length_of_the_text_only(unit: str) -> None:
    clean = Redactor(known=[KNOWN])

    def seconds(size: int) -> float:
        text = unit * (size // len(unit))
        started = time.perf_counter()
        clean.text(text)
        return time.perf_counter() - started

    small, large = min(seconds(100_000) for _ in range(3)), seconds(800_000)
    # Quadratic time would be 64 times as long.
    assert large < 24 * small + 0.2


@examples(deadline=None)
@given(st.text(max_size=200))
def test_masking_twice_changes_nothing_more(text: str) -> None:
    clean = Redactor(known=[KNOWN])
    once = clean.text(text)
    assert clean.text(once) == once
