"""The proof of isolation, against servers on loopback that keep it, pretend to, and leak."""

from __future__ import annotations

import os
import shutil
import socket
import struct
import subprocess
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from omniweb.core.errors import SandboxUnsupported
from sandboxes.manifest import NetworkPolicy
from sandboxes.providers import isolation
from sandboxes.providers.isolation import Evidence, Outcome, Target, Verdict
from tests.providers.certificates import certificate_made
from tests.providers.walls import (
    ALERT,
    MONITOR,
    WEB,
    Walls,
    answer,
    closed_port,
    hold,
    web,
)

NOWHERE = "nowhere.invalid"
COMMON = "sh cat dd head od tr grep mktemp mkdir rm sleep tail kill getent"
# What tries it, by the programs the image has besides the common ones.
TOOLS = {"python": "python3", "bash": "bash", "curl": "curl", "wget": "wget"}


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A certificate of nobody, with its key."""
    path = tmp_path_factory.mktemp("tls") / "nobody.pem"
    path.write_text(certificate_made())
    return path


@pytest.fixture
def names() -> Iterator[int]:
    """A name server that answers every question."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as server:
        server.bind(("127.0.0.1", 0))

        def serve() -> None:
            while True:
                try:
                    question, sender = server.recvfrom(512)
                except OSError:
                    return
                server.sendto(question[:2] + struct.pack(">HHHHH", 0x8183, 1, 0, 0, 0), sender)

        threading.Thread(target=serve, daemon=True).start()
        yield server.getsockname()[1]


def image(folder: Path, programs: str) -> str:
    """Return a PATH with these programs only."""
    folder.mkdir(exist_ok=True)
    for program in programs.split():
        found = shutil.which(program)
        if found is None:
            pytest.skip(f"this machine has no {program}")
        real = os.path.realpath("/usr/bin/python3" if program == "python3" else found)
        if not Path(real).exists():
            pytest.skip("this machine has no /usr/bin/python3")
        (folder / program).symlink_to(real)
    return str(folder)


def tried(path: str, targets: list[Target]) -> Evidence:
    """Try targets with what a PATH has, as a sandbox would."""
    shell, *rest = isolation.argv(targets, seconds=2)
    assert shell == "sh"
    done = subprocess.run(
        ["/bin/sh", *rest],
        env={"PATH": path},
        capture_output=True,
        stdin=subprocess.DEVNULL,
        timeout=60,
        check=False,
    )
    return isolation.read(targets, done.returncode, done.stdout)


