"""Forms that know each provider: what a person types becomes options and a manifest."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from django import forms

from omniweb.core.errors import InvalidInput, Problem
from sandboxes.capabilities import Setting, check_when_saved
from sandboxes.forms.fields import (
    is_default,
    manifest_read,
    manifest_written,
    option_field,
    option_read,
    option_written,
)
from sandboxes.manifest import Manifest
from sandboxes.providers.spec import Kind, ProviderSpec
from sandboxes.secrecy import HIDDEN, hidden, revealed

# Problem path, without "manifest.", → the field it is shown at; the longest match wins.
_FIELD_OF = {
    "name": "name",
    "image": "image",
    "working_dir": "working_dir",
    "workspace_mount": "mount_source",
    "workspace_mount.target": "mount_target",
    "workspace_mount.mode": "mount_mode",
    "network_policy": "network",
    "network_policy.default": "network",
    "network_policy.allowed_hosts": "allowed_hosts",
    "network_policy.denied_hosts": "denied_hosts",
    "environment.plain": "variables",
    "environment.secret_refs": "secret_refs",
    "resources.cpu": "cpu",
    "resources.memory": "memory",
    "resources.gpu": "gpu",
    "options": "options",
    "manifest": "manifest",
}
_SETTING_OF = {
    "image": Setting.IMAGE,
    "network": Setting.NETWORK_OFF,
    "allowed_hosts": Setting.ALLOWED_HOSTS,
    "denied_hosts": Setting.DENIED_HOSTS,
    "mount_source": Setting.WORKSPACE_MOUNT,
    "mount_target": Setting.WORKSPACE_MOUNT,
    "mount_mode": Setting.WORKSPACE_MOUNT,
    "secret_refs": Setting.SECRETS,
    "cpu": Setting.CPU,
    "memory": Setting.MEMORY,
    "gpu": Setting.GPU,
}


@dataclass(frozen=True, kw_only=True)
class Draft:
    """What the services are asked to save."""

    name: str
    options: dict[str, Any]
    manifest: dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class Stored:
    """What is kept of an environment already; empty for a new one."""

    name: str
    options: Mapping[str, Any]
    manifest: Mapping[str, Any]


NOTHING = Stored(name="", options={}, manifest={})


def draft_problems(spec: ProviderSpec, draft: Draft) -> list[Problem]:
    """Return all that saving a draft would be refused for, in the services' own words."""
    problems: list[Problem] = []
    try:
        spec.read_options(draft.options)
    except InvalidInput as error:
        problems += error.problems
    try:
        manifest = Manifest.parse(draft.manifest)
        problems += spec.refuses(draft.options, manifest)
        check_when_saved(spec.name, spec.enforces, manifest)
    except InvalidInput as error:
        problems += error.problems
    return problems


class DraftForm(forms.Form):
    """What both ways of writing an environment have: its name, and refusals at their fields."""

    name = forms.CharField(
        required=False, max_length=100, help_text="How agents' profiles name it."
    )

    def __init__(self, spec: ProviderSpec, stored: Stored, data: Any = None) -> None:
        super().__init__(data)
        self.spec = spec
        self.stored = stored
        self.shown = Stored(
            name=stored.name,
            options=hidden(stored.options, spec.secret_options),
            manifest=hidden(stored.manifest),
        )
        self.initial = {"name": stored.name}
        if stored.name:
            self.fields["name"].disabled = True

    def refuse(self, problems: Iterable[Problem]) -> None:
        """Show problems at the fields they are about, the rest above the form."""
        for problem in problems:
            suggestion = f" {problem.suggestion}" if problem.suggestion else ""
            self.add_error(self._field_of(problem.path), problem.message + suggestion)

    def _field_of(self, path: str) -> str | None:
        path = path.removeprefix("manifest.")
        if path.startswith("options.") and (name := f"option_{path.split('.')[1]}") in self.fields:
            return name
        matches = [known for known in _FIELD_OF if path == known or path.startswith(f"{known}.")]
        field = _FIELD_OF[max(matches, key=len)] if matches else None
        return field if field in self.fields else None

    def draft(self) -> Draft:
        """Return what was written, secrets that were not shown put back; the form must be valid."""
        written = self.written()
        return Draft(
            name=written.name,
            options=revealed(written.options, self.stored.options),
            manifest=revealed(written.manifest, self.stored.manifest),
        )

    def written(self) -> Draft:
        """Return what the fields say."""
        raise NotImplementedError


class JsonForm(DraftForm):
    """Options and manifest as JSON, for whatever the other form has no field for."""

    options = forms.CharField(
        required=False, widget=forms.Textarea({"rows": 8, "spellcheck": "false", "class": "mono"})
    )
    manifest = forms.CharField(
        required=False, widget=forms.Textarea({"rows": 16, "spellcheck": "false", "class": "mono"})
    )

    def __init__(self, spec: ProviderSpec, stored: Stored, data: Any = None) -> None:
        super().__init__(spec, stored, data)
        self.initial["options"] = json.dumps(self.shown.options, indent=2)
        self.initial["manifest"] = json.dumps(self.shown.manifest, indent=2)
        self.fields["options"].help_text = f"A secret that reads {HIDDEN} stays as it is."

    def clean_options(self) -> dict[str, Any]:
        """Read the options."""
        return _object(self.cleaned_data["options"])

    def clean_manifest(self) -> dict[str, Any]:
        """Read the manifest."""
        return _object(self.cleaned_data["manifest"])

    def written(self) -> Draft:
        """Return what the fields say."""
        data = self.cleaned_data
        return Draft(name=data["name"], options=data["options"], manifest=data["manifest"])


