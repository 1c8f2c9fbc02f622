"""The other side of `start`: the least that Django and uvicorn can serve. `bare_site PORT`."""

from __future__ import annotations

import os
import sys

import uvicorn
from django.conf import settings
from django.core.asgi import get_asgi_application
from django.http import HttpRequest, HttpResponse
from django.urls import path


def page_view(request: HttpRequest) -> HttpResponse:
    """Answer one word."""
    return HttpResponse("hello")


urlpatterns = [path("", page_view)]

if __name__ == "__main__":
    settings.configure(ROOT_URLCONF="__main__", ALLOWED_HOSTS=["*"], SECRET_KEY=os.urandom(8).hex())
    uvicorn.run(get_asgi_application(), port=int(sys.argv[1]), log_level="warning", lifespan="off")
