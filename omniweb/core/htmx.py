"""Rendering a page, or only the part of it that htmx asked for."""

from __future__ import annotations

from typing import Any

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render


def page(
    request: HttpRequest, template: str, context: dict[str, Any], *, status: int = 200
) -> HttpResponse:
    """Render a template, or its partial named by `?part=` when htmx asks for one.

    The part stays inside its page, so the live part and the page cannot differ.
    """
    part = request.GET.get("part", "")
    if getattr(request, "htmx", False) and part.isidentifier():
        template = f"{template}#{part}"
    response = render(request, template, context, status=status)
    response["Vary"] = "HX-Request"
    return response
