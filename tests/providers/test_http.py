"""The client of sandbox services, against services that keep the protocol and such that do not."""

from __future__ import annotations

import gzip
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from omniweb.core.clock import now
from omniweb.core.errors import (
    InvalidInput,
    NotFound,
    OmniWebError,
    ProviderError,
    ProviderUnavailable,
    SandboxLost,
    SandboxUnsupported,
    TooLarge,
)
from sandboxes.adapters import http
from sandboxes.manifest import Manifest
from sandboxes.providers.base import LiveSandbox, SandboxProvider
from sandboxes.providers.registry import check_environment, open_provider
from tests.providers.running import run, sh, somebody
from tests.providers.services import Asked, Honest, Listening, Reply, Respond, Wire, listening
from tests.server import free_port

TOKEN = "tok-3f9c1d77a0"
FINE = {"exit_code": 0, "stdout": "hi\n", "stderr": "", "timed_out": False}

Listen = Callable[[Respond], Listening]


@pytest.fixture
def listen() -> Iterator[Listen]:
    """Return a function that starts a service which answers as it is told."""
    with ExitStack() as services:

        def start(respond: Respond) -> Listening:
            service: AbstractContextManager[Listening] = listening(respond)
            return services.enter_context(service)

        yield start


def provider(service: Listening, **options: Any) -> SandboxProvider:
    """Return our client of a service."""
    return open_provider("http", {"base_url": service.url, "token": TOKEN} | options)


def attached(service: Listening, session: str = "s1", **options: Any) -> LiveSandbox:
    """Return a session that is taken to exist."""
    return provider(service, **options).attach({"session": session}, Manifest())


def answering(exec_reply: Reply | Callable[[Wire], None]) -> Respond:
    """Return a service that answers a command like this, and everything else well."""

    def respond(asked: Asked, wire: Wire) -> Reply | None:
        if asked.line == "POST /sessions":
            return Reply(body={"session_id": "s1"})
        if not asked.path.endswith("/exec"):
            return Reply(status=204)
        if isinstance(exec_reply, Reply):
            return exec_reply
        exec_reply(wire)
        return None

    return respond


# What is sent


def test_a_session_is_opened_with_every_key_of_the_manifest(listen: Listen) -> None:
    service = listen(answering(Reply(body=FINE)))
    manifest = Manifest.parse(
        {
            "image": "python:3.12-slim",
            "working_dir": "/srv/app",
            "network_policy": {
                "allowed_hosts": ["a.example.org"],
                "denied_hosts": ["b.example.org"],
            },
            "environment": {"plain": {"A": "1"}},
            "resources": {"cpu": "2", "memory": "1g", "gpu": True},
        }
    )
    sandbox = provider(service).create(manifest, owner=somebody())
    assert sandbox.handle == {"session": "s1"}
    assert service.asked[0].json == {
        "manifest": {
            "image": "python:3.12-slim",
            "working_dir": "/srv/app",
            "environment": {"A": "1"},
            "network": {
                "default": "deny",
                "allowed_hosts": ["a.example.org"],
                "denied_hosts": ["b.example.org"],
            },
            "resources": {"cpu": "2", "memory": "1g", "gpu": True},
        }
    }
    assert service.asked[0].headers["Content-Type"] == "application/json"


def test_a_bare_manifest_still_says_every_key(listen: Listen) -> None:
    service = listen(answering(Reply(body=FINE)))
    provider(service).create(Manifest(), owner=somebody())
    assert service.asked[0].json["manifest"] == {
        "image": None,
        "working_dir": "/workspace",
        "environment": {},
        "network": {"default": "deny", "allowed_hosts": [], "denied_hosts": []},
        "resources": {"cpu": None, "memory": None, "gpu": False},
    }


def test_a_command_is_sent_as_words_with_whole_seconds(listen: Listen) -> None:
    service = listen(answering(Reply(body=FINE)))
    run(
        attached(service),
        "printf",
        "a b",
        cwd="sub",
        env={"A": "ü"},
        stdin="grüße".encode(),
        time_limit_seconds=1.2,
    )
    assert service.asked[0].line == "POST /sessions/s1/exec"
    assert service.asked[0].json == {
        "command": ["printf", "a b"],
        "cwd": "/workspace/sub",
        "env": {"A": "ü"},
        "timeout_seconds": 2,
        "stdin": "grüße",
    }


