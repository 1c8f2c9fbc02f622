"""What the tests of the requirement document share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.requirements.sandbox_providers import waiting


@pytest.fixture(autouse=True)
def vendors_stop() -> Iterator[None]:
    """Stop the vendors' stand-ins that a test has started."""
    yield
    while waiting.started:
        waiting.started.pop().stop()
