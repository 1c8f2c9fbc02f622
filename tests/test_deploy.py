"""The units for systemd start what there is, the same as the containers do."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest
from django.core.management import load_command_class

from tests.test_repository import COMPOSE, ROOT

UNITS = sorted((ROOT / "deploy/systemd").iterdir())
SERVICES = [unit for unit in UNITS if unit.suffix == ".service"]


def setting(unit: Path, name: str) -> str:
    """Return what a unit sets, empty without it."""
    found = re.search(rf"^{name}=(.*)$", unit.read_text(), re.MULTILINE)
    return found[1] if found else ""


def started(unit: Path) -> list[str]:
    """Return the words of what a unit starts, as systemd expands them."""
    line = setting(unit, "ExecStart").replace("%i", "8000").replace("%%", "%")
    return line.removeprefix("/opt/omniweb/.venv/bin/").split()


@pytest.mark.parametrize("unit", SERVICES, ids=lambda unit: unit.name)
def test_a_unit_starts_a_command_that_takes_its_options(unit: Path) -> None:
    program, *arguments = started(unit)
    assert program in ("python", "celery")
    if program == "python":
        assert arguments[0] == "manage.py"
        app = "django.core" if arguments[1] == "migrate" else "omniweb"
        parser = load_command_class(app, arguments[1]).create_parser("manage.py", arguments[1])
        parser.parse_args(arguments[2:])


@pytest.mark.parametrize(
    ("name", "unit"), [("worker", "omniweb-worker@"), ("beat", "omniweb-beat")]
)
def test_a_unit_starts_the_same_as_its_container(name: str, unit: str) -> None:
    contained = COMPOSE["services"][name]["command"].split()
    words = started(ROOT / f"deploy/systemd/{unit}.service")
    assert [word for word in contained if not word.startswith("/")] == [
        word
        for word in words
        if not word.startswith("/") and "@" not in word and word != "--hostname"
    ]


@pytest.mark.parametrize("unit", SERVICES, ids=lambda unit: unit.name)
def test_a_unit_runs_as_a_user_of_its_own_who_gains_nothing(unit: Path) -> None:
    assert setting(unit, "User") == "omniweb"
    assert setting(unit, "NoNewPrivileges") == "yes"
    assert setting(unit, "ProtectSystem") == "strict"
    assert setting(unit, "UMask") == "0077"


def test_systemd_finds_nothing_wrong_with_the_units(tmp_path: Path) -> None:
    if shutil.which("systemd-analyze") is None:
        pytest.skip("systemd is missing")
    program = tmp_path / "program"
    program.touch(mode=0o755)
    for unit in UNITS:
        text = re.sub(r"/opt/omniweb/\.venv/bin/\w+", str(program), unit.read_text())
        # Neither the folders nor the user have to be here for it.
        text = text.replace("WorkingDirectory=/opt/omniweb", f"WorkingDirectory={tmp_path}")
        (tmp_path / unit.name.replace("@.", "@8000.")).write_text(text)
    units = [str(path) for path in tmp_path.iterdir() if path.suffix in (".service", ".target")]
    # Units of the machine that it also reads may be wrong in ways of their own.
    found = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", *units], capture_output=True, text=True
    )
    said = [line for line in found.stderr.splitlines() if "omniweb" in line]
    assert [line for line in said if "not found" not in line] == []
