"""Every state and effect a page can show: its tone, its icon, its word.

Tones carry the meaning of colour: `wait` amber, `good` green, `bad` red, `unsure` violet, `busy`
for what is under way, `plain` for what is over or idle. The same word means the same wherever it
occurs, so one table serves all models (domain: runs, executions, requests, sandboxes, hosts).
"""

from __future__ import annotations

from typing import Final, NamedTuple


class Look(NamedTuple):
    """How a state is shown."""

    tone: str
    icon: str
    word: str


LOOKS: Final[dict[str, Look]] = {
    # Effects and votes
    "allow": Look("good", "yes", "Allowed"),
    "ask": Look("wait", "wait", "Asks"),
    "deny": Look("bad", "no", "Denied"),
    "approve": Look("good", "yes", "Approved"),
    "reject": Look("bad", "no", "Rejected"),
    "opaque": Look("unsure", "unsure", "Not understood"),
    # Run
    "opening": Look("busy", "wait", "Opening"),
    "active": Look("busy", "play", "Active"),
    "waiting": Look("wait", "wait", "Waiting"),
    "finishing": Look("busy", "wait", "Finishing"),
    "succeeded": Look("good", "yes", "Succeeded"),
    "failed": Look("bad", "no", "Failed"),
    "cancelled": Look("plain", "stop", "Cancelled"),
    "abandoned": Look("plain", "stop", "Abandoned"),
    "refused": Look("bad", "no", "Refused"),
    # Execution
    "asked": Look("busy", "wait", "Asked"),
    "denied": Look("bad", "no", "Denied"),
    "expired": Look("plain", "wait", "Expired"),
    "rejected": Look("bad", "no", "Rejected"),
    "stale": Look("unsure", "refresh", "Stale"),
    "queued": Look("busy", "wait", "Queued"),
    "starting": Look("busy", "wait", "Starting"),
    "running": Look("busy", "play", "Running"),
    "finished": Look("good", "yes", "Finished"),
    "timed_out": Look("bad", "wait", "Timed out"),
    "unknown": Look("unsure", "unsure", "May have run"),
    # Request
    "open": Look("wait", "wait", "Waiting"),
    "approved": Look("good", "yes", "Approved"),
    "withdrawn": Look("plain", "stop", "Withdrawn"),
    "superseded": Look("plain", "refresh", "Superseded"),
    "spent": Look("good", "yes", "Approved, used"),
    # Sandbox
    "intended": Look("busy", "wait", "Intended"),
    "provisioning": Look("busy", "wait", "Provisioning"),
    "ready": Look("good", "yes", "Ready"),
    "asleep": Look("plain", "sleep", "Asleep"),
    "terminating": Look("busy", "wait", "Ending"),
    "terminated": Look("plain", "stop", "Ended"),
    "lost": Look("unsure", "link-off", "Lost"),
    # Test of an environment
    "passed": Look("good", "yes", "Passed"),
    # Host
    "enrolling": Look("busy", "wait", "Enrolling"),
    "online": Look("good", "yes", "Online"),
    "offline": Look("plain", "link-off", "Offline"),
    "revoked": Look("bad", "lock", "Revoked"),
}


def look_of(state: str) -> Look:
    """Return how a state is shown; one without an entry is shown as not understood."""
    known = LOOKS.get(state)
    return known or Look("unsure", "unsure", state.replace("_", " ").capitalize() or "Unknown")
