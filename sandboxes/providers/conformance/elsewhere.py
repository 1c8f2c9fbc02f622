"""Running a command in a sandbox from a process of its own, which knows only what its row says."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from importlib import import_module
from typing import Any

from sandboxes.manifest import Manifest
from sandboxes.providers.base import Handle, SandboxProvider
from sandboxes.providers.conformance import bench
from sandboxes.providers.registry import provider_spec

PATIENCE_SECONDS = 120


def run(
    provider: SandboxProvider, handle: Handle, manifest: Manifest, argv: Sequence[str]
) -> tuple[int, str]:
    """Return exit code and stdout of a command that another process runs.

    Raises Skip where the provider's class cannot be imported there, RuntimeError with what the
    process said when it failed.
    """
    kind = type(provider)
    if "<locals>" in kind.__qualname__ or kind.__module__ == "__main__":
        raise bench.Skip("its class cannot be imported by another process")
    # By stdin: options may hold secrets, and everybody sees a process's arguments.
    asked = {
        "module": kind.__module__,
        "class": kind.__qualname__,
        "name": provider.spec.name,
        "is_built_in": provider.spec.factory is None and provider.spec.adapter is not None,
        "options": dict(provider.options),
        "handle": dict(handle),
        "manifest": manifest.to_dict(),
        "argv": list(argv),
    }
    done = subprocess.run(
        [sys.executable, "-m", "sandboxes.providers.conformance.elsewhere"],
        input=json.dumps(asked).encode(),
        env={**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)},
        capture_output=True,
        timeout=PATIENCE_SECONDS,
        check=False,
    )
    if done.returncode:
        raise RuntimeError(done.stderr.decode(errors="replace").strip().rpartition("\n")[2])
    answer = json.loads(done.stdout)
    return answer["code"], answer["stdout"]


def main() -> None:
    """Read what to run on stdin, run it, and print what came of it."""
    asked = json.load(sys.stdin)
    live = _provider(asked).attach(asked["handle"], Manifest.parse(asked["manifest"]))
    ran = bench.run(live, *asked["argv"])
    json.dump({"code": ran.code, "stdout": ran.text}, sys.stdout)


def _provider(asked: Any) -> SandboxProvider:
    found: Any = import_module(asked["module"])
    for name in asked["class"].split("."):
        found = getattr(found, name)
    if asked["is_built_in"]:
        made: SandboxProvider = found(provider_spec(asked["name"]), asked["options"])
    else:
        made = found(asked["options"])
    return made


if __name__ == "__main__":
    main()
