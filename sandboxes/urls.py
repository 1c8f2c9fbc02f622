"""Paths of runs, environments, secrets, providers, sandboxes and agents."""

from __future__ import annotations

from django.urls import path

from sandboxes.views import (
    agents,
    circuits,
    environments,
    prices,
    providers,
    runs,
    sandboxes,
    secrets,
)

urlpatterns = [
    path("runs", runs.runs_view, name="runs"),
    path("runs/<str:ref>", runs.run_view, name="run"),
    path("runs/<str:ref>/end", runs.end_view, name="run_end"),
    path("runs/<str:ref>/trajectory.json", runs.trajectory_view, name="run_trajectory"),
    path("environments", environments.environments_view, name="environments"),
    path("environments/new", environments.new_view, name="environment_new"),
    path("environments/check", environments.check_view, name="environment_check"),
    path("environments/secrets", secrets.secrets_view, name="secrets"),
    path("environments/secrets/new", secrets.new_view, name="secret_new"),
    path("environments/secrets/<str:ref>", secrets.secret_view, name="secret"),
    path("environments/secrets/<str:ref>/replace", secrets.replace_view, name="secret_replace"),
    path("environments/secrets/<str:ref>/archive", secrets.archive_view, name="secret_archive"),
    path("environments/<str:ref>", environments.environment_view, name="environment"),
    path("environments/<str:ref>/edit", environments.edit_view, name="environment_edit"),
    path("environments/<str:ref>/switch", environments.switch_view, name="environment_switch"),
    path(
        "environments/<str:ref>/test/cancel",
        environments.test_cancel_view,
        name="environment_test_cancel",
    ),
    path("environments/<str:ref>/capacity", environments.capacity_view, name="capacity"),
    path("environments/<str:ref>/test", environments.test_view, name="environment_test"),
    path("environments/<str:ref>/here", environments.here_view, name="environment_here"),
    path("providers", providers.providers_view, name="providers"),
    path("providers/<str:name>/here", providers.here_view, name="provider_here"),
    path("sandboxes", sandboxes.sandboxes_view, name="sandboxes"),
    path("sandboxes/<str:ref>", sandboxes.sandbox_view, name="sandbox"),
    path("sandboxes/<str:ref>/end", sandboxes.end_view, name="sandbox_end"),
    path("sandboxes/<str:ref>/pause", sandboxes.pause_view, name="sandbox_pause"),
    path("sandboxes/<str:ref>/wake", sandboxes.wake_view, name="sandbox_wake"),
    path("prices", prices.set_view, name="price_set"),
    path("prices/<str:ref>/remove", prices.remove_view, name="price_remove"),
    path("circuits/<str:ref>/close", circuits.close_view, name="circuit_close"),
    path("agents", agents.agents_view, name="agents"),
    path("agents/new", agents.new_view, name="agent_new"),
    path("agents/<str:ref>", agents.agent_view, name="agent"),
    path("agents/<str:ref>/profile", agents.profile_view, name="agent_profile"),
    path("agents/<str:ref>/connect", agents.connect_view, name="agent_connect"),
    path("agents/<str:ref>/tokens/<str:token>/revoke", agents.revoke_view, name="token_revoke"),
]
