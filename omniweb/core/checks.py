"""Misconfiguration found before it hurts, each with a stable id and a hint."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from django.apps import AppConfig
from django.conf import settings
from django.core.checks import CheckMessage, Error, Tags, register

import omniweb.settings

_READ = re.compile(r'env\.\w+\(\s*"(OMNIWEB_\w+)"')


def known_settings() -> frozenset[str]:
    """Return the names of all OMNIWEB_ variables that settings.py reads."""
    return frozenset(_READ.findall(Path(omniweb.settings.__file__).read_text()))


@register
def no_unknown_settings(
    app_configs: Sequence[AppConfig] | None, **_: Any
) -> Sequence[CheckMessage]:
    """A misspelt variable must not be ignored in silence."""
    known = known_settings()
    given = {name for name in os.environ if name.startswith("OMNIWEB_")}
    unknown = {
        name
        for name in given
        if name.removesuffix("_FILE") not in known and not name.startswith("OMNIWEB_TEST_")
    }
    return [
        Error(
            f"{name} is not a setting",
            hint=f"Known are: {', '.join(sorted(known))} (docs/settings.md).",
            id="omniweb.E001",
        )
        for name in sorted(unknown)
    ]


@register
def separate_worker_needs_redis(
    app_configs: Sequence[AppConfig] | None, **_: Any
) -> Sequence[CheckMessage]:
    """Without Redis, hints and jobs never leave the process they are made in."""
    separate = "worker" in sys.argv[1:] and Path(sys.argv[0]).name == "celery"
    if separate and not settings.REDIS_URL:
        return [
            Error(
                "A separate worker needs REDIS_URL",
                hint="Set REDIS_URL, or run `manage.py serve`, which has its own worker.",
                id="omniweb.E002",
            )
        ]
    return []


@register(Tags.security, deploy=True)
def public_url_is_https(
    app_configs: Sequence[AppConfig] | None, **_: Any
) -> Sequence[CheckMessage]:
    """Links sent to people must lead to the address they can reach."""
    if settings.HTTPS and not settings.PUBLIC_URL.startswith("https://"):
        return [
            Error(
                "OMNIWEB_PUBLIC_URL does not start with https://",
                hint="Set it to the address people open, such as https://omniweb.example.org.",
                id="omniweb.E003",
            )
        ]
    return []
