"""Paths of the pages that belong to no single room."""

from __future__ import annotations

from django.urls import path

from omniweb.web import audit, people, views

urlpatterns = [
    path("", views.overview_view, name="overview"),
    path("audit", audit.audit_view, name="audit"),
    path("audit/verify", audit.verify_view, name="audit_verify"),
    path("people", people.people_view, name="people"),
    path("demo", views.demo_view, name="demo"),
    path("health/live", views.live_view, name="health_live"),
    path("health/ready", views.ready_view, name="health_ready"),
]
