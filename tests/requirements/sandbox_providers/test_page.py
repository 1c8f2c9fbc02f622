"""`docs/providers.md` tells of every provider, promise, option and default there is."""

from __future__ import annotations

import re

import pytest

from sandboxes.providers.spec import ProviderSpec
from sandboxes.providers.table import TABLE
from tests.server import ROOT

PAGE = (ROOT / "docs" / "providers.md").read_text()
ROWS = [
    [cell.strip() for cell in line.strip("|").split("|")]
    for line in PAGE.splitlines()
    if line.startswith("| ")
]


def rows(first: str) -> list[list[str]]:
    """Return the rows of the page's tables that begin with a word."""
    return [row for row in ROWS if row[0] == f"`{first}`"]


@pytest.mark.parametrize("spec", TABLE, ids=lambda spec: spec.name)
def test_the_page_has_a_providers_row_of_the_first_table(spec: ProviderSpec) -> None:
    """'Choose a provider'."""
    [_, install, credentials, runs_where, runs_as] = rows(spec.name)[0]
    assert install == (f"`pip install 'omniweb[{spec.extra}]'`" if spec.extra else "built in")
    assert re.findall(r"`(\w+)`", credentials) == list(spec.credentials)
    assert spec.runs_where.startswith(runs_where)
    assert runs_as == spec.runs_as.removeprefix("-")


@pytest.mark.parametrize(
    "spec", [spec for spec in TABLE if len(rows(spec.name)) > 1], ids=lambda spec: spec.name
)
def test_the_page_has_a_providers_row_of_the_network_table(spec: ProviderSpec) -> None:
    """'Network: what each provider enforces'."""
    promise = spec.network
    words = [promise.deny, promise.allow, promise.allowed_hosts, promise.checked_inside]
    assert rows(spec.name)[1][1:] == words


@pytest.mark.parametrize("spec", TABLE, ids=lambda spec: spec.name)
def test_the_page_has_every_option_with_its_default(spec: ProviderSpec) -> None:
    """The tables of options."""
    for option in spec.options:
        cells = {cell for row in rows(option.name) for cell in row[1:]}
        assert cells, f"{spec.name}: {option.name} is not on the page"
        if option.default not in (None, ()):
            default = str(option.default)
            assert f"`{default.lower() if isinstance(option.default, bool) else default}`" in cells


def test_the_page_has_no_other_options() -> None:
    """An option that is gone is gone from the page."""
    known = {option.name for spec in TABLE for option in spec.options}
    named = {row[0].strip("`") for row in ROWS if re.fullmatch(r"`[a-z_]+`", row[0])}
    assert named <= known | {spec.name for spec in TABLE}
