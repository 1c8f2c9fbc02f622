"""The list of what waits for an adapter is true, and only shrinks."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path

from sandboxes.providers.table import TABLE
from tests.requirements.sandbox_providers import waiting


def test_only_what_this_version_does_not_drive_is_waited_for() -> None:
    """A provider that is driven waits for nothing: its tests are to pass."""
    assert set(waiting.WAITING) == {spec.name for spec in TABLE if not spec.available}


def test_everything_waited_for_has_its_test_already() -> None:
    """No passage is put off without the test that will hold it."""
    for module in Path(__file__).parent.glob("test_*.py"):
        import_module(f"{__package__}.{module.stem}")
    listed = {
        (provider, passage)
        for provider, passages in waiting.WAITING.items()
        for passage in passages
    }
    assert listed == waiting.marked