def test_what_a_command_does_not_say_is_null_and_the_working_directory(listen: Listen) -> None:
    service = listen(answering(Reply(body=FINE)))
    run(attached(service), "true")
    assert service.asked[0].json == {
        "command": ["true"],
        "cwd": "/workspace",
        "env": {},
        "timeout_seconds": None,
        "stdin": None,
    }


def test_every_request_carries_the_token_and_the_headers(listen: Listen) -> None:
    service = listen(answering(Reply(body=FINE)))
    headers = {"X-Team": "harbour", "authorization": "Basic eHg=", "accept-encoding": "gzip"}
    sandbox = provider(service, headers=headers).create(Manifest(), owner=somebody())
    run(sandbox, "true")
    sandbox.write_file("a", b"")
    sandbox.read_file("a")
    sandbox.terminate()
    assert [asked.method for asked in service.asked] == ["POST", "POST", "PUT", "GET", "DELETE"]
    for asked in service.asked:
        named = {name.lower(): text for name, text in asked.headers.items()}
        assert named["authorization"] == f"Bearer {TOKEN}"
        assert named["x-team"] == "harbour"
        assert named["accept-encoding"] == "identity"
        assert len(named) == len(asked.headers)


def test_without_a_token_a_header_may_authorise(listen: Listen) -> None:
    service = listen(answering(Reply(body=FINE)))
    run(attached(service, token=None, headers={"Authorization": "Basic eHg="}), "true")
    assert service.asked[0].headers["Authorization"] == "Basic eHg="


def test_a_prefix_of_the_address_is_kept_and_a_slash_at_its_end_is_not(listen: Listen) -> None:
    service = listen(answering(Reply(body=FINE)))
    run(attached(service, base_url=f"{service.url}/sandbox/v1/"), "true")
    assert service.lines == ["POST /sandbox/v1/sessions/s1/exec"]


@pytest.mark.parametrize(
    ("session", "quoted"),
    [("a/../b", "a%2F..%2Fb"), ("a b?c#d%2e", "a%20b%3Fc%23d%252e"), ("ü", "%C3%BC")],
)
def test_a_session_id_is_one_part_of_the_path_whatever_is_in_it(
    listen: Listen, session: str, quoted: str
) -> None:
    service = listen(answering(Reply(body=FINE)))
    sandbox = attached(service, session)
    run(sandbox, "true")
    sandbox.terminate()
    assert service.lines == [f"POST /sessions/{quoted}/exec", f"DELETE /sessions/{quoted}"]


def test_a_path_is_absolute_and_quoted_and_a_file_has_no_content_type(listen: Listen) -> None:
    service = listen(answering(Reply(body=FINE)))
    attached(service).write_file("ü b/c&d.txt", b"\x00\xff")
    assert service.lines == ["PUT /sessions/s1/files?path=%2Fworkspace%2F%C3%BC%20b%2Fc%26d.txt"]
    assert service.asked[0].body == b"\x00\xff"
    assert "Content-Type" not in service.asked[0].headers
    assert service.asked[0].headers["Content-Length"] == "2"


def test_no_proxy_and_no_password_file_of_the_server_is_used(
    listen: Listen, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    elsewhere = listen(lambda asked, wire: Reply(body=FINE))
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, elsewhere.url)
    netrc = tmp_path / "netrc"
    netrc.write_text("machine 127.0.0.1 login me password hunter2\n")
    monkeypatch.setenv("NETRC", str(netrc))
    service = listen(answering(Reply(body=FINE)))
    run(attached(service, token=None), "true")
    assert "Authorization" not in service.asked[0].headers
    assert not elsewhere.asked


# What comes back


def test_a_result_is_taken_over_and_its_output_passed_on(listen: Listen) -> None:
    service = listen(
        answering(Reply(body={"exit_code": 3, "stdout": "aü", "stderr": "b", "timed_out": True}))
    )
    ran = run(attached(service), "x")
    assert (ran.code, ran.stdout, ran.stderr, ran.result.timed_out) == (
        3,
        "aü".encode(),
        b"b",
        True,
    )
    assert (ran.result.stdout_bytes, ran.result.session_lost) == (3, False)


