"""An internet of one Docker network: two machines with web servers, one of them names everything.

Its addresses are of the blocks for documentation, which are public as far as a gateway can tell.
"""

from __future__ import annotations

import io
import json
import random
import tarfile
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from ipaddress import IPv4Network
from typing import Any

import docker
from docker.errors import APIError
from docker.types import IPAMConfig, IPAMPool

from tests.providers import unique
from tests.providers.certificates import certificate_made

# What a machine runs: names by UDP (each name's answers in turn), and on 80, 8080 and by TLS on
# 443 a web server that tells whose it is and what it was asked. All it sees goes to /tmp/seen.
MACHINE = r"""
import base64, hashlib, json, socket, socketserver, ssl, struct, sys, threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
me, names = sys.argv[1], json.loads(sys.argv[2])
turns, lock = {}, threading.Lock()

def saw(*words):
    with lock, open("/tmp/seen", "a") as seen:
        seen.write(" ".join(map(str, words)) + "\n")

class Names(socketserver.BaseRequestHandler):
    def handle(self):
        data, wire = self.request
        labels, at = [], 12
        while data[at]:
            labels.append(data[at + 1 : at + 1 + data[at]].decode("latin-1"))
            at += 1 + data[at]
        name, kind = ".".join(labels).lower(), struct.unpack(">H", data[at + 1 : at + 3])[0]
        saw("dns", name, kind)
        answers = names.get(name, [])
        turn = turns[name, kind] = turns.get((name, kind), -1) + 1
        found = [answers[turn % len(answers)]] if answers else []
        family = {1: socket.AF_INET, 28: socket.AF_INET6}.get(kind)
        found = [one for one in found if (":" in one) == (kind == 28)] if family else []
        head = data[:2] + struct.pack(">HHHHH", 0x8180, 1, len(found), 0, 0)
        packed = [socket.inet_pton(family, one) for one in found]
        records = [b"\xc0\x0c" + struct.pack(">HHIH", kind, 1, 0, len(one)) + one for one in packed]
        wire.sendto(head + data[12 : at + 5] + b"".join(records), self.client_address)

class Web(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self):
        saw("web", self.headers.get("Host"), self.path)
        path, _, rest = self.path.partition("?")
        if path == "/socket":
            self.send_response(101)
            key = self.headers["Sec-WebSocket-Key"] + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
            accept = base64.b64encode(hashlib.sha1(key.encode()).digest()).decode()
            self.send_header("Sec-WebSocket-Accept", accept)
            self.send_header("Upgrade", "websocket")
            self.send_header("Connection", "Upgrade")
            self.end_headers()
            self.wfile.write(self.connection.recv(100).upper())
            self.close_connection = True
        elif path == "/redirect":
            self.send_response(302)
            self.send_header("Location", rest)
            self.send_header("Content-Length", "0")
            self.end_headers()
        else:
            count = int(rest) if path == "/big" else 0
            name = getattr(self.connection, "name", "")
            text = json.dumps({"me": me, "host": self.headers.get("Host"), "sni": name}).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(text) + count))
            self.end_headers()
            self.wfile.write(text)
            for _ in range(count // 65536):
                self.wfile.write(bytes(65536))

    def do_POST(self):
        left = size = int(self.headers["Content-Length"])
        while left:
            left -= len(self.rfile.read(min(left, 65536)))
        self.send_response(200)
        self.send_header("Content-Length", str(len(str(size))))
        self.end_headers()
        self.wfile.write(str(size).encode())

    def log_message(self, *_):
        pass

def serve(server):
    threading.Thread(target=server.serve_forever).start()

serve(socketserver.ThreadingUDPServer(("", 53), Names))
for port in (80, 8080):
    serve(ThreadingHTTPServer(("", port), Web))
context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
context.load_cert_chain("/tmp/pem")
context.sni_callback = lambda wire, name, _: setattr(wire, "name", name or "")
safe = ThreadingHTTPServer(("", 443), Web)
safe.socket = context.wrap_socket(safe.socket, server_side=True, do_handshake_on_connect=False)
serve(safe)
saw("ready")
"""


@dataclass
class Internet:
    """What a test knows of it: the network, and who is where. `good` answers names, too."""

    network: str
    good: str
    bad: str
    host: str
    engine: docker.APIClient
    machines: dict[str, str]

    def seen(self, machine: str = "good") -> list[str]:
        """Return what came to a machine, in order."""
        return self._run(machine, "cat", "/tmp/seen").splitlines()

    def _run(self, machine: str, *argv: str) -> str:
        asked = self.engine.exec_create(self.machines[machine], list(argv))
        output: bytes = self.engine.exec_start(asked["Id"])
        return output.decode()


@contextmanager
def internet(image: str, names: Mapping[str, list[str]]) -> Iterator[Internet]:
    """Give an internet; `good`, `bad` and `host` among the answers stand for their addresses."""
    with closing(docker.APIClient(version="auto")) as engine:
        name = unique("omniweb-test-internet")
        subnet = _network(engine, name)
        world = Internet(name, str(subnet[2]), str(subnet[3]), str(subnet[1]), engine, {})
        try:
            known = {"good": world.good, "bad": world.bad, "host": world.host}
            told = {n: [known.get(one, one) for one in those] for n, those in names.items()}
            for machine in ("good", "bad"):
                world.machines[machine] = _machine(world, machine, image, told)
            for machine in world.machines:
                while "ready" not in world.seen(machine):
                    pass
            yield world
        finally:
            for machine in world.machines.values():
                engine.remove_container(machine, force=True, v=True)
            for left in engine.inspect_network(name)["Containers"] or ():
                with suppress(APIError):
                    engine.disconnect_container_from_network(left, name, force=True)
            engine.remove_network(name)


def _network(engine: docker.APIClient, name: str) -> IPv4Network:
    blocks = [IPv4Network(one) for one in ("192.0.2.0/24", "198.51.100.0/24", "203.0.113.0/24")]
    free = [subnet for block in blocks for subnet in block.subnets(new_prefix=28)]
    random.shuffle(free)
    for subnet in free:
        pool = IPAMPool(subnet=str(subnet), gateway=str(subnet[1]))
        with suppress(APIError):
            engine.create_network(name, ipam=IPAMConfig(pool_configs=[pool]), check_duplicate=True)
            return subnet
    raise RuntimeError("no block of addresses is free")


def _machine(world: Internet, machine: str, image: str, names: Mapping[str, list[str]]) -> str:
    address = {"good": world.good, "bad": world.bad}[machine]
    endpoint: Any = {world.network: world.engine.create_endpoint_config(ipv4_address=address)}
    container: str = world.engine.create_container(
        image,
        ["python3", "-c", MACHINE, machine, json.dumps(names)],
        networking_config=world.engine.create_networking_config(endpoint),
        host_config=world.engine.create_host_config(network_mode=world.network, init=True),
    )["Id"]
    world.engine.put_archive(container, "/tmp", _file("pem", certificate_made()))
    world.engine.start(container)
    return container


def _file(name: str, text: str) -> bytes:
    held = io.BytesIO()
    with tarfile.open(fileobj=held, mode="w") as archive:
        entry: Any = tarfile.TarInfo(name)
        entry.size = len(text)
        archive.addfile(entry, io.BytesIO(text.encode()))
    return held.getvalue()
