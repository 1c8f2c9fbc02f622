"""How long to leave a provider alone that does not answer. No clock and no chance of its own."""

from __future__ import annotations

# So many failures in a row break the circuit: from then on one call at a time tries it.
BROKEN_AFTER = 3
FIRST_PAUSE_SECONDS = 5.0
LONGEST_PAUSE_SECONDS = 300.0
# What a vendor asks for is kept up to here; it may be wrong, too.
LONGEST_ASKED_SECONDS = 3600.0
# Those who wait for the same provider come back spread over so much more of the pause.
SPREAD = 0.5


def pause_seconds(failures: int, *, asked: float | None, chance: float) -> float:
    """Return the pause after so many failures in a row; `chance` from 0 to 1 spreads it.

    Each is twice the one before. `asked` is what the provider itself has asked for, and is never
    cut short by ours.
    """
    doubled = FIRST_PAUSE_SECONDS * 2.0 ** min(max(failures, 1) - 1, 16)
    own = min(doubled, LONGEST_PAUSE_SECONDS)
    wanted = min(max(asked or 0.0, 0.0), LONGEST_ASKED_SECONDS)
    return max(own, wanted) * (1.0 + SPREAD * chance)
