"""Whether a new sandbox that must not reach the internet does so all the same.

An account or a plan may not enforce what its API takes. A connection alone proves nothing: some
firewalls take it before they judge it, so only an answer counts as reaching; and a check that could
not be made is no proof of isolation.
"""

from __future__ import annotations

from omniweb.core.errors import SandboxUnsupported
from sandboxes.manifest import NetworkDefault, NetworkPolicy
from sandboxes.providers.pump import Output
from sandboxes.providers.shell import ShellSandbox

REACHED, ISOLATED, NO_PYTHON = 10, 11, 127
# By number, so that no name needs to be looked up; two, because one may be down.
ADDRESSES = ("1.1.1.1", "8.8.8.8")
_ASK = """
import socket, sys
def answers(address):
    try:
        with socket.create_connection((address, 80), 4) as connection:
            connection.settimeout(4)
            connection.sendall(b"HEAD / HTTP/1.0\\r\\nHost: " + address.encode() + b"\\r\\n\\r\\n")
            return connection.recv(5) == b"HTTP/"
    except OSError:
        return False
sys.exit(10 if any(map(answers, sys.argv[1:])) else 11)
"""
_SCRIPT = """
for python in python3 python; do
  if command -v "$python" > /dev/null; then exec "$python" -c "$0" "$@"; fi
done
exit 127
"""
_ACCEPT = "set the sandbox option verify_network_isolation=false to accept an unchecked sandbox."


def check_isolation(name: str, sandbox: ShellSandbox, policy: NetworkPolicy) -> None:
    """Raise SandboxUnsupported for a sandbox that reaches what its policy denies, or cannot be tried."""
    if policy.default is NetworkDefault.ALLOW:
        return
    output = Output(0, lambda stream, data: None)
    code = sandbox.ran(["sh", "-c", _SCRIPT, _ASK, *ADDRESSES], output)
    if code == REACHED:
        raise SandboxUnsupported(
            f"The {name} sandbox was created with no network access, but it still reached the "
            "internet: this account or plan does not enforce network isolation. Use a provider "
            f"that does, allow the network in the manifest if the work needs it, or {_ACCEPT}"
        )
    if code == NO_PYTHON:
        raise SandboxUnsupported(
            f"The {name} sandbox's network could not be checked: the image has no python to run "
            f"the check with. Use an image that has one, or {_ACCEPT}"
        )
    if code != ISOLATED:
        raise SandboxUnsupported(
            f"The {name} sandbox's network could not be checked: the check ended with {code}. "
            f"Try again, or {_ACCEPT}"
        )
