"""Where everything is mounted."""

from __future__ import annotations

from django.urls import include, path

urlpatterns = [
    path("", include("omniweb.web.urls")),
    path("", include("omniweb.accounts.urls")),
    path("", include("approvals.urls")),
    path("", include("sandboxes.urls")),
    path("", include("trajectories.urls")),
]
