#!/usr/bin/env python
"""Django's entry point; without an argument it serves."""

from __future__ import annotations

import os
import sys

from django.core.management import execute_from_command_line

import omniweb.celery  # noqa: F401 - the Celery app must exist before anything enqueues

if __name__ == "__main__":
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "omniweb.settings")
    execute_from_command_line(sys.argv if len(sys.argv) > 1 else [sys.argv[0], "serve"])
