"""Who belongs to the team, for its admins."""

from __future__ import annotations

from django import forms
from django.conf import settings
from django.http import HttpResponse
from django.urls import reverse
from django.views.decorators.http import require_http_methods

from omniweb.accounts.http import Request, door
from omniweb.accounts.models import Role, User
from omniweb.accounts.permissions import ROLE_ACTIONS, Action
from omniweb.accounts.selectors import members
from omniweb.accounts.services import LINK_LIFETIME, link_create, user_create
from omniweb.core.errors import OmniWebError
from omniweb.core.htmx import page

ROLE_WORDS = {
    Role.VIEWER: "sees everything of the team",
    Role.AUDITOR: "sees everything, verifies records and adds remarks",
    Role.APPROVER: "decides requests",
    Role.OPERATOR: "configures policies, environments and agents, and ends runs",
    Role.ADMIN: "all of it, and invites people",
}
if set(ROLE_WORDS) != set(ROLE_ACTIONS):
    raise RuntimeError("every role needs its words")


class InviteForm(forms.Form):
    """Someone new and what they may do."""

    email = forms.CharField(
        max_length=254, label="E-mail address", widget=forms.EmailInput({"autocomplete": "off"})
    )
    role = forms.ChoiceField(
        choices=[(role.value, f"{role.label}: {words}") for role, words in ROLE_WORDS.items()]
    )


@require_http_methods(["GET", "POST"])
@door(Action.ADMINISTER)
def people_view(request: Request) -> HttpResponse:
    """List the members; a POST invites one and shows a sign-in link this once."""
    form = InviteForm(request.POST or None)
    invited: User | None = None
    if request.method == "POST" and form.is_valid():
        try:
            invited = user_create(
                actor=request.actor,
                email=form.cleaned_data["email"],
                role=Role(form.cleaned_data["role"]),
            )
        except OmniWebError as error:
            form.add_error("email", error.detail)
        else:
            form = InviteForm()
    context = {
        "members": members(request.actor.team),
        "form": form,
        "invited": invited,
        "link": _link(invited) if invited and _is_new(invited) else "",
        "link_hours": int(LINK_LIFETIME.total_seconds() // 3600),
        "role_words": [(role.value, words) for role, words in ROLE_WORDS.items()],
    }
    status = 422 if form.errors else 200
    response = page(request, "accounts/people.html", context, status=status)
    # The link signs someone in: nothing may keep the page.
    response["Cache-Control"] = "private, no-store"
    return response


def _is_new(user: User) -> bool:
    # A link for someone who was here before would let one team's admin into another team.
    return user.last_login is None and user.memberships.count() == 1


def _link(user: User) -> str:
    path = reverse("sign_in_link", args=[link_create(user=user)])
    return f"{settings.PUBLIC_URL}{path}"
