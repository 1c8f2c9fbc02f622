"""Composition of the test run: the environment first, then what is found on the machine."""

from __future__ import annotations

import tests.environment  # noqa: F401 - settings are read once, so this comes before all else

pytest_plugins = ["tests.requirements", "tests.network"]
