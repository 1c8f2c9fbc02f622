"""What people send from this room's pages."""

from __future__ import annotations

from typing import Any

from django import forms

from approvals.models import Scope, Verdict
from approvals.policy.source import MAX_BYTES
from approvals.services.policies import MAX_NAME
from approvals.services.votes import MAX_REASON
from omniweb.core.errors import InvalidInput

# Of a command that a text is asked about while it is written; the rest of it is not looked at.
MAX_COMMAND = 10_000


class DecideForm(forms.Form):
    """A verdict, bound by its token to the card it was made from."""

    verdict = forms.ChoiceField(choices=Verdict.choices)
    review_token = forms.CharField(max_length=64)
    scope = forms.ChoiceField(choices=Scope.choices, required=False)
    reason = forms.CharField(max_length=MAX_REASON, required=False)


class VersionForm(forms.Form):
    """A policy document, and why it is saved.

    The button says what becomes of it (`act`): `activate`, `draft`, or `check`, which saves
    nothing. A file that comes along replaces the text and is shown before anything is saved.
    """

    source = forms.CharField(
        label="Document",
        strip=False,
        widget=forms.Textarea(
            attrs={"rows": 28, "spellcheck": "false", "autocapitalize": "off", "class": "mono"}
        ),
        help_text="YAML or JSON. It is checked while you write, and as a whole before it is saved.",
    )
    note = forms.CharField(
        max_length=500,
        required=False,
        help_text="What changes and why; shown in the list of versions.",
    )
    upload = forms.FileField(
        label="From a file",
        required=False,
        allow_empty_file=True,
        help_text="Takes the place of the text; it is shown before it is saved.",
    )
    # Saved nowhere: what the text is asked while it is written.
    command = forms.CharField(
        label="Ask about a command",
        required=False,
        strip=False,
        widget=forms.TextInput(
            attrs={
                "class": "mono",
                "spellcheck": "false",
                "autocapitalize": "off",
                "maxlength": MAX_COMMAND,
            }
        ),
    )
    # The newest version its author knew of.
    base = forms.IntegerField(
        required=False, min_value=0, max_value=2_000_000_000, widget=forms.HiddenInput
    )
    field_order = ["note", "upload", "source", "base"]

    def clean_source(self) -> str:
        """Return the text with the line ends it was typed with; browsers send others."""
        return str(self.cleaned_data["source"]).replace("\r\n", "\n")

    def clean(self) -> dict[str, Any]:
        """Put the text of a file in the place of the one that was typed."""
        cleaned: dict[str, Any] = super().clean() or self.cleaned_data
        upload = cleaned.get("upload")
        if upload is None:
            return cleaned
        if upload.size > MAX_BYTES:
            self.add_error("upload", f"A policy has at most {MAX_BYTES} bytes")
            return cleaned
        try:
            text = upload.read().decode("utf-8-sig")
        except UnicodeDecodeError:
            self.add_error("upload", "This file is not text in UTF-8; the text below is unchanged")
            return cleaned
        if "\0" in text:
            self.add_error("upload", "This file holds null characters, so it is no policy")
            return cleaned
        self._change("source", text)
        self.errors.pop("source", None)
        cleaned["source"] = text
        return cleaned

    @property
    def is_to_be_saved(self) -> bool:
        """Whether the button that was pressed saves, and there is nothing new to look at."""
        return self.data.get("act") != "check" and not self.cleaned_data.get("upload")

    def saved(self) -> dict[str, Any]:
        """Return what to save."""
        wanted = {name: self.cleaned_data[name] for name in ("source", "note")}
        return wanted | {"activate": self.data.get("act") != "draft"}

    def text(self) -> str:
        """Return the document as it stands in the form."""
        return str(self["source"].value() or "")

    def rebase(self, number: int) -> None:
        """Let the next save go on top of a version its author has now been shown."""
        self._change("base", str(number))

    def refuse(self, error: InvalidInput) -> None:
        """Say that it was not saved; the page shows each problem beside the text."""
        for problem in error.problems:
            if problem.path == "name" and problem.line is None and "name" in self.fields:
                self.add_error("name", problem.message)
                return
        self.add_error("source", "Not saved: see what is wrong beside the text.")

    def _change(self, name: str, value: str) -> None:
        data: Any = self.data
        data = data.copy()
        data[name] = value
        self.data = data


class PolicyForm(VersionForm):
    """A new policy."""

    name = forms.CharField(
        max_length=MAX_NAME,
        required=False,
        help_text="How agents and pages refer to it. Left empty, the name in the document.",
    )
    field_order = ["name", "note", "upload", "source", "base"]

    def saved(self) -> dict[str, Any]:
        """Return what to save."""
        return super().saved() | {"name": self.cleaned_data["name"]}


class ActivateForm(forms.Form):
    """Why another version becomes the active one."""

    note = forms.CharField(max_length=500, required=False)
