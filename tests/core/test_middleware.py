"""What the middleware does under async, as the server runs it."""

from __future__ import annotations

import asyncio

import pytest
from django.conf import settings
from django.test import AsyncClient
from django.utils.deprecation import MiddlewareMixin
from django.utils.module_loading import import_string


@pytest.mark.parametrize("path", settings.MIDDLEWARE)
def test_no_middleware_puts_its_hooks_on_a_thread(path: str) -> None:
    middleware = import_string(path)
    if isinstance(middleware, type) and issubclass(middleware, MiddlewareMixin):
        assert middleware.__acall__ is not MiddlewareMixin.__acall__


@pytest.mark.django_db(transaction=True)
def test_a_form_of_another_site_is_refused() -> None:
    answer = asyncio.run(AsyncClient(enforce_csrf_checks=True).post("/sign-in", {"login": "a"}))
    assert answer.status_code == 403
    assert "X-Frame-Options" in answer
    assert "Content-Security-Policy" in answer