@pytest.mark.parametrize("missing", [{}, {"stdout": None, "stderr": None, "timed_out": None}])
def test_what_a_result_leaves_out_is_nothing(listen: Listen, missing: dict[str, Any]) -> None:
    ran = run(attached(listen(answering(Reply(body={"exit_code": 0} | missing)))), "x")
    assert (ran.stdout, ran.stderr, ran.result.timed_out) == (b"", b"", False)


def test_output_past_the_cap_is_counted_and_dropped(listen: Listen) -> None:
    service = listen(answering(Reply(body=FINE | {"stdout": "x" * 3000})))
    ran = run(attached(service, max_output_bytes=1000), "x")
    assert (len(ran.stdout), ran.result.stdout_bytes) == (1000, 3000)
    assert ran.result.stdout_truncated
    ran = run(attached(service, max_output_bytes=1000), "x", max_output_bytes=10)
    assert len(ran.stdout) == 10


def test_a_service_that_cut_the_output_itself_is_believed(listen: Listen) -> None:
    service = listen(answering(Reply(body=FINE | {"stderr_truncated": True})))
    ran = run(attached(service), "x")
    assert (ran.result.stdout_truncated, ran.result.stderr_truncated) == (False, True)


WRONG: list[tuple[bytes | dict[str, Any], str]] = [
    (b"<html>", "something that is not JSON"),
    (b"", "something that is not JSON"),
    (b"\xff\xfe", "something that is not JSON"),
    (b"[" * 100_000, "something that is not JSON"),
    (b"[1]", "JSON that is not an object"),
    (b"null", "JSON that is not an object"),
    ({}, "an exit_code that is none"),
    ({"exit_code": None}, "an exit_code that is none"),
    ({"exit_code": True}, "an exit_code that is none"),
    ({"exit_code": "0"}, "an exit_code that is none"),
    ({"exit_code": 2**31}, "an exit_code that is none"),
    ({"exit_code": 0, "stdout": ["a"]}, "a stdout that is no text"),
    ({"exit_code": 0, "stdout": "a", "stderr": 5}, "a stderr that is no text"),
    ({"exit_code": 0, "timed_out": "no"}, "a timed_out that is neither true nor false"),
]


@pytest.mark.parametrize(("body", "what"), WRONG, ids=[str(case[0])[:30] for case in WRONG])
def test_an_answer_that_cannot_be_meant_is_no_result(
    listen: Listen, body: bytes | dict[str, Any], what: str
) -> None:
    sandbox = attached(listen(answering(Reply(body=body))))
    with pytest.raises(ProviderError) as wrong:
        run(sandbox, "x")
    assert wrong.value.detail == (
        f"The sandbox service answered a command with {what}; the command may have run"
    )


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b"", "with something that is not JSON"),
        (b'"s1"', "with JSON that is not an object"),
        ({}, "without a session_id"),
        ({"session_id": ""}, "without a session_id"),
        ({"session_id": 7}, "without a session_id"),
        ({"session_id": ".."}, "a session_id that cannot be one"),
        ({"session_id": "a\r\nb"}, "a session_id that cannot be one"),
        ({"session_id": "x" * 513}, "a session_id that cannot be one"),
        ({"session_id": "\ud800"}, "a session_id that cannot be one"),
    ],
)
def test_a_session_without_a_usable_id_is_none(
    listen: Listen, body: bytes | dict[str, Any], message: str
) -> None:
    service = listen(lambda asked, wire: Reply(status=201, body=body))
    with pytest.raises(ProviderError, match=message) as wrong:
        provider(service).create(Manifest(), owner=somebody())
    assert not isinstance(wrong.value, SandboxUnsupported)


# Refusals


def test_a_refused_manifest_keeps_the_services_reason(listen: Listen) -> None:
    service = listen(lambda asked, wire: Reply(status=409, body=b"no GPU\n  is left here"))
    with pytest.raises(SandboxUnsupported) as refused:
        provider(service).create(Manifest(), owner=somebody())
    assert refused.value.detail == (
        "The sandbox service answered 409 for POST /sessions: no GPU is left here"
    )


