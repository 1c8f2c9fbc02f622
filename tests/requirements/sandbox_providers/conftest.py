"""What the tests of the requirement document share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.requirements.sandbox_providers import vendors


@pytest.fixture(autouse=True)
def vendors_stop() -> Iterator[None]:
    """Stop the vendors' stand-ins that a test has started."""
    yield
    while vendors.started:
        vendors.started.pop().stop()
