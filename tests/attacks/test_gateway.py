"""A program in a sandbox with host lists that wants to reach another host, or tell it something."""

from __future__ import annotations

import pytest

from sandboxes.providers.base import LiveSandbox
from tests.providers.behind import (
    asked,
    connected,
    get,
    is_answered,
    question,
    safe,
    status,
    talk,
    web,
)
from tests.providers.internet import Internet
from tests.providers.running import run, sh

pytestmark = [pytest.mark.docker, pytest.mark.gateway]

NAMED_LIKE_IT = (
    "notallowed.example",
    "sub.allowed.example",
    "allowed.example.evil.example",
    "allowed-example.evil.example",
    "evilfiles.example",
    "files.example",
    "secret.files.example",
    "x.deep.files.example",
    "evil.example",
)
NO_NAMES = (
    "198.51.100.3", "3325256707", "0xC6336403", "0306.063.0144.03", "198.51.25603", "127.1",
    "0x7f.1", "[::1]", "[::ffff:198.51.100.3]", "::ffff:198.51.100.3", "allowed.example:443",
    "allowed.example@evil.example", "evil.example#.allowed.example", "allowed.example evil.example",
    "allowed.example/", ".files.example", "a..files.example", "a.files.example..", "%61.files.example",
    "allowed.example,evil.example", "*.files.example", "\xe4.files.example", "",
)  # fmt: skip
NOT_PUBLIC = (
    "loop", "zero", "home", "bridge", "carrier", "metadata", "wire", "many", "all", "mapped", "six",
    "local-six",
)  # fmt: skip


@pytest.fixture(scope="module")
def way_out(allowing: LiveSandbox) -> str:
    """The address of the sandbox's gateway."""
    address: str = allowing.handle["address"]
    return address


# Names that are nearly right


@pytest.mark.parametrize("name", NAMED_LIKE_IT)
def test_a_name_like_an_allowed_one_is_another(
    allowing: LiveSandbox, way_out: str, name: str
) -> None:
    assert asked(allowing, way_out, name)[1] == ""
    assert status(web(allowing, way_out, name)) == "403"
    assert not is_answered(allowing, way_out, name)


@pytest.mark.parametrize("name", NO_NAMES)
def test_what_is_no_name_is_refused(allowing: LiveSandbox, way_out: str, name: str) -> None:
    assert status(web(allowing, way_out, name)) in ("400", "403")
    assert not is_answered(allowing, way_out, name)


@pytest.mark.parametrize("name", NO_NAMES)
def test_what_is_no_name_is_refused_where_most_is_allowed(denying: LiveSandbox, name: str) -> None:
    gateway = denying.handle["address"]
    assert status(web(denying, gateway, name)) in ("400", "403", "503")
    assert not is_answered(denying, gateway, name)


@pytest.mark.parametrize(
    "name", ["evil.example\0.files.example", "evil.example\n.files.example", "allowed.example\n"]
)
def test_a_name_has_no_control_characters(allowing: LiveSandbox, way_out: str, name: str) -> None:
    assert not is_answered(allowing, way_out, name)
    if "\n" not in name:
        assert status(web(allowing, way_out, name)) == "403"


@pytest.mark.parametrize(
    "name", ["ads.example", "ADS.example", "ads.example.", "X.Tracker.Example"]
)
def test_a_denied_name_is_denied_however_it_is_written(denying: LiveSandbox, name: str) -> None:
    gateway = denying.handle["address"]
    assert asked(denying, gateway, name.rstrip("."))[1] == ""
    assert status(web(denying, gateway, name)) == "403"
    assert not is_answered(denying, gateway, name)


# Names that lead elsewhere


@pytest.mark.parametrize("name", NOT_PUBLIC)
def test_an_allowed_name_leads_to_no_address_that_is_not_public(
    allowing: LiveSandbox, way_out: str, name: str
) -> None:
    expected = "502" if name == "six" else "403"
    assert status(web(allowing, way_out, f"{name}.files.example")) == expected
    assert not is_answered(allowing, way_out, f"{name}.files.example")


