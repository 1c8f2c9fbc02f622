"""What an egress gateway is told: a network policy as the files that HAProxy and Knot DNS read.

Pure. A sandbox with host lists has one neighbour and no other way out: its gateway. Knot answers
every name the policy allows with the gateway's own address and asks nobody, so a question never
leaves. HAProxy reads whom a connection is for, the server name of TLS or the Host of HTTP, judges
that name, looks it up and goes to the one public address it then has. Host names are only ever
lines of lists and owners in a zone, never part of a configuration.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from ipaddress import IPv4Address
from typing import Any

from omniweb.core.errors import Problem
from sandboxes.manifest import Manifest, NetworkDefault, NetworkPolicy
from sandboxes.providers.isolation import TARGETS, Target

FOLDER = "/etc/omniweb-gateway"
# Every port the gateway listens on, at its address inside.
PORTS = (53, 80, 443)
# Ends when either of the two does: half a gateway is none.
COMMAND = (
    "bash", "-c", f"knotd -c {FOLDER}/knot.conf & haproxy -db -f {FOLDER}/haproxy.cfg & wait -n",
)  # fmt: skip
LONGEST_NAME = 253
GVISOR = "runsc"
# How a number may be written where a name is meant: inet_aton reads octal and hexadecimal, too.
_NUMBER = re.compile(r"(^|[.])(0x[0-9a-f]*|[0-9]+)$")

# Addresses that are no host's on the internet, and the one public address at which a cloud
# answers its guests. HAProxy reads an IPv4-mapped address as the IPv4 address in it.
NOT_PUBLIC = (
    "0.0.0.0/8", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "168.63.129.16", "169.254.0.0/16",
    "172.16.0.0/12", "192.0.0.0/24", "192.88.99.0/24", "192.168.0.0/16", "198.18.0.0/15",
    "224.0.0.0/3",
)  # fmt: skip

_HAPROXY = """\
global
    maxconn 1000
    nbthread 2
    log stdout format raw local0

defaults
    log global
    timeout connect 10s
    timeout client 1h
    timeout server 1h
    timeout tunnel 1h
    timeout http-request 30s
    timeout http-keep-alive 1m

resolvers upstream
{upstream}
    accepted_payload_size 4096
    resolve_retries 3
    timeout resolve 1s
    timeout retry 1s
{held}

frontend https
    mode tcp
    bind {address}:443
    log-format "https %[var(txn.name),json] %[var(txn.address)] %ts"
    tcp-request inspect-delay 10s
    tcp-request content reject unless {{ req.ssl_hello_type 1 }}
    tcp-request content set-var(txn.name) req.ssl_sni,lower,regsub([.]$,)
{by_server_name}
    default_backend https

backend https
    mode tcp
    server internet 0.0.0.0:443

frontend http
    mode http
    bind {address}:80
    log-format "http %[var(txn.name),json] %[var(txn.address)] %ST"
    option disable-h2-upgrade
    http-request deny deny_status 400 unless {{ req.fhdr_cnt(host) 1 }} {{ url_beg / }}
    http-request set-var(txn.name) req.fhdr(host),lower,regsub(:80$,),regsub([.]$,)
{by_host}
    default_backend http

backend http
    mode http
    option http-server-close
    http-reuse never
    server internet 0.0.0.0:80
"""

_KNOT = """\
server:
    rundir: /tmp
    listen: {address}@53
    udp-workers: 1
    tcp-workers: 1
    background-workers: 1
    tcp-max-clients: 64
    identity: ""
    version: ""
database:
    storage: /tmp
log:
  - target: stderr
    any: error
zone:
  - domain: .
    storage: {folder}
    file: zone
    journal-content: none
    zonefile-sync: -1
