"""The three built-in policies, read-only: duplicate one to edit it."""

from __future__ import annotations

from approvals.policy.profiles.profiles import PROFILES, profile_document, profile_source

__all__ = ["PROFILES", "profile_document", "profile_source"]
