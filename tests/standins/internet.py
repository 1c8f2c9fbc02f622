"""All of the internet a stand-in's sandbox can reach; run inside it, started with its rules' file.

Every address is this machine's, so that nothing leaves it. A connection is taken whatever the
rules are, as some vendors' firewalls do, and is answered only where they allow what it asks for.
Ends when its stdin does. Only the standard library, and none of the repository: the sandbox
has no more.
"""

from __future__ import annotations

import contextlib
import json
import socket
import struct
import sys
import threading
from pathlib import Path
from typing import Any

_LOOPBACK = 1
_NEW_ROUTE, _CREATE = 24, 0x1 | 0x4 | 0x400
_LOCAL_TABLE, _BOOT, _HOST_SCOPE, _LOCAL = 255, 3, 254, 2
_OUT_INTERFACE = 4


def own_every_address() -> None:
    """Route the whole of IPv4 and IPv6 to loopback."""
    for family in (socket.AF_INET, socket.AF_INET6):
        with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, socket.NETLINK_ROUTE) as netlink:
            route = struct.pack(
                "=8BI", family, 0, 0, 0, _LOCAL_TABLE, _BOOT, _HOST_SCOPE, _LOCAL, 0
            )
            route += struct.pack("=HHI", 8, _OUT_INTERFACE, _LOOPBACK)
            size = 16 + len(route)
            netlink.send(struct.pack("=IHHII", size, _NEW_ROUTE, _CREATE, 1, 0) + route)
            answer = netlink.recv(4096)
            code = -struct.unpack_from("=i", answer, 16)[0]
            if code and family == socket.AF_INET:
                raise OSError(code, "the sandbox's addresses cannot be routed to itself")


class Rules:
    """What may be reached now: `all`, `nothing`, or the names in a list."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def allow(self, host: str | None) -> bool:
        """Say whether a name, or an address without one, may be reached."""
        network: Any = json.loads(self._path.read_text())
        if isinstance(network, str):
            return network == "all"
        name = (host or "").lower().partition(":")[0]
        return any(
            name == one or (one.startswith("*.") and name.endswith(one[1:])) for one in network
        )

    def answer_names(self) -> bool:
        """Say whether names are looked up at all."""
        return bool(json.loads(self._path.read_text()) != "nothing")


def web(rules: Rules, port: int) -> None:
    """Answer HTTP on every address."""
    server = socket.create_server(("::", port), family=socket.AF_INET6, dualstack_ipv6=True)
    while True:
        connection, _ = server.accept()
        threading.Thread(target=_served, args=(connection, rules), daemon=True).start()


def _served(connection: socket.socket, rules: Rules) -> None:
    with connection, contextlib.suppress(OSError):
        connection.settimeout(10)
        lines = connection.recv(65536).decode("latin-1").splitlines()
        hosts = [
            line.partition(":")[2].strip() for line in lines if line.lower().startswith("host:")
        ]
        if rules.allow(hosts[0] if hosts else None):
            connection.sendall(
                b"HTTP/1.1 200 OK\r\nContent-Length: 8\r\nConnection: close\r\n\r\ninternet"
            )


def names(rules: Rules) -> None:
    """Answer every question for a name with one address."""
    with socket.socket(socket.AF_INET6, socket.SOCK_DGRAM) as server:
        server.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        server.bind(("::", 53))
        while True:
            question, sender = server.recvfrom(4096)
            if rules.answer_names():
                with contextlib.suppress(OSError):
                    server.sendto(_address(question), sender)


def _address(question: bytes) -> bytes:
    end = question.index(b"\0", 12) + 5
    header = question[:2] + struct.pack(">HHHHH", 0x8180, 1, 1, 0, 0)
    return header + question[12:end] + struct.pack(">HHHIH4B", 0xC00C, 1, 1, 60, 4, 203, 0, 113, 9)


def main() -> None:
    """Serve until stdin is closed."""
    rules = Rules(Path(sys.argv[1]))
    own_every_address()
    for serve in (lambda: web(rules, 80), lambda: web(rules, 443), lambda: names(rules)):
        threading.Thread(target=serve, daemon=True).start()
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    sys.stdin.read()


if __name__ == "__main__":
    main()
