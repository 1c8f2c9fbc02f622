"""The environment of the tests; importing this module sets it and starts Django.

`tests/conftest.py` imports it before anything else, because settings are read once. What a
developer has set for a server of theirs must not reach the tests, and each process of a
parallel run gets a data folder of its own.

- `OMNIWEB_TEST_DATABASE`: `sqlite` (the default) or `postgres`.
- `OMNIWEB_TEST_POSTGRES_URL`: a server where the tests may create and drop databases.
- `OMNIWEB_TEST_REDIS_URL`: a server whose databases the tests may empty.
- `OMNIWEB_TEST_DOCKER_IMAGE`: the image commands run in, `omniweb-test:latest` by default.
- `OMNIWEB_TEST_GATEWAY_IMAGE`: the image of egress gateways, `omniweb-gateway:test` by default.
- `OMNIWEB_TEST_CHROMIUM`: a Chromium; found in the PATH by default.
- `OMNIWEB_TEST_REQUIRE`: what may not be missing, from the markers, separated by commas.
"""

from __future__ import annotations

import atexit
import os
import shutil
import sys
import tempfile
from importlib import import_module
from pathlib import Path

import django

PREFIX = "OMNIWEB_TEST_"
DATABASE = os.environ.get(f"{PREFIX}DATABASE", "sqlite")
POSTGRES_URL = os.environ.get(f"{PREFIX}POSTGRES_URL", "")
REDIS_URL = os.environ.get(f"{PREFIX}REDIS_URL", "").rstrip("/")
DOCKER_IMAGE = os.environ.get(f"{PREFIX}DOCKER_IMAGE", "omniweb-test:latest")
GATEWAY_IMAGE = os.environ.get(f"{PREFIX}GATEWAY_IMAGE", "omniweb-gateway:test")
CHROMIUM = os.environ.get(f"{PREFIX}CHROMIUM", "")
REQUIRED = frozenset(filter(None, os.environ.get(f"{PREFIX}REQUIRE", "").split(",")))


def _set_up() -> Path:
    """Forget the developer's settings, choose the database, start Django; return the data folder."""
    for name in list(os.environ):
        if name.startswith("OMNIWEB_") and not name.startswith(PREFIX):
            del os.environ[name]
    for name in ("DATABASE_URL", "REDIS_URL", "EMAIL_URL"):
        os.environ.pop(name, None)
    if DATABASE == "postgres":
        os.environ["DATABASE_URL"] = POSTGRES_URL
    data = Path(tempfile.mkdtemp(prefix="omniweb-tests-"))
    atexit.register(shutil.rmtree, data, ignore_errors=True)
    os.environ["OMNIWEB_DATA"] = str(data)
    os.environ["DJANGO_SETTINGS_MODULE"] = "omniweb.settings"
    # `pytest -p no:django` runs what is pure without waiting for the rest.
    if "no:django" not in sys.argv:
        django.setup()
        # Without it whatever enqueues looks for a broker at Celery's own default, for half a second.
        import_module("omniweb.celery")
    return data


DATA = _set_up()
