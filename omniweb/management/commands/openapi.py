"""`manage.py openapi`: write the snapshot of the API that tests compare with."""

from __future__ import annotations

import json
from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand

from omniweb.api import api, protocol

SNAPSHOTS = {
    "openapi.json": api,
    "sandbox-openapi.json": protocol,
}


def document(name: str) -> str:
    """Return an OpenAPI document as it is committed."""
    schema = SNAPSHOTS[name].get_openapi_schema()
    return json.dumps(schema, indent=1, sort_keys=True, ensure_ascii=False) + "\n"


class Command(BaseCommand):
    """Write `tests/contracts/*openapi.json`."""

    help = "Write the OpenAPI documents of both APIs to tests/contracts."

    def add_arguments(self, parser: ArgumentParser) -> None:
        """Another folder may be given."""
        folder = settings.BASE_DIR / "tests" / "contracts"
        parser.add_argument("--folder", type=Path, default=folder)

    def handle(self, *args: Any, folder: Path, **options: Any) -> None:
        """Write the documents."""
        for name in SNAPSHOTS:
            (folder / name).write_text(document(name), encoding="utf-8")
            self.stdout.write(f"wrote {folder / name}")