@pytest.mark.parametrize("name", ["later.files.example", "sooner.files.example"])
def test_a_name_that_changes_its_address_leads_to_the_public_one_or_nowhere(
    allowing: LiveSandbox, way_out: str, name: str
) -> None:
    told: set[str] = set()
    while told != {"200", "403"}:
        answer = web(allowing, way_out, name)
        told.add(status(answer))
        assert status(answer) == "403" or '"me": "good"' in answer


def test_a_redirect_to_a_denied_host_is_not_followed(allowing: LiveSandbox) -> None:
    answer = talk(
        allowing, "tcp", "allowed.example", 80,
        get("allowed.example", "/redirect?http://evil.example/"),
    )  # fmt: skip
    assert status(answer) == "302"
    line = "import urllib.request; urllib.request.urlopen('http://allowed.example{}', timeout=5)"
    for where in ("//evil.example/", "//198.51.100.3/", "//allowed.example:8080/"):
        ran = run(allowing, "python3", "-c", line.format(f"/redirect?http:{where}"))
        assert ran.code == 1
        assert b"URLError" in ran.stderr


# Another host inside what goes to an allowed one


def test_the_host_is_judged_and_not_where_the_connection_went(
    allowing: LiveSandbox, world: Internet
) -> None:
    assert status(web(allowing, "allowed.example", "evil.example")) == "403"
    assert '"me": "good"' in web(allowing, "allowed.example", "a.files.example")


def test_by_tls_another_host_inside_reaches_none_but_the_named_one(allowing: LiveSandbox) -> None:
    answer = safe(allowing, "allowed.example", "evil.example")
    assert '"me": "good"' in answer
    assert '"sni": "allowed.example"' in answer


def test_tls_needs_a_name(allowing: LiveSandbox, way_out: str) -> None:
    assert not is_answered(allowing, way_out, "")


def test_nothing_but_tls_passes_on_its_port(allowing: LiveSandbox, way_out: str) -> None:
    for words in (
        get("allowed.example"),
        "SSH-2.0-OpenSSH_9.2\r\n",
        "\x16\x03\x01\x00\x00",
        "\x80\x2e\x01",
    ):
        assert "good" not in talk(allowing, "tcp", way_out, 443, words, patience=1)


@pytest.mark.parametrize(
    "head",
    [
        "GET http://evil.example/ HTTP/1.1\r\nHost: allowed.example",
        "GET http://allowed.example/ HTTP/1.1\r\nHost: evil.example",
        "GET //evil.example/ HTTP/1.1\r\nHost: evil.example",
        "CONNECT evil.example:443 HTTP/1.1\r\nHost: allowed.example",
        "CONNECT allowed.example:22 HTTP/1.1\r\nHost: allowed.example:22",
        "GET / HTTP/1.1\r\nHost: allowed.example\r\nHost: evil.example",
        "GET / HTTP/1.1\r\nHost: evil.example\r\nHost: allowed.example",
        "GET / HTTP/1.1\r\nHost: allowed.example\r\n Host: evil.example",
        "GET / HTTP/1.1\r\nHost : evil.example\r\nHost: allowed.example",
        "GET / HTTP/1.1",
        "GET / HTTP/1.0",
        "GET @evil.example/ HTTP/1.1\r\nHost: allowed.example",
        "GET / HTTP/1.1\r\nHost: allowed.example\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: x",
        "POST / HTTP/1.1\r\nHost: allowed.example\r\nContent-Length: 1\r\nContent-Length: 2",
        "PRI * HTTP/2.0",
    ],
)
def test_a_request_that_names_two_hosts_or_none_is_refused(
    allowing: LiveSandbox, way_out: str, head: str, world: Internet
) -> None:
    before = world.seen("good"), world.seen("bad")
    answer = talk(allowing, "tcp", way_out, 80, f"{head}\r\nConnection: close\r\n\r\n")
    assert status(answer)[0] == "4" or not answer, answer
    assert (world.seen("good"), world.seen("bad")) == before


