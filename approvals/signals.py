"""What other rooms may hear from this one."""

from __future__ import annotations

from django.dispatch import Signal

# Sent inside the deciding transaction, with `request`: whatever waits moves on with the decision
# or not at all. Covers every end of an open request, expiry included.
request_decided = Signal()
