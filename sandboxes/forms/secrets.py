"""Forms about secrets: what is written once, and what may be written again."""

from __future__ import annotations

from typing import Any

from django import forms

from sandboxes.services.secrets import HEADER, TEMPLATE


class ValueForm(forms.Form):
    """The value of a secret; it is never sent back, not even with what was wrong."""

    value = forms.CharField(
        strip=False,
        widget=forms.Textarea(
            {"rows": 3, "class": "mono", "spellcheck": "false", "autocomplete": "off"}
        ),
        help_text="Kept encrypted, and shown to nobody from here on.",
    )

    def __init__(self, data: Any = None) -> None:
        super().__init__(data)
        self.fields["value"].widget.format_value = lambda value: ""

    def clean_value(self) -> str:
        """Read the value, with the line breaks of the file it came from."""
        value: str = self.cleaned_data["value"]
        return value.replace("\r\n", "\n")


class SecretForm(ValueForm):
    """A new secret."""

    name = forms.CharField(
        max_length=100,
        help_text="What environments refer to it by: like a variable, such as GITHUB_TOKEN.",
    )
    description = forms.CharField(
        required=False, max_length=200, help_text="What it opens, and where to get another."
    )
    hosts = forms.CharField(
        required=False,
        widget=forms.Textarea({"rows": 2, "class": "mono"}),
        help_text=(
            "Where it may be sent, one a line, such as api.github.com. E2B, Daytona and Vercel need "
            "them: they add it to requests to these hosts, and no command ever sees it. Where "
            "commands read it (Docker, Modal), the network may then reach no other host."
        ),
    )
    header = forms.CharField(
        max_length=100, initial=HEADER, help_text="Carries it to its hosts (E2B, Vercel)."
    )
    template = forms.CharField(
        max_length=200,
        initial=TEMPLATE,
        label="The header says",
        help_text="With {} where the value goes.",
    )
    field_order = ("name", "value", "description", "hosts", "header", "template")

    def clean_hosts(self) -> list[str]:
        """Read one host a line."""
        hosts: str = self.cleaned_data["hosts"]
        return hosts.replace(",", " ").split()
