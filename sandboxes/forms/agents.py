"""Forms about agents: who they are, under which policy and where they run, and their tokens."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from django import forms

from approvals.models import Policy
from approvals.selectors import policies_kept
from omniweb.accounts.models import User
from omniweb.accounts.permissions import Actor
from omniweb.accounts.selectors import members
from omniweb.core.clock import now
from omniweb.core.errors import InvalidInput, OmniWebError
from sandboxes.models import Environment
from sandboxes.selectors import environments_visible

if TYPE_CHECKING:
    _ModelChoiceField = forms.ModelChoiceField[Any]
else:
    # Generic for the type checker only.
    _ModelChoiceField = forms.ModelChoiceField


DEFAULT_POLICY = "interactive-dev"


class _NamedField(_ModelChoiceField):
    def label_from_instance(self, obj: Any) -> str:
        """Say what is off, so that nobody wonders why no run opens."""
        is_off = isinstance(obj, Environment) and not obj.is_enabled
        return f"{obj} (off)" if is_off else str(obj)


class ProfileForm(forms.Form):
    """Under which policy and in which environment an agent runs."""

    policy = _NamedField(Policy.objects.none(), help_text="Decides what the agent may do.")
    environment = _NamedField(
        Environment.objects.none(), help_text="Where its commands run, once they may."
    )

    def __init__(self, actor: Actor, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.offer("policy", policies_kept(actor))
        self.offer("environment", environments_visible(actor))

    def offer(self, name: str, rows: Any) -> None:
        """Set what a field lets choose from."""
        field: Any = self.fields[name]
        field.queryset = rows


class AgentForm(ProfileForm):
    """A new agent with its profile."""

    name = forms.CharField(
        max_length=100, help_text="How people see it in the inbox, such as fix-bot."
    )
    owner = _NamedField(
        User.objects.none(), help_text="The person who answers for what the agent does."
    )

    field_order = ("name", "owner", "policy", "environment")

    def __init__(self, actor: Actor, *args: Any, **kwargs: Any) -> None:
        super().__init__(actor, *args, **kwargs)
        people = User.objects.filter(pk__in=members(actor.team).values("user"), is_active=True)
        self.offer("owner", people.order_by("email"))
        if actor.user:
            self.initial.setdefault("owner", actor.user)
        policy = policies_kept(actor).filter(name=DEFAULT_POLICY).first()
        self.initial.setdefault("policy", policy)
        environment = environments_visible(actor).filter(is_enabled=True).first()
        self.initial.setdefault("environment", environment)


LIFETIMES = {"1": "1 day", "30": "30 days", "90": "90 days", "365": "a year", "": "no end"}


class TokenForm(forms.Form):
    """A new token of an agent."""

    label = forms.CharField(
        required=False, max_length=100, help_text="Where it will be used, such as laptop or CI."
    )
    lifetime = forms.ChoiceField(
        required=False, choices=list(LIFETIMES.items()), initial="90", label="Expires after"
    )

    def expires_at(self) -> datetime | None:
        """Return when the token ends; call it once the form is valid."""
        days = self.cleaned_data["lifetime"]
        return now() + timedelta(days=int(days)) if days else None


def refuse(form: forms.Form, error: OmniWebError) -> None:
    """Show what a service refused, at the fields it is about."""
    if not isinstance(error, InvalidInput):
        form.add_error(None, error.detail)
        return
    for problem in error.problems:
        form.add_error(problem.path if problem.path in form.fields else None, problem.message)
