"""Standing yeses: seeing and revoking them."""

from __future__ import annotations

from django.contrib import messages
from django.http import HttpResponse, HttpResponseRedirect
from django.urls import reverse
from django.views.decorators.http import require_GET, require_POST

from approvals.selectors import grants_visible
from approvals.services.grants import grant_revoke
from omniweb.accounts.http import Request, door
from omniweb.accounts.permissions import Action
from omniweb.core.htmx import page
from omniweb.core.pagination import paginate


@require_GET
@door(Action.VIEW)
def grants_view(request: Request) -> HttpResponse:
    """Every standing yes, newest first."""
    found = paginate(
        grants_visible(request.actor).select_related("trajectory", "request__version__policy"),
        request.GET.get("cursor") or None,
    )
    context = {
        "grants": found.items,
        "older": f"?cursor={found.next_cursor}" if found.next_cursor else "",
        "newer": reverse("grants") if request.GET.get("cursor") else "",
        "may_decide": request.actor.may(Action.REQUEST_DECIDE),
        "may_configure": request.actor.may(Action.CONFIGURE),
    }
    return page(request, "approvals/grants.html", context)


@require_POST
@door(Action.REQUEST_DECIDE)
def grant_revoke_view(request: Request, ref: str) -> HttpResponse:
    """End a standing yes."""
    grant = grants_visible(request.actor).by_ref(ref)
    if grant_revoke(actor=request.actor, grant=grant):
        messages.success(request, "Revoked. The next time, it asks again.")
    else:
        messages.info(request, "It was revoked already.")
    return HttpResponseRedirect(reverse("grants"))
