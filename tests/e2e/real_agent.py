"""A real, unmodified OmniCoreAgent in a process and an environment of its own.

The product's lock knows nothing of it: uv puts its environment together for each start, from its
cache after the first.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

CLIENT = Path(__file__).parent / "omnicoreagent_client.py"
UV = Path(sys.prefix) / "bin" / "uv"
ISOLATED = [
    *(str(UV), "run", "--quiet", "--isolated", "--no-project", "--python", sys.executable),
    *("--with", "omnicoreagent==0.6.0"),
]
DOWNLOAD_SECONDS = 300
END_SECONDS = 180


@cache
def missing() -> str:
    """Return why there is no OmniCoreAgent to run, or nothing. The first download takes a while."""
    try:
        done = subprocess.run(
            [*ISOLATED, "python", "-c", "import omnicoreagent"],
            cwd="/",
            capture_output=True,
            text=True,
            timeout=DOWNLOAD_SECONDS,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"OmniCoreAgent cannot be had: {error}"
    return f"OmniCoreAgent cannot be had: {done.stderr.strip()}" if done.returncode else ""


class RealAgent:
    """One run of the client: it asks for each command in turn and reports what it got.

    `options` are the client's, `{"network": "allow"}`; one that takes no value has an empty one.
    """

    def __init__(
        self,
        url: str,
        token: str,
        commands: Sequence[str],
        options: Mapping[str, str],
        folder: Path,
    ) -> None:
        asked = [word for command in commands for word in ("--command", command)]
        flags = [
            word
            for name, value in options.items()
            for word in (f"--{name.replace('_', '-')}", value)
            if word
        ]
        place = ["--base-url", f"{url}/sandbox/v1", "--token", token]
        self.said = Path(tempfile.mkdtemp(dir=folder)) / "said"
        self.logged = self.said.with_name("logged")
        # Into files, not pipes, which nobody empties before its end.
        with self.said.open("w") as said, self.logged.open("w") as logged:
            self.process = subprocess.Popen(
                [*ISOLATED, "python", str(CLIENT), *place, *asked, *flags],
                cwd=folder,
                env={name: value for name, value in os.environ.items() if "OMNIWEB" not in name},
                stdin=subprocess.DEVNULL,
                stdout=said,
                stderr=logged,
            )

    def report(self) -> dict[str, Any]:
        """Wait for its end; return what it printed."""
        self.process.wait(END_SECONDS)
        said = self.said.read_text()
        assert said, f"the agent said nothing:\n{self.logged.read_text()}"
        report: dict[str, Any] = json.loads(said)
        return report

    def results(self) -> list[dict[str, Any]]:
        """Wait for its end; return each command's result as the agent has it in its record."""
        segments = self.report()["trajectory"]["segments"]
        calls = [call for segment in segments for call in segment["tool_calls"]]
        return [execution for call in calls for execution in call["executions"]]

    def stop(self) -> None:
        """End it, whatever it does."""
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
