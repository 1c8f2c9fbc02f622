"""Who may do what: one table, asked by every door."""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from enum import StrEnum

from omniweb.accounts.models import AgentIdentity, Role, Team, User
from omniweb.core.errors import NotPermitted


class Action(StrEnum):
    """Something an actor may or may not do in its team."""

    VIEW = "view"
    RECORD_AUDIT = "record.audit"
    REQUEST_DECIDE = "request.decide"
    RUN_END = "run.end"
    CONFIGURE = "configure"
    ADMINISTER = "administer"
    RUN = "run"


# What each action is called where people read of it: "may not …".
ACTION_WORDS: dict[Action, str] = {
    Action.VIEW: "see what the team does",
    Action.RECORD_AUDIT: "verify and annotate records",
    Action.REQUEST_DECIDE: "approve and reject requests",
    Action.RUN_END: "end runs",
    Action.CONFIGURE: "change agents, policies and environments",
    Action.ADMINISTER: "manage people and their tokens",
    Action.RUN: "open runs and execute",
}


class TokenScope(StrEnum):
    """What a token may be used for; never more than its holder's role allows."""

    READ = "read"
    DECIDE = "decide"
    OPERATE = "operate"
    ADMIN = "admin"
    RUN = "run"


ROLE_ACTIONS: dict[Role, frozenset[Action]] = {
    Role.VIEWER: frozenset({Action.VIEW}),
    Role.AUDITOR: frozenset({Action.VIEW, Action.RECORD_AUDIT}),
    Role.APPROVER: frozenset({Action.VIEW, Action.REQUEST_DECIDE}),
    Role.OPERATOR: frozenset({Action.VIEW, Action.RUN_END, Action.CONFIGURE}),
    Role.ADMIN: frozenset(set(Action) - {Action.RUN}),
}

AGENT_ACTIONS = frozenset({Action.RUN})

SCOPE_ACTIONS: dict[TokenScope, frozenset[Action]] = {
    TokenScope.READ: frozenset({Action.VIEW, Action.RECORD_AUDIT}),
    TokenScope.DECIDE: frozenset({Action.VIEW, Action.REQUEST_DECIDE}),
    TokenScope.OPERATE: frozenset({Action.VIEW, Action.RUN_END, Action.CONFIGURE}),
    TokenScope.ADMIN: frozenset(set(Action) - {Action.RUN}),
    TokenScope.RUN: AGENT_ACTIONS,
}


@dataclass(frozen=True, kw_only=True)
class Actor:
    """Who is acting, for which team, and with what authority."""

    team: Team
    user: User | None = None
    agent: AgentIdentity | None = None
    role: Role | None = None
    # None: signed in, everything the role allows. Otherwise the scopes of the token used.
    scopes: frozenset[TokenScope] | None = None

    @property
    def label(self) -> str:
        """How logs, steps and audit entries name the actor."""
        if self.user:
            return self.user.email
        return f"agent {self.agent.name}" if self.agent else "system"

    @property
    def team_id(self) -> uuid.UUID:
        """The key of the team acted for."""
        return self.team.id

    def may(self, action: Action) -> bool:
        """Whether role and token both allow an action."""
        if self.agent:
            allowed = AGENT_ACTIONS
        elif self.role:
            allowed = ROLE_ACTIONS[self.role]
        else:
            allowed = frozenset(Action) if self.user is None else frozenset()
        if action not in allowed:
            return False
        return self.scopes is None or any(action in SCOPE_ACTIONS[item] for item in self.scopes)

    def require(self, action: Action) -> None:
        """Raise NotPermitted, naming who could, unless the actor may do this."""
        if self.may(action):
            return
        roles = [role.value for role, actions in ROLE_ACTIONS.items() if action in actions]
        who = f" (roles that may: {', '.join(roles)})" if roles else ""
        raise NotPermitted(f"{self.label} may not {ACTION_WORDS[action]}{who}")


def system(team: Team) -> Actor:
    """The product itself, acting for a team: expiry, reconciling, first start."""
    return Actor(team=team)