def test_a_problem_body_is_read_for_its_detail(listen: Listen) -> None:
    body = {"type": "about:blank", "detail": "The network cannot be cut", "status": 422}
    service = listen(lambda asked, wire: Reply(status=422, body=body))
    with pytest.raises(SandboxUnsupported, match=r"sessions: The network cannot be cut$"):
        provider(service).create(Manifest(), owner=somebody())


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (401, ProviderError),
        (429, ProviderUnavailable),
        (500, ProviderError),
        (502, ProviderUnavailable),
        (503, ProviderUnavailable),
    ],
)
def test_a_failure_that_says_nothing_about_the_manifest_is_not_its_refusal(
    listen: Listen, status: int, kind: type[ProviderError]
) -> None:
    service = listen(lambda asked, wire: Reply(status=status, body=b"sorry"))
    with pytest.raises(kind, match=f"answered {status} for POST /sessions: sorry") as refused:
        provider(service).create(Manifest(), owner=somebody())
    assert type(refused.value) is kind


def test_a_refusal_is_kept_cut_and_visible(listen: Listen) -> None:
    body = "\x1b[31mred\u202e " + "x" * 100_000
    service = listen(answering(Reply(status=500, body=body.encode())))
    with pytest.raises(ProviderError) as refused:
        run(attached(service), "x")
    said = refused.value.detail.partition("exec: ")[2]
    assert said.startswith(r"\x1b[31mred\u202e xxx")
    assert said.endswith("x…")
    assert len(said) < 1100


def test_no_secret_comes_back_in_a_refusal(listen: Listen) -> None:
    def echo(asked: Asked, wire: Wire) -> Reply:
        return Reply(status=400, body=str(asked.headers).encode() + asked.body)

    service = listen(echo)
    headers = {"X-Api-Key": "key-5512-aaaa", "Cookie": "a=b; session=deadbeefcafe"}
    manifest = Manifest.parse({"environment": {"plain": {"DB_PASSWORD": "hunter2hunter2"}}})
    client = provider(service, headers=headers)
    errors: list[OmniWebError] = []
    with pytest.raises(OmniWebError) as refused:
        client.create(manifest, owner=somebody())
    errors.append(refused.value)
    sandbox = client.attach({"session": "s1"}, manifest)
    with pytest.raises(OmniWebError) as refused:
        run(sandbox, "x", env={"API_TOKEN": "per-call-secret"})
    errors.append(refused.value)
    for secret in (TOKEN, "key-5512-aaaa", "deadbeefcafe", "hunter2hunter2", "per-call-secret"):
        assert all(secret not in error.detail for error in errors)
    assert "********" in errors[0].detail


def test_a_header_that_cannot_be_sent_is_told_without_its_value(listen: Listen) -> None:
    service = listen(answering(Reply(body=FINE)))
    sandbox = attached(service, headers={"X-Key": "topsecret\x0bvalue"})
    with pytest.raises(ProviderError, match="cannot be sent") as refused:
        run(sandbox, "x")
    assert "topsecret" not in refused.value.detail
    assert refused.value.__cause__ is None
    assert refused.value.__suppress_context__
    assert not service.asked


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_a_redirect_is_refused_and_its_target_never_asked(listen: Listen, status: int) -> None:
    inside = listen(lambda asked, wire: Reply(body={"session_id": "s1"} | FINE))
    location = {"Location": f"{inside.url}/latest/meta-data"}
    service = listen(lambda asked, wire: Reply(status=status, headers=location))
    sandbox = attached(service)
    acts: list[Callable[[], object]] = [
        lambda: provider(service).create(Manifest(), owner=somebody()),
        lambda: run(sandbox, "x"),
        lambda: sandbox.read_file("a"),
        lambda: sandbox.write_file("a", b""),
        sandbox.terminate,
    ]
    for act in acts:
        with pytest.raises(ProviderError, match=f"answered {status} .*redirects are not followed"):
            act()
    assert not inside.asked


# Time


def trickle(wire: Wire) -> None:
    """Send a header's bytes one by one, for as long as anybody listens."""
    wire.wfile.write(b"HTTP/1.1 200 OK\r\nX-Slow: ")
    for _ in range(600):
        wire.wfile.write(b"x")
        wire.wfile.flush()
        time.sleep(0.1)


def test_every_request_has_an_end_even_if_bytes_keep_coming(listen: Listen) -> None:
    def respond(asked: Asked, wire: Wire) -> None:
        trickle(wire)

    service = listen(respond)
    sandbox = attached(service, request_timeout_seconds=1)
    acts: list[Callable[[], object]] = [
        lambda: provider(service, request_timeout_seconds=1).create(Manifest(), owner=somebody()),
        lambda: sandbox.read_file("a"),
        lambda: sandbox.write_file("a", b""),
        sandbox.terminate,
    ]
    for act in acts:
        started = time.monotonic()
        with pytest.raises(ProviderUnavailable, match="did not answer in time"):
            act()
        assert 0.9 < time.monotonic() - started < 3