def test_each_request_of_a_connection_is_judged(allowing: LiveSandbox, world: Internet) -> None:
    kept = "GET /one HTTP/1.1\r\nHost: allowed.example\r\n\r\n"
    other = get("evil.example", "/two")
    answer = talk(allowing, "tcp", "allowed.example", 80, kept + other)
    assert answer.count("HTTP/1.1 200") == 1
    assert answer.count("HTTP/1.1 403") == 1
    hidden = (
        f"POST / HTTP/1.1\r\nHost: allowed.example\r\nContent-Length: {len(other)}\r\n\r\n{other}"
    )
    answer = talk(allowing, "tcp", "allowed.example", 80, hidden + get("evil.example", "/three"))
    assert (answer.count("HTTP/1.1 200"), answer.count("HTTP/1.1 403")) == (1, 1)
    assert not [line for line in world.seen("bad") if line.startswith("web")]


# Ways around it


def test_no_address_is_reached_past_the_gateway(allowing: LiveSandbox, world: Internet) -> None:
    hosts = (world.good, world.host, "172.17.0.1", "169.254.169.254", "8.8.8.8")
    assert connected(allowing, [(host, port) for host in hosts for port in (80, 443)]) == []


def test_the_host_has_no_address_beside_the_sandbox(allowing: LiveSandbox, way_out: str) -> None:
    neighbours = [
        f"{way_out.rpartition('.')[0]}.{int(way_out.rpartition('.')[2]) + n}" for n in (-1, -2)
    ]
    assert (
        connected(allowing, [(one, port) for one in neighbours for port in (22, 111, 2375)]) == []
    )
    assert sh(allowing, "cat /proc/net/if_inet6 | grep -v ' lo$'").text == ""


def test_no_other_port_of_the_gateway_answers(allowing: LiveSandbox, way_out: str) -> None:
    found = connected(allowing, [(way_out, port) for port in range(1, 65536)])
    assert [port for _, port in found] == [53, 80, 443]


def test_datagrams_get_nowhere(allowing: LiveSandbox, way_out: str, world: Internet) -> None:
    for host, port in ((way_out, 443), (world.good, 443), (world.good, 53), ("8.8.8.8", 53)):
        answer = talk(allowing, "udp", host, port, question("allowed.example"), patience=1)
        assert answer.startswith("failed")


def test_a_packet_is_not_passed_on_by_the_gateway(
    allowing: LiveSandbox, way_out: str, world: Internet
) -> None:
    # Loose source routing: by way of the gateway, as anybody may ask.
    line = """
import socket, sys
wire = socket.socket()
wire.settimeout(3)
hop, last = map(socket.inet_aton, sys.argv[1:])
wire.setsockopt(socket.IPPROTO_IP, socket.IP_OPTIONS, bytes([0x83, 7, 4]) + last + bytes([0]))
wire.connect((sys.argv[1], 8080))
"""
    assert run(allowing, "python3", "-c", line, way_out, world.good).code != 0


def test_the_gateway_of_another_sandbox_is_out_of_reach(
    allowing: LiveSandbox, denying: LiveSandbox
) -> None:
    other = denying.handle["address"]
    assert connected(allowing, [(other, port) for port in (53, 80, 443)]) == []


# Names as a channel


@pytest.mark.parametrize("server", ["127.0.0.11", "gateway"])
def test_no_question_about_a_name_leaves(
    allowing: LiveSandbox, way_out: str, world: Internet, server: str
) -> None:
    server = way_out if server == "gateway" else server
    names = [
        f"{'s3cret' * 10}.{one}" for one in ("evil.example", "files.example", "allowed.example")
    ]
    for name in names:
        for kind in (1, 16, 28, 255):
            asked(allowing, server, name, kind)
    long = f"\0\x20{question(names[0])}"
    assert not talk(allowing, "tcp", server, 53, long, patience=1).startswith("\0\0")
    assert not [line for line in world.seen("good") if "s3cret" in line]


def test_the_gateway_hands_out_no_zone(allowing: LiveSandbox, way_out: str) -> None:
    words = "\x12\x34\x00\x00\x00\x01\x00\x00\x00\x00\x00\x00\x00\x00\xfc\x00\x01"
    answer = talk(allowing, "tcp", way_out, 53, f"\0{chr(len(words))}{words}", patience=1)
    assert "allowed" not in answer
    assert ord(answer[5]) & 15 == 5 or ord(answer[5]) & 15 == 9
