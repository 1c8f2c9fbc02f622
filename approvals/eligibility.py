"""May this actor decide this request, and if not, why. Every door and button asks here."""

from __future__ import annotations

from approvals.models import Request
from omniweb.accounts.permissions import ROLE_ACTIONS, Action, Actor


def why_not_decide(actor: Actor, request: Request) -> str | None:
    """Return why an actor may not decide a request, as a sentence; None when they may.

    Separation of duties has no exceptions: an admin who owns the agent is its owner.
    """
    if actor.agent or not actor.user:
        return "Only a person may decide; an agent's token never can"
    if not actor.may(Action.REQUEST_DECIDE):
        roles = [role.value for role, acts in ROLE_ACTIONS.items() if Action.REQUEST_DECIDE in acts]
        return f"Deciding needs the role {' or '.join(roles)}"
    wanted = request.terms.get("roles") or []
    if wanted and actor.role and actor.role.value not in wanted:
        return f"The policy wants the role {' or '.join(wanted)} for this"
    is_owner = request.owner_id == actor.user.pk
    if is_owner and (request.terms.get("exclude_owner") or request.terms.get("exclude_requester")):
        return "You own this agent, and the policy wants someone else to decide"
    return None
