"""What people send from the pages that look back: trying a policy on what was decided before."""

from __future__ import annotations

from datetime import UTC, date, datetime, time, timedelta
from typing import Any

from django import forms

from approvals.models import Policy
from approvals.over import Over
from approvals.policy.decision import AuthorityRequest
from approvals.questions import of_command, of_json
from approvals.services.shadows import MAX_HOURS
from omniweb.accounts.models import AgentIdentity
from omniweb.core.clock import now

DRAFT = "draft"
DEFAULT_DAYS = 7


class TryForm(forms.Form):
    """A text or a version, and the decisions to try it on.

    The editor sends only its `source`: what is not sent at all is at its default.
    """

    what = forms.ChoiceField(label="Try", required=False)
    source = forms.CharField(
        label="Text",
        strip=False,
        required=False,
        widget=forms.Textarea(
            attrs={"rows": 18, "spellcheck": "false", "autocapitalize": "off", "class": "mono"}
        ),
        help_text="Used where the text below is tried. Nothing is saved.",
    )
    since = forms.DateField(
        label="Decided from",
        required=False,
        widget=forms.DateInput(attrs={"type": "date"}),
        help_text="A day in UTC; empty for the beginning.",
    )
    until = forms.DateField(
        label="Until",
        required=False,
        widget=forms.DateInput(attrs={"type": "date"}),
        help_text="The last day that counts; empty for now.",
    )
    agent = forms.ModelChoiceField(
        AgentIdentity.objects.none(), required=False, empty_label="Any agent"
    )
    capability = forms.CharField(
        max_length=100, required=False, help_text="Such as process.exec or sandbox.*"
    )
    under = forms.TypedChoiceField(label="Decided under", coerce=int, empty_value=None)
    everywhere = forms.BooleanField(
        label="Also what other policies decided",
        required=False,
        help_text="To see what this policy would do for agents that are not under it yet.",
    )

    def __init__(self, *args: Any, policy: Policy, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        numbers = list(policy.versions.order_by("-number").values_list("number", flat=True))
        active = policy.active_version.number if policy.active_version else None
        named = [
            (str(one), f"Version {one}" + (", active" if one == active else "")) for one in numbers
        ]
        self.fields["what"].choices = [(DRAFT, "The text below"), *named]  # type: ignore[attr-defined]
        self.fields["under"].choices = [("", "Any version"), *named]  # type: ignore[attr-defined]
        self.fields["under"].required = False
        self.fields["agent"].queryset = AgentIdentity.objects.filter(  # type: ignore[attr-defined]
            team_id=policy.team_id
        ).order_by("name")

    @property
    def version_number(self) -> int | None:
        """The version to try, None for the text."""
        what = self.cleaned_data.get("what") or DRAFT
        return None if what == DRAFT else int(what)

    def over(self) -> Over:
        """Return which decisions it is tried on."""
        said = self.cleaned_data
        since = said["since"] if "since" in self.data else first_day()
        until = said["until"]
        return Over(
            everywhere=said["everywhere"],
            agent=said["agent"],
            since=_midnight(since) if since else None,
            until=_midnight(until + timedelta(days=1)) if until else None,
            capability=said["capability"].strip(),
            under=said["under"],
        )


def first_day() -> date:
    """Return the day from which decisions are tried where nobody says otherwise."""
    return (now() - timedelta(days=DEFAULT_DAYS)).date()


def _midnight(day: date) -> datetime:
    return datetime.combine(day, time.min, tzinfo=UTC)


class ExplainForm(forms.Form):
    """A question to a policy: a shell line, or a request as JSON."""

    command = forms.CharField(
        required=False,
        strip=False,
        max_length=100_000,
        widget=forms.Textarea(attrs={"rows": 3, "spellcheck": "false", "class": "mono"}),
        help_text="A shell line, as an agent would run it in a sandbox.",
    )
    request = forms.CharField(
        label="Or a whole request",
        required=False,
        strip=False,
        max_length=100_000,
        widget=forms.Textarea(attrs={"rows": 6, "spellcheck": "false", "class": "mono"}),
        help_text="An authority request as JSON. It counts where there is no command.",
    )
    version = forms.TypedChoiceField(coerce=int, empty_value=None, required=False)

    def __init__(self, *args: Any, policy: Policy, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        numbers = policy.versions.order_by("-number").values_list("number", flat=True)
        named = [(str(one), f"Version {one}") for one in numbers]
        self.fields["version"].choices = [("", "The active version"), *named]  # type: ignore[attr-defined]

    def clean(self) -> dict[str, Any]:
        """Refuse a question that is none."""
        said = self.cleaned_data
        if not said.get("command", "").strip() and not said.get("request", "").strip():
            self.add_error("command", "Type a command, or below it a whole request.")
        return said

    def question(self) -> AuthorityRequest:
        """Return what is asked; raises InvalidInput."""
        said = self.cleaned_data
        return of_command(said["command"]) if said["command"].strip() else of_json(said["request"])


class ShadowForm(forms.Form):
    """Which version decides in the shadow, and for how long."""

    version = forms.IntegerField(min_value=1, max_value=1_000_000)
    hours = forms.IntegerField(min_value=1, max_value=MAX_HOURS)
