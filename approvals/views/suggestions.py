"""From approvals to a rule: what people said yes to, and the narrowest rules that cover it."""

from __future__ import annotations

from django.http import HttpResponse
from django.views.decorators.http import require_http_methods

from approvals.approved import approved, suggestion
from approvals.policy.writing import written
from approvals.selectors import policies_visible
from approvals.services.decisions import target_text
from omniweb.accounts.http import Request, door
from omniweb.accounts.permissions import Action
from omniweb.core.errors import InvalidInput
from omniweb.core.htmx import page


@require_http_methods(["GET", "POST"])
@door(Action.CONFIGURE)
def suggest_view(request: Request, ref: str) -> HttpResponse:
    """Choose among what was approved; a POST answers with rules, and saves nothing."""
    policy = policies_visible(request.actor).by_ref(ref)
    chosen = request.POST.getlist("requests")
    context = {"policy": policy, "approved": approved(policy), "chosen": chosen}
    if request.method == "POST":
        try:
            found = suggestion(policy, chosen)
        except InvalidInput as error:
            context["error"] = error.detail
            return page(request, "approvals/suggest.html", context, status=422)
        context |= {
            "found": found,
            "rules": written(found.rules) if found.rules else "",
            "covered": [
                target_text(one.request) or one.request.capability for one in found.covered
            ],
            "left": [
                (target_text(one.request) or one.request.capability, one) for one in found.left
            ],
        }
    return page(request, "approvals/suggest.html", context)