"""

_ZONE = """\
$TTL 60
. SOA gateway.invalid. gateway.invalid. 1 3600 600 86400 60
. NS gateway.invalid.
"""
_DENIED = 403, "The network policy of this sandbox does not allow this host."
_NOWHERE = 502, "The gateway of this sandbox finds no IPv4 address for this host."
_INSIDE = 403, "This host has an address that is not public, to which no gateway leads."


def is_needed(policy: NetworkPolicy) -> bool:
    """Say whether a policy lets some hosts through and not others."""
    if policy.default is NetworkDefault.ALLOW:
        return bool(policy.denied_hosts)
    return bool(policy.allowed_hosts)


def problems(options: Mapping[str, Any], manifest: Manifest) -> list[Problem]:
    """Return what of a manifest's host lists no gateway can keep, one problem for each list."""
    policy = manifest.network_policy
    if not is_needed(policy):
        return []
    lists = {"allowed_hosts": policy.allowed_hosts, "denied_hosts": policy.denied_hosts}
    told = {name: _problem(name, hosts, options) for name, hosts in lists.items() if hosts}
    return [
        Problem(path=f"manifest.network_policy.{name}", message=message)
        for name, message in told.items()
        if message
    ]


def no_gvisor(name: str) -> str:
    """Return why host lists and gVisor do not go together."""
    return (
        f"The docker sandbox does not enforce {name} with gVisor, which does not reach the name "
        "server that Docker gives a container: leave the option runtime unset, or use "
        "network_policy default 'deny' or 'allow' without host lists"
    )


def _problem(name: str, hosts: Sequence[str], options: Mapping[str, Any]) -> str:
    if options.get("runtime") == GVISOR:
        return no_gvisor(name)
    numbers = [host for host in hosts if _NUMBER.search(host)]
    if not numbers:
        return ""
    return (
        f"The docker sandbox enforces {name} by host name, and {numbers[0]} is an address: "
        "write the name of the host"
    )


def is_allowed(policy: NetworkPolicy, name: str) -> bool:
    """Say whether a host may be reached; a denied name wins over an allowed one."""
    if _is_among(name, policy.denied_hosts):
        return False
    return policy.default is NetworkDefault.ALLOW or _is_among(name, policy.allowed_hosts)


def files(
    policy: NetworkPolicy, address: IPv4Address, name_servers: Iterable[IPv4Address]
) -> dict[str, str]:
    """Return the text of each file in FOLDER, for a gateway with that address inside.

    Without name servers it asks those that Docker gives its container.
    """
    upstream = [f"nameserver server{n} {one}:53" for n, one in enumerate(name_servers)]
    states = ("valid", "obsolete", "nx", "timeout", "refused", "other")
    lists = {
        "allowed": policy.allowed_hosts,
        "denied": policy.denied_hosts,
    }
    configuration = _HAPROXY.format(
        address=address,
        upstream=_lines(upstream or ["parse-resolv-conf"]),
        # What a name was a second ago; long enough for nothing but one connection.
        held=_lines(f"hold {state} 1s" for state in states),
        by_server_name=_lines(_judged(policy, "tcp-request content", lambda *_: "reject")),
        by_host=_lines(_judged(policy, "http-request", _answer)),
    )
    return {
        "haproxy.cfg": configuration,
        "not-public": "\n".join(NOT_PUBLIC) + "\n",
        "knot.conf": _KNOT.format(address=address, folder=FOLDER),
        "zone": zone(policy, address),
        **{name: _listed(one for one in hosts if one[0] != "*") for name, hosts in lists.items()},
        **{
            f"{name}-below": _listed(one[1:] for one in hosts if one[0] == "*")
            for name, hosts in lists.items()
        },
    }


def zone(policy: NetworkPolicy, address: IPv4Address) -> str:
    """Return a root zone in which exactly the allowed names have an address.

    The patterns are what DNS calls wildcards: a name that is not there is answered by the wildcard
    of its nearest ancestor that is. So each pattern's name and its ancestors are there, each with
    its own verdict and one for what is below, and the verdict of none reaches past the next.
    """
    lines = [_ZONE]
    for node in _nodes((*policy.allowed_hosts, *policy.denied_hosts)):
        # No pattern's own name, so it stands for any that is not there.
        below = f"*.{node}" if node else "*"
        if node:
            verdict = f"A {address}" if is_allowed(policy, node) else 'TXT "not allowed"'
            lines.append(f"{node}. {verdict}\n")
        if is_allowed(policy, below) and len(below) <= LONGEST_NAME:
            lines.append(f"{below}. A {address}\n")
    return "".join(lines)


