"""Paths of the record."""

from __future__ import annotations

from django.urls import path

from trajectories import views

urlpatterns = [
    path("trajectories/<str:ref>/steps", views.steps_view, name="trajectory_steps"),
    path("trajectories/<str:ref>/steps/<int:seq>.json", views.step_view, name="trajectory_step"),
    path("trajectories/<str:ref>/blobs/<str:digest>", views.blob_view, name="trajectory_blob"),
    path("trajectories/<str:ref>/verify", views.verify_view, name="trajectory_verify"),
    path(
        "trajectories/<str:ref>/annotations", views.annotation_view, name="trajectory_annotations"
    ),
]
