"""A provider's options and a manifest as fields of a form, and back."""

from __future__ import annotations

from collections.abc import Mapping
from copy import deepcopy
from typing import Any

from django import forms
from django.utils.html import format_html

from sandboxes.providers.spec import Kind, Option


def option_field(option: Option, stored: Mapping[str, Any]) -> forms.Field:
    """Return the field for an option, with its help."""
    given: dict[str, Any] = {
        "required": False,
        "label": option.name.replace("_", " ").capitalize(),
        "help_text": format_html("{} <code>{}</code>", option.help, option.name),
    }
    if option.choices:
        return forms.ChoiceField(choices=[(name, name) for name in option.choices], **given)
    match option.kind:
        case Kind.SWITCH:
            return forms.BooleanField(**given)
        case Kind.NAMES | Kind.SERVERS | Kind.HEADERS:
            return forms.CharField(widget=forms.Textarea({"rows": 2, "class": "mono"}), **given)
        case Kind.SECRET:
            kept = "Kept; leave empty to keep it" if stored.get(option.name) else ""
            attributes = {"placeholder": kept, "autocomplete": "off"}
            # What was typed comes back with the other errors; what is kept never does.
            widget = forms.PasswordInput(attributes, render_value=True)
            return forms.CharField(widget=widget, strip=False, **given)
        case Kind.POSITIVE:
            return forms.CharField(widget=forms.TextInput({"inputmode": "numeric"}), **given)
        case _:
            return forms.CharField(**given)


def option_written(option: Option, value: Any) -> Any:
    """Return an option's value as its field shows it; a secret is not shown."""
    match option.kind:
        case Kind.SECRET:
            return ""
        case Kind.NAMES | Kind.SERVERS:
            return "\n".join(value or ())
        case Kind.HEADERS:
            return "\n".join(f"{name}: {text}" for name, text in (value or {}).items())
        case _:
            return value


def option_read(option: Option, written: Any) -> Any:
    """Return the value that was written in an option's field; what it cannot be stays as it is."""
    match option.kind:
        case Kind.NAMES | Kind.SERVERS:
            return written.replace(",", " ").split()
        case Kind.HEADERS:
            pairs = (line.partition(":") for line in written.splitlines() if line.strip())
            return {name.strip(): text.strip() for name, _, text in pairs}
        case Kind.POSITIVE if written.isascii() and written.isdecimal():
            return int(written)
        case _:
            return written


def is_default(option: Option, value: Any) -> bool:
    """Say whether a value says no more than leaving the option out."""
    default = option.default
    same = list(default) if isinstance(default, tuple) else default
    return value in (None, "", [], {}) or value == same


def manifest_written(manifest: Mapping[str, Any]) -> dict[str, Any]:
    """Return a manifest as its fields show it."""
    network = manifest.get("network_policy") or {}
    resources = manifest.get("resources") or {}
    mount = manifest.get("workspace_mount") or {}
    environment = manifest.get("environment") or {}
    plain = environment.get("plain") or {}
    return {
        "image": manifest.get("image") or "",
        "working_dir": manifest.get("working_dir") or "",
        "network": network.get("default", "deny"),
        "allowed_hosts": "\n".join(network.get("allowed_hosts") or ()),
        "denied_hosts": "\n".join(network.get("denied_hosts") or ()),
        "variables": "\n".join(f"{name}={value}" for name, value in plain.items()),
        "secret_refs": "\n".join(environment.get("secret_refs") or ()),
        "cpu": resources.get("cpu") or "",
        "memory": resources.get("memory") or "",
        "gpu": bool(resources.get("gpu")),
        "mount_source": mount.get("source") or "",
        "mount_target": mount.get("target") or "",
        "mount_mode": mount.get("mode") or "read_only",
    }


def manifest_read(data: Mapping[str, Any], kept: Mapping[str, Any]) -> dict[str, Any]:
    """Return a manifest that says only what was written, and what it kept beyond the fields."""
    manifest = deepcopy(dict(kept))
    network = {"default": data["network"]} if data["network"] != "deny" else {}
    hosts = {
        name: data[name].replace(",", " ").split() for name in ("allowed_hosts", "denied_hosts")
    }
    resources = {name: data[name] for name in ("cpu", "memory", "gpu")}
    mount: dict[str, str] = {}
    if data["mount_source"] or data["mount_target"]:
        mount = {name: data[f"mount_{name}"] for name in ("source", "target", "mode")}
    manifest |= {
        "image": data["image"],
        "working_dir": data["working_dir"],
        "network_policy": network | {name: names for name, names in hosts.items() if names},
        "workspace_mount": mount,
        "environment": {
            **manifest.get("environment", {}),
            "plain": data["variables"],
            "secret_refs": data["secret_refs"].replace(",", " ").split(),
        },
        "resources": {**manifest.get("resources", {}), **_said(resources)},
    }
    manifest["environment"] = _said(manifest["environment"])
    for name in ("cpu", "memory", "gpu"):
        if not data[name]:
            manifest["resources"].pop(name, None)
    return _said(manifest)


def _said(fields: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if value not in (None, "", {}, [], False)}