@pytest.fixture(params=TOOLS)
def tool(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[str, str]:
    """Each tool by its name, and a PATH that has no other."""
    return request.param, image(tmp_path / "bin", f"{COMMON} {TOOLS[request.param]}")


def test_where_nothing_is_reached_isolation_is_proven(tool: tuple[str, str]) -> None:
    targets = [
        web(closed_port()),
        Target(name="names", how="resolve", host=NOWHERE),
        Target(
            name="a name server", how="dns", host="127.0.0.1", port=closed_port(), is_needed=False
        ),
    ]
    evidence = tried(tool[1], targets)
    assert (evidence.verdict, evidence.tool, evidence.reason) == (Verdict.PROVEN, tool[0], "")
    assert evidence.lines[0].outcome is Outcome.BLOCKED
    assert "efused" in evidence.lines[0].detail or tool[0] in ("curl", "wget")


def test_a_firewall_that_takes_connections_and_answers_none_isolates(
    tool: tuple[str, str], listen: Callable[..., int]
) -> None:
    held = listen(hold)
    targets = [web(held), Target(name="TLS", how="tls", host="127.0.0.1", port=held)]
    assert tried(tool[1], targets).verdict is Verdict.PROVEN


def test_a_status_line_is_an_answer(tool: tuple[str, str], listen: Callable[..., int]) -> None:
    evidence = tried(tool[1], [web(closed_port(), "one"), web(listen(WEB), "two")])
    assert (evidence.verdict, evidence.reason) == (Verdict.REACHED, "two")
    assert evidence.lines[1].detail.split()[:2] == ["HTTP/1.1", "200"]


def test_an_answer_whose_connection_stays_open_is_one(
    tool: tuple[str, str], listen: Callable[..., int]
) -> None:
    def linger(wire: socket.socket) -> None:
        WEB(wire)
        hold(wire)

    assert tried(tool[1], [web(listen(linger))]).verdict is Verdict.REACHED


def test_other_bytes_than_https_are_none(tool: tuple[str, str], listen: Callable[..., int]) -> None:
    if tool[0] in ("curl", "wget"):
        pytest.skip("takes it for the HTTP of long ago, which only makes it refuse more")
    assert tried(tool[1], [web(listen(answer(b"go away\r\n")))]).verdict is Verdict.PROVEN


def test_a_tls_handshake_is_an_answer(
    tool: tuple[str, str], listen: Callable[..., int], certificate: Path
) -> None:
    port = listen(WEB, tls=certificate)
    evidence = tried(tool[1], [Target(name="TLS", how="tls", host="127.0.0.1", port=port)])
    assert (evidence.verdict, evidence.reason) == (Verdict.REACHED, "TLS")


def test_a_tls_alert_is_none(tool: tuple[str, str], listen: Callable[..., int]) -> None:
    port = listen(ALERT)
    evidence = tried(tool[1], [Target(name="TLS", how="tls", host="127.0.0.1", port=port)])
    assert evidence.verdict is Verdict.PROVEN


@pytest.mark.skipif(not socket.has_dualstack_ipv6(), reason="this machine has no IPv6")
def test_a_leak_by_ipv6_is_found(tool: tuple[str, str], listen: Callable[..., int]) -> None:
    leak = web(listen(WEB, host="::1"), "the web over IPv6", "::1")
    evidence = tried(tool[1], [web(closed_port()), leak])
    assert (evidence.verdict, evidence.reason) == (Verdict.REACHED, "the web over IPv6")
    assert evidence.lines[1].address.startswith("[::1]:")


def test_a_name_that_is_looked_up_is_a_leak(tool: tuple[str, str]) -> None:
    leak = Target(name="names", how="resolve", host="localhost")
    assert tried(tool[1], [web(closed_port()), leak]).reason == "names"


def test_a_name_server_that_answers_is_a_leak(tool: tuple[str, str], names: int) -> None:
    leak = Target(name="a name server", how="dns", host="127.0.0.1", port=names, is_needed=False)
    evidence = tried(tool[1], [web(closed_port()), leak])
    if tool[0] in ("python", "bash"):
        assert (evidence.verdict, evidence.reason) == (Verdict.REACHED, "a name server")
    else:
        # Names are tried by what the image has for them; this only adds to it.
        assert evidence.lines[1].outcome is Outcome.UNKNOWN


def test_a_metadata_service_that_answers_is_a_leak(
    tool: tuple[str, str], listen: Callable[..., int]
) -> None:
    leak = web(listen(WEB, host="127.0.0.2"), "the metadata address", "127.0.0.2")
    assert tried(tool[1], [web(closed_port()), leak]).reason == "the metadata address"


def test_the_monitors_own_data_service_is_no_leak(
    tool: tuple[str, str], listen: Callable[..., int]
) -> None:
    evidence = tried(tool[1], [web(listen(MONITOR), "the metadata address")])
    assert evidence.verdict is Verdict.PROVEN
    assert "virtual machine monitor answered" in evidence.lines[0].detail


def test_a_web_server_that_calls_itself_the_monitor_is_a_leak(
    tool: tuple[str, str], listen: Callable[..., int]
) -> None:
    evidence = tried(tool[1], [web(listen(MONITOR), "the web")])
    assert (evidence.verdict, evidence.reason) == (Verdict.REACHED, "the web")


def test_an_image_with_nothing_to_try_it_with_is_not_called_isolated(tmp_path: Path) -> None:
    evidence = tried(image(tmp_path / "bin", COMMON), [web(closed_port())])
    assert (evidence.verdict, evidence.tool) == (Verdict.UNKNOWN, "")
    assert evidence.reason == "the image has nothing that could try it"


def test_an_image_that_cannot_look_up_names_is_not_called_isolated(tmp_path: Path) -> None:
    programs = f"{COMMON} bash".replace(" getent", "")
    targets = [web(closed_port()), Target(name="names", how="resolve", host=NOWHERE)]
    evidence = tried(image(tmp_path / "bin", programs), targets)
    assert (evidence.verdict, evidence.reason) == (Verdict.UNKNOWN, "bash could not try names")


@pytest.mark.parametrize("program", ["python3", "bash", "curl"])
@pytest.mark.parametrize("does", ["exit 0", "exit 1", "exit 7", "echo connected", "kill -9 $$"])
def test_a_broken_program_proves_nothing(tmp_path: Path, program: str, does: str) -> None:
    path = image(tmp_path / "bin", COMMON)
    broken = Path(path, program)
    broken.write_text(f"#!/bin/sh\n{does}\n")
    broken.chmod(0o755)
    evidence = tried(path, [web(closed_port())])
    assert evidence.verdict is Verdict.UNKNOWN


@pytest.mark.parametrize("code", [1, 2, 124, 126, 127, 137, 255])
def test_a_check_that_does_not_end_well_proves_nothing(code: int) -> None:
    targets = [web(1)]
    whole = b"tool\tpython\t\n0\tblocked\trefused\n"
    assert isolation.read(targets, 0, whole).verdict is Verdict.PROVEN
    for printed in (b"", whole):
        assert isolation.read(targets, code, printed).verdict is Verdict.UNKNOWN
    assert isolation.read(targets, 0, b"tool\tpython\t\n").verdict is Verdict.UNKNOWN


def test_what_was_reached_counts_even_when_the_check_was_cut_off() -> None:
    printed = b"tool\tpython\t\n0\treached\tHTTP/1.1 200 OK\n"
    assert isolation.read([web(1), web(2)], 137, printed).verdict is Verdict.REACHED


def test_with_allowed_hosts_only_what_is_not_allowed_is_tried() -> None:
    policy = NetworkPolicy(allowed_hosts=("*.google", "example.com", "9.9.9.9"))
    left = {target.name for target in isolation.targets_for(policy)}
    everything = {target.name for target in isolation.TARGETS}
    assert everything - left == {"the web over TLS", "names", "a name server"}


def test_with_allowed_hosts_names_may_be_looked_up() -> None:
    targets = [web(1), Target(name="names", how="resolve", host=NOWHERE)]
    printed = b"tool\tpython\t\n0\tblocked\t\n1\treached\tis 127.0.0.1\n"
    assert isolation.read(targets, 0, printed).verdict is Verdict.REACHED
    evidence = isolation.read(targets, 0, printed, are_names_allowed=True)
    assert evidence.verdict is Verdict.PROVEN
    assert evidence.lines[1].outcome is Outcome.REACHED


def test_evidence_is_kept_whole() -> None:
    evidence = isolation.read([web(1)], 0, b"tool\tbash\t\n0\tblocked\trefused\n")
    assert Evidence.from_dict(evidence.to_dict()) == evidence
    assert Evidence.from_dict({}) is None


# The kernel's own tables

DEVICES = "Inter-|  Receive\n face |bytes\n    lo:       0       0    0\n"
ROUTES = "Iface\tDestination\tGateway \tFlags\n"


@pytest.mark.parametrize(
    ("tables", "verdict", "reason"),
    [
        (DEVICES + ROUTES, Verdict.PROVEN, ""),
        (f"{DEVICES}{ROUTES}{'0' * 32} 00 {'0' * 32} 00 {'0' * 32} ffffffff 1 0 00200200 lo\n", Verdict.PROVEN, ""),
        (f"{DEVICES} tunl0:       0       0\n{ROUTES}", Verdict.PROVEN, ""),
        (
            f"{DEVICES} eth0:     200       2\n{ROUTES}eth0\t00000000\t010011AC\t0003\t0\t0\t0\t00000000\t0\t0\t0\n",
            Verdict.REACHED,
            "eth0",
        ),
        (f"{DEVICES}{ROUTES}{'0' * 32} 00 {'0' * 32} 00 fe80{'0' * 28} 00000400 1 0 00000003 eth1\n", Verdict.REACHED, "eth1"),
        ("", Verdict.PROMISED, "the sandbox does not show its devices"),
    ],
)  # fmt: skip
def test_the_kernels_tables_say_whether_there_is_a_way_out(
    tables: str, verdict: Verdict, reason: str
) -> None:
    evidence = isolation.read_routes(tables.encode())
    assert (evidence.verdict, evidence.reason) == (verdict, reason)


# What a provider does with it


def test_a_sandbox_that_reaches_something_is_ended_and_refused(
    tmp_path: Path, outside: Callable[..., None], listen: Callable[..., int]
) -> None:
    outside(web(listen(WEB)))
    provider = Walls(tmp_path)
    with pytest.raises(SandboxUnsupported) as refused:
        provider.open()
    assert refused.value.detail == (
        "The walls sandbox was created with no network access, but it still reached the internet: "
        "this account or plan does not enforce network isolation. Use a provider that does, allow "
        "the network in the manifest if the work needs it, or set the sandbox option "
        "verify_network_isolation=false to accept an unchecked sandbox."
    )
    assert refused.value.extra["evidence"]["verdict"] == "reached"
    assert provider.ended == 1


def test_a_sandbox_that_cannot_be_tried_is_ended_and_refused(
    tmp_path: Path, outside: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    outside(web(closed_port()))
    monkeypatch.setenv("PATH", image(tmp_path / "bin", COMMON))
    provider = Walls(tmp_path)
    with pytest.raises(SandboxUnsupported) as refused:
        provider.open()
    assert refused.value.detail == (
        "The walls sandbox's network could not be checked: the image has nothing that could try "
        "it. Use an image that has python3, or bash, curl, wget or nc, or set the sandbox option "
        "verify_network_isolation=false to accept an unchecked sandbox."
    )
    assert provider.ended == 1


def test_a_sandbox_that_reaches_nothing_is_made_with_its_proof(
    tmp_path: Path, outside: Callable[..., None]
) -> None:
    outside(web(closed_port()))
    provider = Walls(tmp_path)
    live = provider.open()
    assert live.isolation is not None
    assert (live.isolation.verdict, provider.ended) == (Verdict.PROVEN, 0)


def test_the_check_can_be_switched_off_and_that_is_told(
    tmp_path: Path, outside: Callable[..., None], listen: Callable[..., int]
) -> None:
    outside(web(listen(WEB)))
    live = Walls(tmp_path, verify_network_isolation=False).open()
    assert live.isolation is not None
    assert live.isolation.verdict is Verdict.UNCHECKED


def test_where_the_network_is_on_nothing_is_tried(
    tmp_path: Path, outside: Callable[..., None], listen: Callable[..., int]
) -> None:
    outside(web(listen(WEB)))
    assert Walls(tmp_path).open(default="allow").isolation is None
