"""Whether a sandbox that must not reach the internet does so all the same, tried from inside it.

Pure: what to run, how to read what it printed, and the words for it. An account or a plan may not
enforce what its API takes. A connection proves nothing, because some firewalls take it before they
judge it: only an answer counts as reaching, a finished TLS handshake or the status line of HTTP.
And what could not be tried is no proof of isolation.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any, Literal

from sandboxes.manifest import NetworkDefault, NetworkPolicy
from sandboxes.providers import isolation_script

# For all targets together: each is given ANSWER_SECONDS, and they are tried at once.
TIME_LIMIT_SECONDS = 20.0
ANSWER_SECONDS = 4
METADATA = "the metadata address"
# A virtual machine monitor's own data service there: it is no network, and holds nobody's keys.
MONITOR = "Firecracker API"
OPTION = "verify_network_isolation"
_ACCEPT = f"set the sandbox option {OPTION}=false to accept an unchecked sandbox."


class Outcome(StrEnum):
    """What came of one target."""

    REACHED = "reached"
    BLOCKED = "blocked"
    UNKNOWN = "unknown"


class Verdict(StrEnum):
    """What is known of a sandbox's isolation.

    PROVEN: nothing that was tried from inside got an answer. REACHED and UNKNOWN are refused.
    UNCHECKED: an option switched the check off. PROMISED: the provider's word, not tried.
    """

    PROVEN = "proven"
    REACHED = "reached"
    UNKNOWN = "unknown"
    UNCHECKED = "unchecked"
    PROMISED = "promised"


@dataclass(frozen=True, kw_only=True)
class Target:
    """One way out to try: an address, and what would count as an answer from there.

    `http` asks for a status line, `tls` for a handshake, `dns` for a reply to a question by UDP,
    `resolve` for a name's address by whatever the sandbox has for that. Where a policy names
    allowed hosts, names have to be looked up, so `is_name` targets prove nothing then.
    """

    name: str
    how: Literal["http", "tls", "dns", "resolve"]
    host: str
    port: int = 0
    server_name: str = ""
    is_needed: bool = True

    @property
    def is_name(self) -> bool:
        """Whether it is about looking up names."""
        return self.how in ("dns", "resolve")


# By number, so that no name needs to be looked up; of several operators, because one may be down.
TARGETS = (
    Target(name="the web", how="http", host="1.1.1.1", port=80),
    Target(name="the web over TLS", how="tls", host="8.8.8.8", port=443, server_name="dns.google"),
    Target(name="the web over IPv6", how="http", host="2606:4700:4700::1111", port=80),
    Target(name="names", how="resolve", host="example.com"),
    Target(name="a name server", how="dns", host="9.9.9.9", port=53, is_needed=False),
    Target(name=METADATA, how="http", host="169.254.169.254", port=80),
)


@dataclass(frozen=True, kw_only=True)
class Line:
    """What came of one target, in the words of whatever tried it."""

    target: str
    address: str
    outcome: Outcome
    detail: str = ""


@dataclass(frozen=True, kw_only=True)
class Evidence:
    """A verdict and what it rests on; `tool` is what tried it inside the sandbox."""

    verdict: Verdict
    tool: str = ""
    lines: tuple[Line, ...] = ()
    reason: str = ""

    def to_dict(self) -> dict[str, Any]:
        """Return it as JSON, as rows and steps keep it."""
        return asdict(self) | {"lines": [asdict(line) for line in self.lines]}

    @classmethod
    def from_dict(cls, fields: Mapping[str, Any]) -> Evidence | None:
        """Return what `to_dict` wrote; None for a row that has none."""
        if not fields:
            return None
        lines = [Line(**{**line, "outcome": Outcome(line["outcome"])}) for line in fields["lines"]]
        return cls(
            verdict=Verdict(fields["verdict"]),
            tool=fields["tool"],
            lines=tuple(lines),
            reason=fields["reason"],
        )


def is_required(policy: NetworkPolicy) -> bool:
    """Say whether a policy denies anything that could be tried: all, or all but some hosts."""
    return policy.default is NetworkDefault.DENY


def targets_for(policy: NetworkPolicy, targets: Iterable[Target] = TARGETS) -> tuple[Target, ...]:
    """Return the targets that a policy denies."""
    return tuple(
        target
        for target in targets
        if not any(_covers(pattern, target) for pattern in policy.allowed_hosts)
    )


def argv(targets: Sequence[Target], seconds: int = ANSWER_SECONDS) -> tuple[str, ...]:
    """Return the command that tries them all at once with whatever the sandbox has for it."""
    asked = [
        "|".join((target.how, target.host, str(target.port), target.server_name))
        for target in targets
    ]
    return (
        "sh", "-c", isolation_script.SHELL, isolation_script.PYTHON, str(seconds), *asked,
    )  # fmt: skip


def read(
    targets: Sequence[Target], code: int, printed: bytes, *, are_names_allowed: bool = False
) -> Evidence:
    """Return what the command's exit code and output say.

    Reached is whatever answered. Proven is only what was tried in full: the tool worked, and every
    target that is needed was tried without an answer.
    """
    told = dict(_told(printed))
    tool, _, trouble = told.pop("tool", "").partition("\t")
    lines = tuple(_line(target, told.get(str(n), "")) for n, target in enumerate(targets))
    reached = [
        line
        for line, target in zip(lines, targets, strict=True)
        if line.outcome is Outcome.REACHED and not (are_names_allowed and target.is_name)
    ]
    untried = [
        line.target
        for line, target in zip(lines, targets, strict=True)
        if line.outcome is Outcome.UNKNOWN and target.is_needed
    ]
    if reached:
        verdict, reason = Verdict.REACHED, ", ".join(line.target for line in reached)
    elif not tool:
        verdict = Verdict.UNKNOWN
        reason = trouble or (
            "the image has nothing to try it with" if code == 0 else f"the check ended with {code}"
        )
    elif code != 0:
        verdict, reason = Verdict.UNKNOWN, f"the check ended with {code}"
    elif untried:
        verdict, reason = Verdict.UNKNOWN, f"{tool} could not try {', '.join(untried)}"
    else:
        verdict, reason = Verdict.PROVEN, ""
    return Evidence(verdict=verdict, tool=tool, lines=lines, reason=reason)


def read_routes(printed: bytes) -> Evidence:
    """Return what the kernel's own tables in a sandbox say: /proc/net/dev, route and ipv6_route.

    Where there is no way to anything but loopback, nothing needs to be tried. Tunnels that a kernel
    puts into every namespace have no route.
    """
    devices, routes = set(), set()
    for line in printed.decode("utf-8", "replace").splitlines():
        fields = line.split()
        if found := re.match(r"\s*([^\s:|]+):\s*\d", line):
            devices.add(found[1])
        elif len(fields) >= 8 and re.fullmatch(r"[0-9A-F]{8}", fields[1]):
            routes.add(fields[0])
        elif len(fields) == 10 and re.fullmatch(r"[0-9a-f]{32}", fields[0]):
            routes.add(fields[9])
    if "lo" not in devices:
        return Evidence(verdict=Verdict.PROMISED, reason="the sandbox does not show its devices")
    out = sorted(routes - {"lo"})
    lines = (
        _table("network devices", "/proc/net/dev", sorted(devices), is_way_out=False),
        _table("routes", "/proc/net/route, ipv6_route", out, is_way_out=bool(out)),
    )
    verdict = Verdict.REACHED if out else Verdict.PROVEN
    return Evidence(verdict=verdict, tool="the kernel's tables", lines=lines, reason=", ".join(out))


def _table(name: str, path: str, found: list[str], *, is_way_out: bool) -> Line:
    outcome = Outcome.REACHED if is_way_out else Outcome.BLOCKED
    detail = ", ".join(found) or "none but loopback"
    return Line(target=name, address=path, outcome=outcome, detail=detail)


def refusal(provider: str, evidence: Evidence) -> str:
    """Return the sentence that refuses a sandbox (requirement document 1, "When things go wrong")."""
    if evidence.verdict is Verdict.REACHED:
        return (
            f"The {provider} sandbox was created with no network access, but it still reached the "
            "internet: this account or plan does not enforce network isolation. Use a provider "
            f"that does, allow the network in the manifest if the work needs it, or {_ACCEPT}"
        )
    return (
        f"The {provider} sandbox's network could not be checked: {evidence.reason}. Use an image "
        f"that has python3, or bash, curl, wget or nc, or {_ACCEPT}"
    )


def _covers(pattern: str, target: Target) -> bool:
    names = {target.host, target.server_name} - {""}
    if pattern.startswith("*."):
        return any(name.endswith(pattern[1:]) for name in names)
    return pattern in names


def _told(printed: bytes) -> Iterator[tuple[str, str]]:
    for line in printed.decode("utf-8", "replace").splitlines():
        key, found, rest = line.partition("\t")
        if found:
            yield key, rest


def _line(target: Target, told: str) -> Line:
    word, _, detail = told.partition("\t")
    outcome = Outcome(word) if word in set(Outcome) else Outcome.UNKNOWN
    # Anybody else may call itself that.
    if outcome is Outcome.REACHED and target.name == METADATA and MONITOR in detail:
        outcome = Outcome.BLOCKED
        detail = f"the sandbox's own virtual machine monitor answered ({MONITOR})"
    host = f"[{target.host}]" if ":" in target.host else target.host
    return Line(
        target=target.name,
        address=f"{host}:{target.port}" if target.port else host,
        outcome=outcome,
        detail=detail[:200] or ("not tried" if outcome is Outcome.UNKNOWN else "no answer"),
    )
