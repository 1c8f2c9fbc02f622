"""File routes reach the working directory and nothing else, whatever a path says."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

import httpx
import pytest

from tests.server import Server

OUTSIDE = "kept outside\n"


@dataclass(frozen=True)
class Place:
    """A run on this machine: its folder, what lies beside it, and a client of its agent."""

    agent: httpx.Client
    run: str
    home: Path
    secret: Path

    def url(self, door: str, path: str) -> str:
        """Return a file's address, the path percent-encoded byte for byte."""
        start = {"api": "/api/v1/runs", "protocol": "/sandbox/v1/sessions"}[door]
        encoded = quote(path.encode("utf-8", "surrogatepass"), safe="")
        return f"{start}/{self.run}/files?path={encoded}"

    def execute(self, line: str) -> str:
        """Run a shell line in the folder; return what it printed."""
        body = {"command": ["sh", "-c", line]}
        answer = self.agent.post(f"/sandbox/v1/sessions/{self.run}/exec", json=body).json()
        assert answer["exit_code"] == 0, answer
        return str(answer["stdout"])


@pytest.fixture(scope="module")
def place(server: Server, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    base = tmp_path_factory.mktemp("paths")
    home, secret = base / "home", base / "home-secret" / "key"
    home.mkdir()
    secret.parent.mkdir()
    secret.write_text(OUTSIDE)
    server.policy("free", "name: free\nmode: permissive\nrules: {}\n")
    with server.client(server.admin_token) as admin:
        manifest = {"working_dir": str(home), "network_policy": {"default": "allow"}}
        body = {"name": "paths", "provider": "local", "manifest": manifest}
        made = admin.post("/api/v1/environments", json=body)
        assert made.status_code == 201, made.text
    with server.client(server.agent_made("path-bot", "free", environment="paths")) as agent:
        run = agent.post("/api/v1/runs", json={}).json()["id"]
        place = Place(agent, run, home, secret)
        place.execute(
            "mkdir -p inside && echo good > inside/file && ln -s / root && ln -s ../home-secret out"
            " && ln -s inside/file link && ln -s /etc/passwd passwd && mkfifo pipe"
            " && ln -s loop loop && ln -s /proc/self/environ environ && ln -s ../new-file dangling"
        )
        yield place


def beyond(place: Place) -> dict[str, str]:
    """Return paths that lead out of the folder, or that no file can be at, by what they try."""
    return {
        "parent": "../home-secret/key",
        "parent of a folder": "inside/../../home-secret/key",
        "encoded": "%2e%2e/home-secret/key",
        "encoded twice": "%252e%252e/home-secret/key",
        "encoded slash": "..%2fhome-secret%2fkey",
        "backslash": "..\\home-secret\\key",
        "absolute": str(place.secret),
        "absolute with parent": f"{place.home}/../home-secret/key",
        "two slashes": f"//{place.secret}",
        "same beginning": f"{place.home}-secret/key",
        "link to a folder": "out/key",
        "link to the root": f"root{place.secret}",
        "link to a file": "passwd",
        "link to a device of sorts": "environ",
        "loop": "loop",
        "device": "root/dev/zero",
        "null": "inside/file\0.txt",
        "null alone": "\0",
        "empty": "",
        "itself": ".",
        "folder": "inside",
        "folder with slash": "inside/",
        "file as folder": "inside/file/deeper",
        "pipe": "pipe",
        "long name": "a" * 300,
        "long path": "a/" * 3000 + "a",
        "home": "~/.ssh/id_rsa",
        "address": "file:///etc/passwd",
        "full-width dots": "\uff0e\uff0e/home-secret/key",
        "dot leaders": "\u2025/home-secret/key",
        "no text": "\udcff\udcfe/\ud83d",
    }


@pytest.mark.parametrize("door", ["api", "protocol"])
def test_nothing_outside_is_read(place: Place, door: str) -> None:
    wrong = []
    for name, path in beyond(place).items():
        answer = place.agent.get(place.url(door, path), timeout=20)
        if answer.content == b"evil":
            continue  # a name inside, however odd, that the other test has written
        if answer.status_code not in (404, 413, 422) or OUTSIDE in answer.text:
            wrong.append(f"{name}: {answer.status_code} {answer.text[:200]}")
        elif answer.headers["content-type"] != "application/problem+json":
            wrong.append(f"{name}: {answer.headers['content-type']}")
    assert not wrong


@pytest.mark.parametrize("door", ["api", "protocol"])
def test_nothing_outside_is_written(place: Place, door: str) -> None:
    before = listed(place.home.parent, without=place.home)
    passwd = Path("/etc/passwd").read_bytes()
    wrong = []
    for name, path in (beyond(place) | {"dangling link": "dangling"}).items():
        answer = place.agent.put(place.url(door, path), content=b"evil", timeout=20)
        # What names a file of the folder after all, however odd, may be written there.
        if answer.status_code not in (204, 404, 409, 413, 422):
            wrong.append(f"{name}: {answer.status_code} {answer.text[:200]}")
    assert not wrong
    assert listed(place.home.parent, without=place.home) == before
    assert place.secret.read_text() == OUTSIDE
    assert Path("/etc/passwd").read_bytes() == passwd


def listed(folder: Path, *, without: Path) -> dict[str, bytes]:
    found = [path for path in folder.rglob("*") if path.is_file() and not path.is_symlink()]
    return {str(path): path.read_bytes() for path in found if without not in path.parents}


@pytest.mark.parametrize("door", ["api", "protocol"])
@pytest.mark.parametrize(
    "name",
    [
        "a b",
        "-rf",
        "$(id)",
        "a;id",
        "%41",
        "ünïcödé",
        "u\u0308ni",
        "\u202egpj.exe",
        "line\nfeed",
        "return\r\nSet-Cookie: a=b",
        "\x1b[31mred",
        "quote'\"",
    ],
)
def test_an_odd_name_is_a_name_and_nothing_more(place: Place, door: str, name: str) -> None:
    url = place.url(door, f"{door}/{name}")
    written = place.agent.put(url, content=b"here")
    assert written.status_code in (204, 422)
    if written.status_code == 422:
        return
    answer = place.agent.get(url)
    assert (answer.status_code, answer.content) == (200, b"here")
    assert "set-cookie" not in answer.headers
    assert (place.home / door / name).read_bytes() == b"here"


def test_a_link_that_is_swapped_in_meanwhile_leads_nowhere(place: Place) -> None:
    swap = "i=0; while [ $i -lt 3000 ]; do ln -sfn ../home-secret turn; ln -sfn inside turn; i=$((i+1)); done"
    body = {"command": swap}
    made = place.agent.post(f"/api/v1/runs/{place.run}/executions", json=body).json()
    for _ in range(30):
        for path in ("turn/key", "turn/new"):
            answer = place.agent.get(place.url("api", path))
            assert answer.status_code in (200, 404, 409, 422)
            assert OUTSIDE not in answer.text
            place.agent.put(place.url("api", path), content=b"evil")
    place.agent.post(f"/api/v1/executions/{made['id']}/cancel")
    assert place.secret.read_text() == OUTSIDE
    assert not (place.secret.parent / "new").exists()