def _object(text: str) -> dict[str, Any]:
    try:
        value = json.loads(text or "{}")
    except ValueError as error:
        raise forms.ValidationError(f"This is not JSON: {error}") from None
    if not isinstance(value, dict):
        raise forms.ValidationError('This has to be a JSON object: {"name": value, …}')
    return value


class EnvironmentForm(DraftForm):
    """A provider's options and a manifest, a field for each."""

    image = forms.CharField(
        required=False, help_text="Wins over the image among the provider's options."
    )
    working_dir = forms.CharField(
        required=False,
        label="Working directory",
        help_text="Absolute; where commands start and files are copied. /workspace if empty.",
    )
    network = forms.ChoiceField(
        required=False,
        choices=[("deny", "off, but for allowed hosts"), ("allow", "on, but for denied hosts")],
    )
    allowed_hosts = forms.CharField(
        required=False,
        widget=forms.Textarea({"rows": 2, "class": "mono"}),
        help_text="One a line, such as packages.example.org or *.files.example.org.",
    )
    denied_hosts = forms.CharField(
        required=False,
        widget=forms.Textarea({"rows": 2, "class": "mono"}),
        help_text="One a line.",
    )
    variables = forms.CharField(
        required=False,
        label="Environment variables",
        widget=forms.Textarea({"rows": 3, "class": "mono", "spellcheck": "false"}),
        help_text=(
            "NAME=value, one a line. Every command sees them; they are not for secrets. "
            f"A value that reads {HIDDEN} stays as it is."
        ),
    )
    secret_refs = forms.CharField(
        required=False,
        label="Secrets",
        widget=forms.Textarea({"rows": 2, "class": "mono", "spellcheck": "false"}),
        help_text="Names of the team's secrets, one a line. Each use is asked of the policy.",
    )
    cpu = forms.CharField(
        required=False, label="Processors", help_text="A number such as 2 or 0.5."
    )
    memory = forms.CharField(required=False, help_text="A size such as 512m or 2g.")
    gpu = forms.BooleanField(required=False, label="A GPU")
    mount_source = forms.CharField(
        required=False,
        label="Mount this folder",
        help_text="An absolute path on the provider's machine.",
    )
    mount_target = forms.CharField(
        required=False, label="Mounted at", help_text="An absolute path inside the sandbox."
    )
    mount_mode = forms.ChoiceField(
        required=False,
        label="Commands may",
        choices=[("read_only", "read it"), ("read_write", "read and change it")],
    )

    def __init__(self, spec: ProviderSpec, stored: Stored, data: Any = None) -> None:
        super().__init__(spec, stored, data)
        for option in spec.options:
            self.fields[f"option_{option.name}"] = option_field(option, stored.options)
            self.initial[f"option_{option.name}"] = option_written(
                option, self.shown.options.get(option.name, option.default)
            )
        self.initial.update(manifest_written(self.shown.manifest))
        if not stored.name and not self._is_kept("network"):
            self.initial["network"] = "allow"
        if not spec.supports_execution:
            for name in [name for name in self.fields if not name.startswith(("option_", "name"))]:
                del self.fields[name]

    @property
    def option_fields(self) -> list[forms.BoundField]:
        """The fields of the provider's own options."""
        return [self[name] for name in self.fields if name.startswith("option_")]

    @property
    def kept_fields(self) -> list[forms.BoundField]:
        """The manifest's fields that the provider keeps."""
        return [field for field in self._manifest_fields() if self._is_shown(field.name)]

    @property
    def unkept_fields(self) -> list[forms.BoundField]:
        """The manifest's fields that the provider refuses."""
        return [field for field in self._manifest_fields() if not self._is_shown(field.name)]

    @property
    def is_asking_too_much(self) -> bool:
        """Whether one of the refused fields is filled in or refused already."""
        return any(
            field.errors or (field.name != "mount_mode" and field.value())
            for field in self.unkept_fields
        )

    def _manifest_fields(self) -> list[forms.BoundField]:
        return [
            self[name] for name in self.fields if name != "name" and not name.startswith("option_")
        ]

    def _is_shown(self, name: str) -> bool:
        # Whether there is a network has to be said everywhere, also where it cannot be cut.
        return name == "network" or self._is_kept(name)

    def _is_kept(self, name: str) -> bool:
        enforced = self.spec.enforces
        return enforced is None or name not in _SETTING_OF or _SETTING_OF[name] in enforced

    def clean_variables(self) -> dict[str, str]:
        """Read one variable a line."""
        lines = [line for line in self.cleaned_data["variables"].splitlines() if line.strip()]
        wrong = [line for line in lines if "=" not in line]
        if wrong:
            raise forms.ValidationError(f"Write NAME=value; this line has no =: {wrong[0]}")
        pairs = (line.partition("=") for line in lines)
        return {name.strip(): value for name, _, value in pairs}

    def written(self) -> Draft:
        """Return what the fields say, on top of what is kept and has no field."""
        data = self.cleaned_data
        options = {**self.stored.options}
        for option in self.spec.options:
            value = option_read(option, data[f"option_{option.name}"])
            is_kept_secret = option.kind is Kind.SECRET and not value
            if not is_default(option, value):
                options[option.name] = value
            elif not is_kept_secret:
                options.pop(option.name, None)
        manifest = manifest_read(data, self.stored.manifest) if "network" in data else {}
        return Draft(name=data["name"], options=options, manifest=manifest)
