"""Misconfiguration is told at the start."""

from __future__ import annotations

import pytest

from omniweb.core.checks import known_settings, no_unknown_settings, separate_worker_needs_redis


def test_a_misspelt_setting_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OMNIWEB_PROT", "8000")
    [error] = no_unknown_settings(None)
    assert (error.id, error.msg) == ("omniweb.E001", "OMNIWEB_PROT is not a setting")


def test_a_setting_may_be_a_file(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OMNIWEB_SECRET_KEY_FILE", "/run/secrets/key")
    assert no_unknown_settings(None) == []


def test_the_settings_are_found() -> None:
    assert {"OMNIWEB_PORT", "OMNIWEB_DATA", "OMNIWEB_DOCKER_IMAGE"} <= known_settings()


def test_a_worker_of_its_own_needs_redis(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.argv", ["/usr/bin/celery", "-A", "omniweb", "worker"])
    [error] = separate_worker_needs_redis(None)
    assert error.id == "omniweb.E002"
