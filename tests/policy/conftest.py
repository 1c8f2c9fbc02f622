"""Property tests here must not fail because the machine was busy for a moment."""

from __future__ import annotations

from hypothesis import settings

settings.register_profile("patient", deadline=None)
settings.load_profile("patient")
