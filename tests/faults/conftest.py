"""What the tests of faults share."""

from __future__ import annotations

from tests.faults.scene import bells

__all__ = ["bells"]
