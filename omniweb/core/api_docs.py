"""The page that documents an API, made from its OpenAPI document: no script, nothing from elsewhere."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from ninja import NinjaAPI
from ninja.openapi.docs import DocsBase
from ninja.openapi.schema import OpenAPISchema

from omniweb.core.problems import MEDIA_TYPE


class DocumentedApi(NinjaAPI):
    """An API whose document calls its errors what they are sent as: problem documents."""

    def get_openapi_schema(self, **options: Any) -> OpenAPISchema:
        """Return the document; ninja itself knows one media type for all answers."""
        document = super().get_openapi_schema(**options)
        operations = [one for path in document["paths"].values() for one in path.values()]
        for answers in (operation["responses"] for operation in operations):
            for status, answer in answers.items():
                if int(status) >= 400:
                    answer["content"] = {MEDIA_TYPE: answer["content"].pop("application/json")}
        return document


@dataclass(frozen=True, kw_only=True)
class Field:
    """One parameter, or one member of a body or an answer."""

    name: str
    kind: str
    text: str
    required: bool


@dataclass(frozen=True, kw_only=True)
class Documented:
    """One operation as the page shows it."""

    id: str
    method: str
    path: str
    summary: str
    text: str
    who: str
    parameters: list[Field]
    body: list[Field]
    status: str
    answer: list[Field]


class DocsPage(DocsBase):
    """Renders `templates/api/docs.html`."""

    def render_page(self, request: HttpRequest, api: NinjaAPI, **kwargs: Any) -> HttpResponse:
        """Show every operation, grouped by its tag."""
        document = api.get_openapi_schema(path_params=kwargs)
        groups: dict[str, list[Documented]] = defaultdict(list)
        for tag, operation in _operations(document):
            groups[tag].append(operation)
        context = {
            "title": api.title,
            "text": api.description,
            "groups": dict(groups),
            "document": self.get_openapi_url(api, kwargs),
        }
        return render(request, "api/docs.html", context)


def _operations(document: dict[str, Any]) -> Iterator[tuple[str, Documented]]:
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            status, answer = next(iter(operation["responses"].items()))
            yield (
                (operation.get("tags") or ["Other"])[0],
                Documented(
                    id=operation["operationId"],
                    method=method.upper(),
                    path=path,
                    summary=operation["summary"],
                    text=operation.get("description", ""),
                    who=_who(operation),
                    parameters=[_parameter(item) for item in operation.get("parameters", [])],
                    body=_members(document, operation.get("requestBody", {})),
                    status=str(status),
                    answer=_members(document, answer),
                ),
            )


def _who(operation: dict[str, Any]) -> str:
    people, agents = operation.get("x-people"), operation.get("x-agents")
    who = [f"people who may {people.replace('.', ' ')}"] if people else []
    return " and ".join(who + ["agents"] * bool(agents or not people))


def _parameter(item: dict[str, Any]) -> Field:
    schema = item.get("schema", {})
    text = item.get("description") or schema.get("description", "")
    kind = f"{_kind(schema)} in {item['in']}"
    return Field(name=item["name"], kind=kind, text=text, required=item.get("required", False))


def _members(document: dict[str, Any], part: dict[str, Any]) -> list[Field]:
    schema = part.get("content", {}).get("application/json", {}).get("schema", {})
    schema = _resolved(document, schema)
    required = schema.get("required", [])
    return [
        Field(
            name=name,
            kind=_kind(member),
            text=member.get("description", ""),
            required=name in required,
        )
        for name, member in schema.get("properties", {}).items()
    ]


def _resolved(document: dict[str, Any], schema: dict[str, Any]) -> dict[str, Any]:
    name = schema.get("$ref", "").rpartition("/")[2]
    found: dict[str, Any] = document["components"]["schemas"][name] if name else schema
    return found


def _kind(schema: dict[str, Any]) -> str:
    if "$ref" in schema:
        return str(schema["$ref"]).rpartition("/")[2]
    if "anyOf" in schema:
        return " or ".join(dict.fromkeys(_kind(option) for option in schema["anyOf"]))
    if schema.get("type") == "array":
        return f"list of {_kind(schema.get('items', {}))}"
    if "enum" in schema:
        return " | ".join(str(value) for value in schema["enum"])
    return str(schema.get("format") or schema.get("type", "anything"))
