"""Paths of the inbox, of policies, decisions and grants."""

from __future__ import annotations

from django.urls import path

from approvals.views import (
    decisions,
    editing,
    grants,
    history,
    inbox,
    policies,
    shadows,
    suggestions,
    versions,
)

urlpatterns = [
    path("inbox", inbox.inbox_view, name="inbox"),
    path("inbox/count", inbox.inbox_count_view, name="inbox_count"),
    path("inbox/<str:ref>", inbox.inbox_view, name="request"),
    path("inbox/<str:ref>/decide", inbox.decide_view, name="request_decide"),
    path("policies", policies.policies_view, name="policies"),
    path("policies/new", editing.policy_new_view, name="policy_new"),
    path("policies/check", editing.check_view, name="policy_check"),
    path("policies/vocabulary", editing.vocabulary_view, name="policy_vocabulary"),
    path("policies/<str:ref>", policies.policy_view, name="policy"),
    path("policies/<str:ref>/new", editing.version_new_view, name="version_new"),
    path("policies/<str:ref>/archive", policies.archive_view, name="policy_archive"),
    path("policies/<str:ref>/restore", policies.restore_view, name="policy_restore"),
    path(
        "policies/<str:ref>/second-person",
        policies.second_person_view,
        name="policy_second_person",
    ),
    path("policies/<str:ref>/<int:number>/export", versions.export_view, name="version_export"),
    path("policies/<str:ref>/diff", versions.diff_view, name="policy_diff"),
    path("policies/<str:ref>/<int:number>", policies.policy_view, name="policy_version"),
    path(
        "policies/<str:ref>/<int:number>/activate", policies.activate_view, name="version_activate"
    ),
    path("policies/<str:ref>/try", history.try_view, name="policy_try"),
    path("policies/<str:ref>/explain", history.explain_view, name="policy_explain"),
    path("policies/<str:ref>/rules/<path:rule_id>", history.rule_view, name="policy_rule"),
    path("policies/<str:ref>/suggest", suggestions.suggest_view, name="policy_suggest"),
    path("policies/<str:ref>/shadow", shadows.shadow_start_view, name="shadow_start"),
    path("shadows/<str:ref>", shadows.shadow_view, name="shadow"),
    path("shadows/<str:ref>/end", shadows.shadow_end_view, name="shadow_end"),
    path("simulations/<str:ref>", history.simulation_view, name="simulation"),
    path("simulations/<str:ref>/cancel", history.simulation_cancel_view, name="simulation_cancel"),
    path("decisions/<str:ref>", decisions.decision_view, name="decision"),
    path("grants", grants.grants_view, name="grants"),
    path("grants/<str:ref>/revoke", grants.grant_revoke_view, name="grant_revoke"),
]
