"""Agents: who they are, under which policy and where they run, and how they connect."""

from __future__ import annotations

from typing import Any

from django.contrib import messages
from django.db.models import Count, Max, Q
from django.http import HttpResponse, HttpResponseRedirect
from django.urls import reverse
from django.views.decorators.http import require_GET, require_http_methods, require_POST

from omniweb.accounts.http import Request, door
from omniweb.accounts.models import AgentIdentity
from omniweb.accounts.permissions import Action
from omniweb.accounts.selectors import agents_visible, tokens_visible
from omniweb.accounts.services import token_create, token_revoke
from omniweb.core.clock import now
from omniweb.core.errors import OmniWebError
from omniweb.core.htmx import page
from sandboxes.forms.agents import AgentForm, ProfileForm, TokenForm, refuse
from sandboxes.models import Profile
from sandboxes.selectors import profiles_visible, runs_visible
from sandboxes.services.profiles import agent_register, profile_set
from sandboxes.views.snippets import snippets
from sandboxes.views.words import place_of


@require_GET
@door(Action.VIEW)
def agents_view(request: Request) -> HttpResponse:
    """The agents of the team."""
    live = Q(runs__state__in=["opening", "active", "waiting", "finishing"])
    agents = (
        agents_visible(request.actor)
        .select_related("profile__policy", "profile__environment")
        .annotate(last_run_at=Max("runs__created_at"), live_count=Count("runs", filter=live))
        .order_by("name")
    )
    context = {"agents": agents, "may_configure": request.actor.may(Action.CONFIGURE)}
    return page(request, "sandboxes/agents.html", context)


@require_http_methods(["GET", "POST"])
@door(Action.CONFIGURE)
def new_view(request: Request) -> HttpResponse:
    """Register an agent."""
    form = AgentForm(request.actor, request.POST or None)
    if request.method == "POST" and form.is_valid():
        try:
            agent = agent_register(actor=request.actor, **form.cleaned_data)
        except OmniWebError as error:
            refuse(form, error)
        else:
            return HttpResponseRedirect(reverse("agent_connect", args=[agent.ref]))
    status = 422 if form.errors else 200
    return page(request, "sandboxes/agent_new.html", {"form": form}, status=status)


@require_GET
@door(Action.VIEW)
def agent_view(request: Request, ref: str) -> HttpResponse:
    """One agent: its profile, tokens and runs."""
    return _agent_page(request, agents_visible(request.actor).by_ref(ref))


def _agent_page(
    request: Request, agent: AgentIdentity, form: ProfileForm | None = None
) -> HttpResponse:
    profile = _profile(request, agent)
    runs = runs_visible(request.actor).filter(agent=agent)
    context: dict[str, Any] = {
        "agent": agent,
        "profile": profile,
        "form": form or ProfileForm(request.actor, initial=_initial(profile)),
        "tokens": tokens_visible(request.actor).filter(agent=agent).order_by("-id"),
        "now": now(),
        "runs": [{"run": run, "place": place_of(run)} for run in runs[:10]],
        "run_count": runs.count(),
        "may_configure": request.actor.may(Action.CONFIGURE),
    }
    status = 422 if form and form.errors else 200
    return page(request, "sandboxes/agent.html", context, status=status)


def _profile(request: Request, agent: AgentIdentity) -> Profile | None:
    return profiles_visible(request.actor).filter(agent=agent).first()


def _initial(profile: Profile | None) -> dict[str, Any]:
    return {"policy": profile.policy, "environment": profile.environment} if profile else {}


@require_POST
@door(Action.CONFIGURE)
def profile_view(request: Request, ref: str) -> HttpResponse:
    """Choose policy and environment anew."""
    agent = agents_visible(request.actor).by_ref(ref)
    form = ProfileForm(request.actor, request.POST)
    if not form.is_valid():
        return _agent_page(request, agent, form)
    profile_set(actor=request.actor, agent=agent, **form.cleaned_data)
    messages.success(request, "Saved. It holds for runs opened from now on.")
    return HttpResponseRedirect(reverse("agent", args=[agent.ref]))


@require_http_methods(["GET", "POST"])
@door(Action.CONFIGURE)
def connect_view(request: Request, ref: str) -> HttpResponse:
    """Show how to connect an agent; a POST makes a token and shows it this once."""
    agent = agents_visible(request.actor).by_ref(ref)
    form = TokenForm(request.POST or None)
    secret = ""
    if request.method == "POST" and form.is_valid():
        _, secret = token_create(
            actor=request.actor,
            agent=agent,
            label=form.cleaned_data["label"],
            expires_at=form.expires_at(),
        )
    profile = _profile(request, agent)
    context = {
        "agent": agent,
        "profile": profile,
        "form": form,
        "secret": secret,
        "snippets": snippets(agent, profile, secret),
    }
    response = page(request, "sandboxes/agent_connect.html", context)
    # Neither a proxy nor the browser's history may keep a secret that is shown once.
    response["Cache-Control"] = "private, no-store"
    return response


@require_POST
@door(Action.CONFIGURE)
def revoke_view(request: Request, ref: str, token: str) -> HttpResponse:
    """End a token at once."""
    agent = agents_visible(request.actor).by_ref(ref)
    row = tokens_visible(request.actor).filter(agent=agent).by_ref(token)
    if token_revoke(actor=request.actor, token=row):
        messages.success(request, f"The token {row.start}… no longer works.")
    return HttpResponseRedirect(reverse("agent", args=[agent.ref]))
