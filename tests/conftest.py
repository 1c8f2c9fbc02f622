"""Composition of the test run: the environment first, then what is found on the machine."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest
from django.core.cache import cache
from django.db import connection
from pytest_django import DjangoDbBlocker

import tests.environment  # noqa: F401 - settings are read once: what needs models is a plugin below

pytest_plugins = [
    "tests.machine",
    "tests.network",
    "tests.people",
    "tests.server",
    "tests.providers.gateways",
    "tests.providers.walls",
]


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_setupnodes() -> None:
    """Keep the workers from loading settings before they have an environment of their own."""
    os.environ.pop("DJANGO_SETTINGS_MODULE", None)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what asks nothing of a database: on a second one it would be the same test again."""
    for item in items:
        fixtures = set(getattr(item, "fixturenames", ()))
        uses = item.get_closest_marker("django_db") or fixtures & {"db", "server", "server_new"}
        if item.path.parent.name in ("policy", "providers") and not uses:
            item.add_marker("once")


@pytest.fixture(autouse=True)
def empty_cache() -> None:
    """Let no test be refused for what others before it asked: rates are counted in the cache."""
    cache.clear()


@pytest.fixture(scope="session")
def django_db_setup(django_db_setup: None, django_db_blocker: DjangoDbBlocker) -> Iterator[None]:
    """End the sessions that threads have left: PostgreSQL drops no database that is in use."""
    yield
    with django_db_blocker.unblock():
        if connection.vendor == "postgresql":
            with connection.cursor() as cursor:
                cursor.execute(
                    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
                    "WHERE datname = current_database() AND pid <> pg_backend_pid()"
                )