def targets(policy: NetworkPolicy, address: str) -> tuple[Target, ...]:
    """Return what must not answer in a sandbox behind a gateway: other ways out, and a denied name.

    The gateway does answer a denied host over HTTP, with the words that refuse it.
    """
    denied = next(filter(lambda name: not is_allowed(policy, name), _examples(policy)), "")
    numbers = tuple(target for target in TARGETS if target.how != "resolve")
    if not denied:
        return numbers
    return (
        *numbers,
        Target(name="the name of a denied host", how="resolve", host=denied),
        Target(
            name="a denied host through the gateway",
            how="tls",
            host=address,
            port=443,
            server_name=denied,
        ),
    )


def _examples(policy: NetworkPolicy) -> Iterator[str]:
    """Yield names that a policy could deny."""
    for pattern in policy.denied_hosts:
        yield pattern.replace("*", "www", 1)
    yield from ("example.com", "example.net", "not-allowed.invalid")


def _judged(policy: NetworkPolicy, rule: str, refusal: Callable[[int, str], str]) -> Iterator[str]:
    """Yield the rules of a frontend that lead txn.name to its one address, or end there."""
    name, found, no = "var(txn.name)", "var(txn.address)", refusal(*_DENIED)
    # A name is no number, however written, and has no character that names do not have.
    yield f"{rule} {no} unless {{ {name} -m found }}"
    yield f"{rule} {no} if {{ {name} -m reg [^a-z0-9._-]|^[.]|[.][.]|[.]$|^$ }}"
    yield f"{rule} {no} if {{ {name} -m reg {_NUMBER.pattern} }}"
    if policy.denied_hosts:
        yield f"{rule} {no} if {{ {name} -m str -f {FOLDER}/denied }}"
        yield f"{rule} {no} if {{ {name} -m end -f {FOLDER}/denied-below }}"
    if policy.default is NetworkDefault.DENY:
        listed = f"{{ {name} -m str -f {FOLDER}/allowed }}"
        below = f"{{ {name} -m end -f {FOLDER}/allowed-below }}"
        yield f"{rule} {no} unless {listed} or {below}"
    yield f"{rule} do-resolve(txn.address,upstream,ipv4) {name}"
    is_address = f"{{ {found} -m found }} {{ {found} -m ip 0.0.0.0/0 }}"
    yield f"{rule} {refusal(*_NOWHERE)} unless {is_address}"
    yield f"{rule} {refusal(*_INSIDE)} if {{ {found} -m ip -f {FOLDER}/not-public }}"
    yield f"{rule} set-dst {found}"


def _answer(code: int, words: str) -> str:
    return f'deny deny_status {code} content-type text/plain string "{words}\\n"'


def _nodes(patterns: Sequence[str]) -> list[str]:
    """Return the names of all patterns and all that is above them, the root ("") first."""
    nodes = {""}
    for pattern in patterns:
        name = pattern.removeprefix("*.")
        # What is longer is nobody's name, and no zone takes it.
        while name and len(name) <= LONGEST_NAME:
            nodes.add(name)
            name = name.partition(".")[2]
    return sorted(nodes)


def _is_among(name: str, patterns: Iterable[str]) -> bool:
    return any(
        name.endswith(pattern[1:]) if pattern[0] == "*" else name == pattern for pattern in patterns
    )


def _listed(names: Iterable[str]) -> str:
    return "".join(f"{name}\n" for name in names)


def _lines(lines: Iterable[str]) -> str:
    return "\n".join(f"    {line}" for line in lines)
