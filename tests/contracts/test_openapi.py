"""The documents of both APIs are what is committed, and say all that a client needs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from ninja import Schema

from omniweb.api import api, protocol
from omniweb.core.errors import OmniWebError
from omniweb.management.commands.openapi import SNAPSHOTS, document

HERE = Path(__file__).parent


def operations() -> Iterator[Any]:
    for one in (api, protocol):
        for path, methods in one.get_openapi_schema()["paths"].items():
            for method, operation in methods.items():
                yield pytest.param(operation, id=f"{method.upper()} {path}")


@pytest.mark.parametrize("name", SNAPSHOTS)
def test_a_change_of_the_api_is_seen_in_review(name: str) -> None:
    # After a change that is meant: manage.py openapi
    assert (HERE / name).read_text(encoding="utf-8") == document(name)


@pytest.mark.parametrize("operation", list(operations()))
def test_an_operation_says_what_it_is_and_how_it_can_fail(operation: dict[str, Any]) -> None:
    assert operation["operationId"]
    assert operation["summary"].strip() == operation["summary"] != ""
    assert {401, 403, 404, 409, 422, 429} <= set(operation["responses"])
    assert operation["security"]
    assert operation["x-people"] or operation["x-agents"]


def test_no_two_schemas_share_a_name() -> None:
    """In the document they are one component, and one of the two is described as the other."""
    names = [schema.__name__ for schema in _schemas(Schema)]
    assert [name for name, times in Counter(names).items() if times > 1] == []


def _schemas(base: type[Schema]) -> Iterator[type[Schema]]:
    for schema in base.__subclasses__():
        if schema.__module__.startswith(("sandboxes.", "approvals.", "trajectories.", "omniweb.")):
            yield schema
        yield from _schemas(schema)


def test_no_two_operations_share_a_name() -> None:
    names = [parameter.values[0]["operationId"] for parameter in operations()]
    assert len(names) == len(set(names))


def test_every_error_code_is_explained() -> None:
    text = (HERE.parent.parent / "docs" / "api.md").read_text(encoding="utf-8")
    for error in errors(OmniWebError):
        assert f"| `{error.code}` | {error.status} |" in text


def errors(kind: type[OmniWebError]) -> Iterator[type[OmniWebError]]:
    yield kind
    for below in kind.__subclasses__():
        yield from errors(below)
