"""The ASGI application: pages and API over HTTP, hints over WebSocket."""

from __future__ import annotations

import os

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "omniweb.settings")

from channels.auth import AuthMiddlewareStack
from channels.routing import ProtocolTypeRouter, URLRouter
from django.core.asgi import get_asgi_application

http = get_asgi_application()

# Needs the apps that the line above has loaded.
import omniweb.celery  # noqa: E402, F401 - the Celery app must exist before anything enqueues
from omniweb.core.asynchronous import on_lent_threads  # noqa: E402
from omniweb.core.body_limit import BodyLimit  # noqa: E402
from omniweb.core.origin import SameOrigin  # noqa: E402
from omniweb.live import websocket_urlpatterns  # noqa: E402
from sandboxes.providers.limits import MAX_FILE_BYTES  # noqa: E402

application = ProtocolTypeRouter(
    {
        "http": BodyLimit(on_lent_threads(http), MAX_FILE_BYTES),
        "websocket": SameOrigin(AuthMiddlewareStack(URLRouter(websocket_urlpatterns))),
    }
)
