"""Compare our decisions with a file of recorded ones."""

from __future__ import annotations

from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from approvals.policy.vectors import Vector, disagreement, read_vectors
from omniweb.core.errors import InvalidInput


class Command(BaseCommand):
    """Exit 0 when every vector agrees, 1 when one does not, 2 when the file cannot be read."""

    help = "Compare policy decisions with a file of recorded ones, one JSON object a line."
    requires_system_checks: list[str] = []

    def add_arguments(self, parser: ArgumentParser) -> None:
        """Take the file."""
        parser.add_argument("file", type=Path, metavar="FILE.jsonl")

    def handle(self, *args: Any, file: Path, **options: Any) -> None:
        """Print each disagreement and the totals."""
        found = [item for vector in self._read(file) if (item := disagreement(vector))]
        for item in found:
            self.stdout.write(str(item))
        self.stdout.write(f"{self.total} vectors, {len(found)} disagreements")
        if found:
            raise CommandError("the decisions differ", returncode=1)

    def _read(self, file: Path) -> list[Vector]:
        try:
            with file.open(encoding="utf-8") as lines:
                vectors = list(read_vectors(lines))
        except OSError as error:
            message = f"{file} cannot be read: {error.strerror}"
            raise CommandError(message, returncode=2) from error
        except UnicodeDecodeError as error:
            raise CommandError(f"{file} is not UTF-8 text: {error}", returncode=2) from error
        except InvalidInput as error:
            raise CommandError(f"{file}: {error.detail}", returncode=2) from error
        self.total = len(vectors)
        return vectors
