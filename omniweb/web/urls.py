"""Paths of the pages that belong to no single room."""

from __future__ import annotations

from django.urls import path

from omniweb.web import views

urlpatterns = [
    path("", views.overview_view, name="overview"),
    path("health/live", views.live_view, name="health_live"),
    path("health/ready", views.ready_view, name="health_ready"),
]
