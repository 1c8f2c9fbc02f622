"""What the files around the code promise: commands, scripts, the deployed image."""

from __future__ import annotations

import re
import subprocess
import tomllib
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parent.parent
COMPOSE = yaml.safe_load((ROOT / "deploy/compose.yaml").read_text())
PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())


def make(*arguments: str) -> str:
    """Return what make prints."""
    return subprocess.run(
        ["make", "--no-print-directory", *arguments],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=30,
        check=True,
    ).stdout


def test_make_alone_lists_every_target() -> None:
    listed = re.findall(r"^make (\w+)", make(), re.MULTILINE)
    assert listed == ["help", "serve", "test", "lint", "fmt", "bench"]


def test_port_and_data_reach_the_server_as_its_settings() -> None:
    echo = "settings: ; @echo $$OMNIWEB_PORT $$OMNIWEB_DATA"
    shown = make("PORT=8123", "DATA=/srv/data", "--eval", echo, "settings")
    assert shown.split() == ["8123", "/srv/data"]


@pytest.mark.parametrize("script", sorted((ROOT / ".ci").iterdir()), ids=lambda path: path.name)
def test_a_script_can_be_read_by_its_shell(script: Path) -> None:
    shell = "sh" if script.name == "venv" else "bash"
    checked = subprocess.run(
        [shell, "-n", script], capture_output=True, text=True, timeout=10, check=False
    )
    assert (checked.returncode, checked.stderr) == (0, "")


def test_the_image_contains_every_room() -> None:
    copied = re.findall(r"^COPY (\w+) \1$", (ROOT / "deploy/Dockerfile").read_text(), re.MULTILINE)
    rooms = PYPROJECT["tool"]["importlinter"]["root_packages"]
    assert {*rooms, "templates", "static"} == set(copied)


def test_all_processes_run_the_same_image_and_exactly_one_of_them_is_beat() -> None:
    ours = {name for name, service in COMPOSE["services"].items() if service["image"] == "omniweb"}
    assert ours == {"migrate", "web", "worker", "beat"}
    commands = [str(COMPOSE["services"][name].get("command")) for name in ours]
    assert sum(" beat " in command for command in commands) == 1


def test_the_example_file_has_every_variable_that_the_deployment_asks_for() -> None:
    asked = set(re.findall(r"\$\{(\w+)", (ROOT / "deploy/compose.yaml").read_text()))
    example = (ROOT / "deploy/env.example").read_text()
    assert asked <= set(re.findall(r"^(\w+)=", example, re.MULTILINE))