def test_a_command_that_outlasts_its_limit_and_the_grace_ends_with_its_session(
    listen: Listen, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http, "GRACE_SECONDS", 0.5)
    service = listen(answering(trickle))
    started = time.monotonic()
    ran = run(attached(service, request_timeout_seconds=1), "x", time_limit_seconds=1)
    assert 1.4 < time.monotonic() - started < 4
    assert (ran.code, ran.result.timed_out, ran.result.session_lost) == (137, True, True)
    assert service.lines == ["POST /sessions/s1/exec", "DELETE /sessions/s1"]


def test_a_long_limit_is_waited_for_though_a_request_may_not_take_as_long(listen: Listen) -> None:
    def slowly(wire: Wire) -> None:
        time.sleep(2)
        data = b'{"exit_code": 0}'
        wire.wfile.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s" % (len(data), data))

    service = listen(answering(slowly))
    ran = run(attached(service, request_timeout_seconds=1), "x", time_limit_seconds=5)
    assert (ran.code, ran.result.timed_out) == (0, False)


def test_a_cancelled_command_ends_with_its_session_at_once(listen: Listen) -> None:
    service = listen(answering(trickle))
    cancel = threading.Event()
    threading.Timer(0.5, cancel.set).start()
    started = time.monotonic()
    ran = run(attached(service), "x", cancel=cancel)
    assert time.monotonic() - started < 3
    assert (ran.code, ran.result.cancelled, ran.result.session_lost) == (137, True, True)
    assert service.lines[-1] == "DELETE /sessions/s1"


def test_a_command_whose_session_cannot_be_ended_either_is_lost(listen: Listen) -> None:
    def respond(asked: Asked, wire: Wire) -> Reply | None:
        if asked.method == "DELETE":
            return Reply(status=500)
        trickle(wire)
        return None

    cancel = threading.Event()
    threading.Timer(0.3, cancel.set).start()
    with pytest.raises(SandboxLost, match="could not be ended, the command may have run"):
        run(attached(listen(respond)), "x", cancel=cancel)


def test_a_service_that_reads_nothing_holds_no_upload_up() -> None:
    with socket.create_server(("127.0.0.1", 0)) as deaf:
        options = {"base_url": f"http://127.0.0.1:{deaf.getsockname()[1]}"}
        client = open_provider("http", options | {"request_timeout_seconds": 1})
        sandbox = client.attach({"session": "s1"}, Manifest())
        started = time.monotonic()
        with pytest.raises(ProviderUnavailable, match="did not answer in time"):
            sandbox.write_file("a", b"x" * 50_000_000)
        assert time.monotonic() - started < 4


# Size


def endless(wire: Wire) -> None:
    """Send a body that does not end."""
    wire.wfile.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
    part = b"10000\r\n" + b"x" * 0x10000 + b"\r\n"
    while True:
        wire.wfile.write(part)


def test_an_answer_without_an_end_is_cut_off(listen: Listen) -> None:
    def respond(asked: Asked, wire: Wire) -> None:
        endless(wire)

    service = listen(respond)
    with pytest.raises(ProviderError, match="with more than 65536 bytes"):
        provider(service).create(Manifest(), owner=somebody())
    with pytest.raises(ProviderError, match="with more than 16777216 bytes; the command may have"):
        run(attached(service), "x")
    with pytest.raises(TooLarge, match="a is over 1000 bytes"):
        attached(service).read_file("a", limit=1000)


def test_headers_without_an_end_are_cut_off(listen: Listen) -> None:
    def flood(wire: Wire) -> None:
        wire.wfile.write(b"HTTP/1.1 200 OK\r\n")
        while True:
            wire.wfile.write(b"X-More: " + b"x" * 1000 + b"\r\n")

    with pytest.raises(SandboxLost, match="broke off: RemoteProtocolError"):
        run(attached(listen(answering(flood))), "x")


