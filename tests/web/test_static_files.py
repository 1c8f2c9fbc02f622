"""What the browser loads is small, unchanged from its makers, and fits the content policy."""

from __future__ import annotations

import hashlib
import json
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
STATIC = ROOT / "static"
VENDOR = STATIC / "vendor"
TEMPLATES = sorted((ROOT / "templates").rglob("*.html"))


def test_vendored_files_are_those_of_the_manifest() -> None:
    manifest = json.loads((VENDOR / "manifest.json").read_text())
    listed = {
        name: entry["sha256"]
        for package in manifest.values()
        for name, entry in package["files"].items()
    }
    found = {
        path.relative_to(VENDOR).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in VENDOR.rglob("*")
        if path.is_file() and path.name != "manifest.json"
    }
    assert found == listed


def test_every_vendored_package_is_documented_with_its_version() -> None:
    manifest = json.loads((VENDOR / "manifest.json").read_text())
    page = (ROOT / "docs" / "vendored.md").read_text()
    for name, package in manifest.items():
        assert f"| `{name}` | {package['version']} | {package['licence']} |" in page


def test_stylesheets_stay_under_60_kilobytes() -> None:
    assert sum(path.stat().st_size for path in (STATIC / "css").glob("*.css")) < 60_000


def test_own_scripts_stay_under_40_kilobytes_and_600_lines() -> None:
    scripts = list((STATIC / "js").glob("*.js"))
    assert sum(path.stat().st_size for path in scripts) < 40_000
    assert sum(len(path.read_text().splitlines()) for path in scripts) < 600


@pytest.mark.parametrize("path", TEMPLATES, ids=lambda path: path.name)
def test_no_template_needs_what_the_content_policy_forbids(path: Path) -> None:
    text = path.read_text()
    assert not re.search(r"<style|\sstyle=|\son\w+=|hx-on|javascript:|[\"'{]js:", text)
    for script in re.findall(r"<script[^>]*>", text):
        assert "src=" in script
    for trigger in re.findall(r"hx-trigger=\"([^\"]*)\"", text):
        assert "[" not in trigger, "a filter in a trigger needs eval"


def _tokens() -> dict[str, tuple[str, str]]:
    text = (STATIC / "css" / "tokens.css").read_text()
    return {
        name: (light, dark)
        for name, light, dark in re.findall(r"--([\w-]+): light-dark\((#\w{6}), (#\w{6})\)", text)
    }


def _luminance(colour: str) -> float:
    channels = [int(colour[start : start + 2], 16) / 255 for start in (1, 3, 5)]
    red, green, blue = (
        value / 12.92 if value <= 0.04045 else ((value + 0.055) / 1.055) ** 2.4
        for value in channels
    )
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def _contrast(one: str, other: str) -> float:
    dark, light = sorted((_luminance(one), _luminance(other)))
    return (light + 0.05) / (dark + 0.05)


TEXTS = ("text-1", "text-2", "text-3", "accent", "good", "wait", "bad", "unsure", "busy")


@pytest.mark.parametrize("theme", [0, 1], ids=["light", "dark"])
@pytest.mark.parametrize("text", TEXTS)
def test_words_can_be_read_on_every_ground(text: str, theme: int) -> None:
    tokens = _tokens()
    grounds = ["page", "surface", "raised", "accent-soft"]
    grounds += [f"{text}-soft"] if f"{text}-soft" in tokens else []
    for ground in grounds:
        assert _contrast(tokens[text][theme], tokens[ground][theme]) >= 4.5, ground


@pytest.mark.parametrize("theme", [0, 1], ids=["light", "dark"])
def test_the_edges_of_controls_and_the_primary_button_stand_out(theme: int) -> None:
    tokens = _tokens()
    assert _contrast(tokens["line-control"][theme], tokens["surface"][theme]) >= 3
    assert _contrast(tokens["on-accent"][theme], tokens["accent"][theme]) >= 4.5
