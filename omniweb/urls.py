"""Where everything is mounted."""

from __future__ import annotations

from django.urls import include, path, re_path

from omniweb.api import api, protocol
from omniweb.core.problems import API_PREFIXES, nothing_here_view

urlpatterns = [
    path("api/v1/", api.urls),
    path("sandbox/v1/", protocol.urls),
    *(re_path(f"^{prefix[1:]}", nothing_here_view) for prefix in API_PREFIXES),
    path("", include("omniweb.web.urls")),
    path("", include("omniweb.accounts.urls")),
    path("", include("approvals.urls")),
    path("", include("sandboxes.urls")),
    path("", include("trajectories.urls")),
]