@pytest.mark.parametrize("encoding", ["gzip", "deflate", "br", "identity, gzip"])
def test_a_compressed_answer_is_refused_unread(listen: Listen, encoding: str) -> None:
    bomb = gzip.compress(b"\0" * 50_000_000)
    service = listen(lambda asked, wire: Reply(body=bomb, headers={"Content-Encoding": encoding}))
    for act in (
        lambda: provider(service).create(Manifest(), owner=somebody()),
        lambda: run(attached(service), "x"),
        lambda: attached(service).read_file("a"),
    ):
        with pytest.raises(ProviderError, match="compressed its answer"):
            act()


# Connections


def test_a_service_that_is_not_there_is_unavailable_and_nothing_was_sent() -> None:
    client = open_provider("http", {"base_url": f"http://127.0.0.1:{free_port()}"})
    sandbox = client.attach({"session": "s1"}, Manifest())
    for act in (
        lambda: client.create(Manifest(), owner=somebody()),
        lambda: run(sandbox, "x"),
        lambda: sandbox.read_file("a"),
        sandbox.terminate,
        client.check,
    ):
        with pytest.raises(ProviderUnavailable, match="could not be reached: ConnectError"):
            act()


def cut(wire: Wire) -> None:
    """Close the connection without a word."""
    wire.connection.shutdown(socket.SHUT_RDWR)


def cut_within(wire: Wire) -> None:
    """Close the connection in the middle of the body."""
    wire.wfile.write(b'HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{"exit_code": 0')
    wire.wfile.flush()
    wire.connection.shutdown(socket.SHUT_RDWR)


def nonsense(wire: Wire) -> None:
    """Answer in another protocol."""
    wire.wfile.write(b"220 mail.example.org ESMTP\r\n" * 10)


@pytest.mark.parametrize("broken", [cut, cut_within, nonsense])
def test_a_connection_that_breaks_under_a_command_leaves_it_unknown_and_ends_the_session(
    listen: Listen, broken: Callable[[Wire], None]
) -> None:
    service = listen(answering(broken))
    with pytest.raises(SandboxLost, match=r"broke off.*was ended, the command may have run"):
        run(attached(service), "x")
    assert service.lines == ["POST /sessions/s1/exec", "DELETE /sessions/s1"]


@pytest.mark.parametrize("broken", [cut, cut_within])
def test_a_file_that_came_in_part_is_none(listen: Listen, broken: Callable[[Wire], None]) -> None:
    def respond(asked: Asked, wire: Wire) -> None:
        broken(wire)

    with pytest.raises(ProviderUnavailable, match="broke off"):
        attached(listen(respond)).read_file("a")


@pytest.mark.parametrize("status", [404, 410])
def test_a_session_the_service_no_longer_has_is_lost(listen: Listen, status: int) -> None:
    service = listen(lambda asked, wire: Reply(status=status, body=b"expired"))
    sandbox = attached(service)
    with pytest.raises(SandboxLost) as lost:
        run(sandbox, "x")
    assert lost.value.detail == "The sandbox service no longer has the session s1 (expired)"
    with pytest.raises(SandboxLost):
        sandbox.write_file("a", b"")
    sandbox.terminate()
    sandbox.terminate()


def test_ending_a_session_that_will_not_end_is_told(listen: Listen) -> None:
    service = listen(lambda asked, wire: Reply(status=500, body=b"busy"))
    with pytest.raises(ProviderError, match="answered 500 for DELETE /sessions/s1: busy"):
        attached(service).terminate()


# Files


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (404, NotFound),
        (410, SandboxLost),
        (413, TooLarge),
        (422, InvalidInput),
        (500, ProviderError),
    ],
)
def test_what_is_wrong_with_a_file_is_told_apart(
    listen: Listen, status: int, kind: type[OmniWebError]
) -> None:
    service = listen(lambda asked, wire: Reply(status=status, body=b"is a directory"))
    with pytest.raises(kind) as refused:
        attached(service).read_file("a")
    assert type(refused.value) is kind


def test_a_path_outside_is_refused_before_anything_is_sent(listen: Listen) -> None:
    service = listen(answering(Reply(body=FINE)))
    sandbox = attached(service)
    for act in (lambda: sandbox.read_file("../x"), lambda: sandbox.write_file("/etc/x", b"")):
        with pytest.raises(InvalidInput, match="outside the sandbox working directory"):
            act()
    assert not service.asked


