"""Policies, their versions and simulations, decisions, requests, votes and grants."""

from __future__ import annotations

from approvals.models.decision import Decision
from approvals.models.grant import Grant
from approvals.models.policy import Policy, PolicyVersion
from approvals.models.request import Request, RequestKind, RequestState, Scope
from approvals.models.rule_hit import RuleHit
from approvals.models.shadow import Shadow, ShadowDecision
from approvals.models.simulation import Simulation, SimulationState
from approvals.models.vote import Verdict, Vote

__all__ = [
    "Decision",
    "Grant",
    "Policy",
    "PolicyVersion",
    "Request",
    "RequestKind",
    "RequestState",
    "RuleHit",
    "Scope",
    "Shadow",
    "ShadowDecision",
    "Simulation",
    "SimulationState",
    "Verdict",
    "Vote",
]
