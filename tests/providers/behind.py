"""What a program does in a sandbox behind a gateway, byte by byte where that matters."""

from __future__ import annotations

import json
from typing import Any

from sandboxes.providers.base import LiveSandbox
from tests.providers.running import run

# A conversation: connect, perhaps by TLS, send, and read until the other side is done or silent.
# The server name of a hello is put in as bytes, because no library sends what is no name.
PROGRAM = r"""
import json, socket, ssl, sys
asked = json.loads(sys.argv[1])
PLACE = "x" * 20

def hello(name):
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    near = ssl.MemoryBIO()
    wire = context.wrap_bio(ssl.MemoryBIO(), near, server_hostname=PLACE if name else None)
    try:
        wire.do_handshake()
    except ssl.SSLWantReadError:
        pass
    data, raw = near.read(), name.encode("latin-1")
    if not name:
        return data
    at, more = data.index(PLACE.encode()), len(raw) - len(PLACE)
    grown = bytearray(data[:at] + raw + data[at + len(PLACE):])
    # The lengths that enclose it: of the name, its list, its extension, all of them, and the rest.
    session = 43 + 1 + data[43]
    suites = session + 2 + int.from_bytes(data[session : session + 2])
    whole = suites + 1 + data[suites]
    for start, size in ((at - 2, 2), (at - 5, 2), (at - 7, 2), (whole, 2), (6, 3), (3, 2)):
        length = int.from_bytes(data[start : start + size]) + more
        grown[start : start + size] = length.to_bytes(size)
    return bytes(grown)

def talk():
    send = asked["send"].encode("latin-1")
    if asked["how"] == "udp":
        wire = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        wire.settimeout(asked["patience"])
        wire.sendto(send, (asked["host"], asked["port"]))
        return wire.recv(4096)
    wire = socket.create_connection((asked["host"], asked["port"]), 5)
    wire.settimeout(asked["patience"])
    if asked["how"] == "hello":
        wire.sendall(hello(asked["name"]))
        return wire.recv(1)
    if asked["how"] == "tls":
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        wire = context.wrap_socket(wire, server_hostname=asked["name"] or None)
    wire.sendall(send)
    got = b""
    try:
        while more := wire.recv(65536):
            got += more
            if asked["until"] and asked["until"].encode() in got:
                break
        while asked["then"]:
            wire.sendall(asked["then"].encode())
            asked["then"] = ""
            got += wire.recv(65536)
    except TimeoutError:
        pass
    return got

try:
    print(json.dumps(["said", talk().decode("latin-1")]))
except OSError as error:
    print(json.dumps(["failed", type(error).__name__ + ": " + str(error)]))
"""


def talk(sandbox: LiveSandbox, how: str, host: str, port: int, send: str, **asked: Any) -> str:
    """Return what came back, or "failed: " and why nothing did."""
    told = {"name": "", "patience": 5, "until": "", "then": ""} | asked
    words = json.dumps({"how": how, "host": host, "port": port, "send": send, **told})
    ran = run(sandbox, "python3", "-c", PROGRAM, words, time_limit_seconds=60)
    assert ran.code == 0, ran.stderr.decode()
    kind, text = json.loads(ran.text)
    return text if kind == "said" else f"failed: {text}"


def get(host: str, path: str = "/", *more: str) -> str:
    """Return a request for a page, as it is sent; the connection ends after it."""
    return "\r\n".join(
        (f"GET {path} HTTP/1.1", f"Host: {host}", *more, "Connection: close", "", "")
    )


def web(sandbox: LiveSandbox, host: str, named: str | None = None) -> str:
    """Return the answer of a host's web server, asked for under another name where that is given."""
    return talk(sandbox, "tcp", host, 80, get(host if named is None else named))


def safe(sandbox: LiveSandbox, host: str, named: str | None = None) -> str:
    """Return the answer of a host's web server over TLS, with another Host inside where given."""
    return talk(sandbox, "tls", host, 443, get(host if named is None else named), name=host)


def is_answered(sandbox: LiveSandbox, gateway: str, name: str) -> bool:
    """Say whether a TLS hello with these bytes for a server name gets a server's."""
    return talk(sandbox, "hello", gateway, 443, "", name=name) == "\x16"


def status(answer: str) -> str:
    """Return the status of an HTTP answer, or all of what is none."""
    return answer.split(" ")[1] if answer.startswith("HTTP/") else answer


def question(name: str, kind: int = 1) -> str:
    """Return a question to a name server."""
    labels = "".join(f"{chr(len(label))}{label}" for label in name.split("."))
    return f"\x12\x34\x01\x00\x00\x01\x00\x00\x00\x00\x00\x00{labels}\x00\x00{chr(kind)}\x00\x01"


def asked(sandbox: LiveSandbox, server: str, name: str, kind: int = 1) -> tuple[int, str]:
    """Return the code and the last four bytes, an address if it is one, that a name server says."""
    answer = talk(sandbox, "udp", server, 53, question(name, kind))
    assert answer[:2] == "\x12\x34", answer
    found = ".".join(str(ord(byte)) for byte in answer[-4:]) if ord(answer[7]) else ""
    return ord(answer[3]) & 15, found


# All at once, because what nobody answers takes its time; but for a crowd of them in turns.
CONNECTED = r"""
import json, socket, sys
from concurrent.futures import ThreadPoolExecutor

def attempt(place):
    with socket.socket() as wire:
        wire.settimeout(4)
        return wire.connect_ex(tuple(place)) == 0

places = json.loads(sys.stdin.read())
with ThreadPoolExecutor(20) as pool:
    print(json.dumps([place for place, is_up in zip(places, pool.map(attempt, places)) if is_up]))
"""


def connected(sandbox: LiveSandbox, places: list[tuple[str, int]]) -> list[tuple[str, int]]:
    """Return the addresses and ports that take a connection."""
    stdin = json.dumps(places).encode()
    ran = run(sandbox, "python3", "-c", CONNECTED, stdin=stdin, time_limit_seconds=120)
    return [(host, port) for host, port in json.loads(ran.text)]
