"""The secrets a run is given, so that they are masked wherever they come up again."""

from __future__ import annotations

from collections.abc import Mapping

from sandboxes.models import Run
from trajectories.patterns import is_secret_name
from trajectories.redaction import Redactor, redactor


def redactor_for(run: Run, env: Mapping[str, str] | None = None) -> Redactor:
    """Return a redactor that also knows the run's and the command's own secret variables."""
    plain = run.manifest.get("environment", {}).get("plain", {})
    variables = {**plain, **(env or {})}
    return redactor(known=[value for name, value in variables.items() if is_secret_name(name)])
