"""What the editor begins with when a page sends people there with something to add."""

from __future__ import annotations

from approvals.findings import asked_text
from approvals.models import Decision, Policy
from approvals.policy.decision import Effect
from approvals.policy.drafting import with_test
from approvals.policy.simulate import recorded_request
from approvals.selectors import decisions_visible, simulations_visible
from omniweb.accounts.http import Request
from omniweb.core.canonical import canonical_json
from omniweb.core.errors import Conflict, InvalidInput


def text_to_edit(request: Request, policy: Policy, default: str) -> str:
    """Return the text to begin with: a simulation's (`?simulation=`), else `default`.

    `?decision=…&expect=…` adds what was asked then as a kept test. Raises Conflict where a secret
    was masked in it, so that nobody can ask it again.
    """
    text = default
    if simulation := request.GET.get("simulation"):
        rows = simulations_visible(request.actor).filter(policy=policy)
        text = rows.by_ref(simulation).source
    if decision := request.GET.get("decision"):
        row = decisions_visible(request.actor).by_ref(decision)
        return _with_kept(text, row, request.GET.get("expect", ""))
    return text


def _with_kept(text: str, decision: Decision, expect: str) -> str:
    if expect not in list(Effect):
        raise InvalidInput("`expect` must be allow, ask or deny")
    question = canonical_json(decision.authority_request).decode()
    if recorded_request(question) is None:
        raise Conflict("A secret in it was masked when it was recorded, so it makes no test")
    # No rule looks at the metadata, and it would fill the document.
    asked = {
        name: value for name, value in decision.authority_request.items() if name != "metadata"
    }
    name = f"{asked_text(decision)[:120]} ({decision.created_at:%Y-%m-%d})"
    return with_test(text, name=name, request=asked, expect=expect)