def test_stdin_that_is_no_text_is_refused_before_anything_is_sent(listen: Listen) -> None:
    service = listen(answering(Reply(body=FINE)))
    with pytest.raises(InvalidInput, match="carries stdin as text"):
        run(attached(service), "cat", stdin=b"\xff")
    with pytest.raises(InvalidInput, match="Unicode text only"):
        run(attached(service), "echo", "\udcff")
    assert not service.asked


# TLS


def certificate(folder: Path) -> Path:
    """Return a file with a certificate for 127.0.0.1 that nobody has signed, and its key."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "sandboxes.example.org")])
    alternative = x509.SubjectAlternativeName([x509.DNSName("sandboxes.example.org")])
    signed = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now() - timedelta(days=1))
        .not_valid_after(now() + timedelta(days=1))
        .add_extension(alternative, critical=False)
        .sign(key, hashes.SHA256())
    )
    path = folder / "both.pem"
    path.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
        + signed.public_bytes(serialization.Encoding.PEM)
    )
    return path


def test_a_certificate_is_checked_unless_that_is_switched_off(
    listen: Listen, tmp_path: Path
) -> None:
    service = listen(answering(Reply(body=FINE)))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate(tmp_path))
    service.socket = context.wrap_socket(service.socket, server_side=True)
    url = service.url.replace("http:", "https:")
    with pytest.raises(ProviderUnavailable, match="CERTIFICATE_VERIFY_FAILED"):
        run(attached(service, base_url=url), "x")
    assert run(attached(service, base_url=url, verify_tls=False), "x").text == "hi"


# The whole


def test_a_service_that_keeps_the_protocol_is_driven_from_end_to_end(
    listen: Listen, tmp_path: Path
) -> None:
    service = listen(Honest(tmp_path))
    manifest = Manifest.parse(
        {
            "working_dir": str(tmp_path / "work"),
            "environment": {"plain": {"A": "from the manifest"}},
        }
    )
    created = provider(service).create(manifest, owner=somebody())
    found = provider(service).attach(created.handle, manifest)
    found.write_file("deep/er/file.bin", bytes(range(256)))
    assert found.read_file("deep/er/file.bin") == bytes(range(256))
    assert sh(found, 'echo "$A $B"; cat; exit 4', env={"B": "b"}, stdin=b"in").text == (
        "from the manifest b\nin"
    )
    assert sh(found, "exit 4").code == 4
    assert sh(found, "exec sleep 30", time_limit_seconds=1).result.timed_out
    with pytest.raises(NotFound):
        found.read_file("missing")
    created.terminate()
    found.terminate()
    with pytest.raises(SandboxLost):
        sh(found, "true")


def test_what_the_protocol_has_no_request_for_is_said(listen: Listen) -> None:
    service = listen(answering(Reply(body=FINE)))
    client, sandbox = provider(service), attached(service)
    for act in (
        lambda: client.list_owned("installation"),
        lambda: client.cleanup("installation"),
        sandbox.list_files,
        sandbox.is_running,
        sandbox.pause,
        sandbox.snapshot,
    ):
        with pytest.raises(SandboxUnsupported):
            act()
    assert not service.asked


@pytest.mark.parametrize("status", [204, 200, 404, 410])
def test_a_look_at_a_service_ends_a_session_that_never_was(listen: Listen, status: int) -> None:
    service = listen(lambda asked, wire: Reply(status=status))
    assert provider(service).check() == f"a service answers at {service.url}"
    assert service.lines == ["DELETE /sessions/omniweb-check"]


def test_a_look_at_a_service_tells_of_a_token_it_does_not_take(listen: Listen) -> None:
    service = listen(lambda asked, wire: Reply(status=401, body=b"who are you?"))
    with pytest.raises(ProviderError, match=r"answered 401 .*: who are you"):
        provider(service).check()


@pytest.mark.parametrize(
    "address",
    [
        "sandboxes.example.org",
        "ftp://sandboxes.example.org",
        "https://",
        "https://me:pass@sandboxes.example.org",
        "https://sandboxes.example.org/?a=b",
        "https://sandboxes.example.org/#a",
        "https://sandboxes.example.org:0",
        "https://sandboxes.example.org:port",
        "https://sandboxes example.org",
        "https://[::1",
    ],
)
def test_an_address_that_is_none_is_refused_when_saved(address: str) -> None:
    with pytest.raises(InvalidInput, match="'base_url' must be an http:// or https:// address"):
        check_environment("http", {"base_url": address}, Manifest())
