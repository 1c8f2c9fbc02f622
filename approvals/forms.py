"""What people send from this room's pages."""

from __future__ import annotations

from django import forms

from approvals.models import Scope, Verdict
from approvals.services.votes import MAX_REASON


class DecideForm(forms.Form):
    """A verdict, bound by its token to the card it was made from."""

    verdict = forms.ChoiceField(choices=Verdict.choices)
    review_token = forms.CharField(max_length=64)
    scope = forms.ChoiceField(choices=Scope.choices, required=False)
    reason = forms.CharField(max_length=MAX_REASON, required=False)


class VersionForm(forms.Form):
    """A policy document, and why it is saved."""

    source = forms.CharField(
        label="Document",
        strip=False,
        widget=forms.Textarea(
            attrs={"rows": 28, "spellcheck": "false", "autocapitalize": "off", "class": "mono"}
        ),
        help_text="YAML or JSON. It is checked as a whole before it is saved.",
    )
    note = forms.CharField(
        max_length=500,
        required=False,
        help_text="What changes and why; shown in the list of versions.",
    )


class PolicyForm(VersionForm):
    """A new policy."""

    name = forms.CharField(max_length=100, help_text="How agents and pages refer to it.")
    field_order = ["name", "note", "source"]


class ActivateForm(forms.Form):
    """Why another version becomes the active one."""

    note = forms.CharField(max_length=500, required=False)
