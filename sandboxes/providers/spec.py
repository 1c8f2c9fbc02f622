"""What the table says about a provider, and how its options are read."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from ipaddress import IPv4Address
from typing import TYPE_CHECKING, Any, Literal
from urllib.parse import urlsplit

from omniweb.core.errors import InvalidInput, Problem
from sandboxes.capabilities import Ability, Setting
from sandboxes.manifest import Manifest, memory_bytes
from sandboxes.providers.delivery import Delivery
from sandboxes.providers.names import ENVIRONMENT_NAME

if TYPE_CHECKING:
    from sandboxes.providers.base import SandboxProvider


class Kind(StrEnum):
    """The type of an option's value."""

    TEXT = "text"
    SECRET = "secret"  # noqa: S105 -- the name of a kind, not a value
    ADDRESS = "http or https address"
    SIZE = "size"
    USER = "user"
    POSITIVE = "positive whole number"
    SWITCH = "true or false"
    NAMES = "list of variable names"
    SERVERS = "list of IPv4 addresses"
    HEADERS = "mapping of names to texts"


@dataclass(frozen=True, kw_only=True)
class Option:
    """One option of a provider: a default of None means the provider decides.

    `is_account` says that it decides whom is called; every secret and address does.
    """

    name: str
    help: str
    kind: Kind = Kind.TEXT
    default: Any = None
    required: bool = False
    choices: tuple[str, ...] = ()
    is_account: bool = False

    def read(self, provider: str, value: Any) -> Any:
        """Return the value in the option's own type; raises ValueError saying what it must be."""
        if value is None:
            return self.default
        if self.choices and value not in self.choices:
            raise ValueError(f"{_called(provider, self)} must be one of: {', '.join(self.choices)}")
        problem = _CHECKS[self.kind](value)
        if problem:
            raise ValueError(f"{_called(provider, self)} {problem}")
        return tuple(value) if self.kind in (Kind.NAMES, Kind.SERVERS) else value


@dataclass(frozen=True, kw_only=True)
class NetworkPromise:
    """The provider's row of the network table, in words."""

    deny: str
    allow: str
    allowed_hosts: str
    checked_inside: str


def _nothing(_options: Mapping[str, Any], _manifest: Manifest) -> list[Problem]:
    return []


@dataclass(frozen=True, kw_only=True)
class ProviderSpec:
    """Everything known about a provider without importing its SDK.

    `enforces` None means that whatever a manifest asks is taken as kept; `refuses` tells what of a
    manifest is not kept all the same, because of the options or of how it is asked. `delivers` is
    how it gives secrets, where it enforces that. `adapter` is the dotted path of the class that
    drives it, None while this version does not.
    """

    name: str
    label: str
    runs_where: str
    runs_as: str
    network: NetworkPromise
    summary: str
    extra: str | None = None
    sdk: str | None = None
    missing: str = ""
    credentials: tuple[str, ...] = ()
    credentials_note: str = ""
    options: tuple[Option, ...] = ()
    enforces: frozenset[Setting] | None = frozenset()
    refuses: Callable[[Mapping[str, Any], Manifest], list[Problem]] = field(
        default=_nothing, repr=False
    )
    delivers: Delivery | None = None
    can: frozenset[Ability] = frozenset()
    adapter: str | None = None
    factory: Callable[[Mapping[str, Any]], SandboxProvider] | None = field(default=None, repr=False)
    execution_surface: Literal["sandbox", "host", "none"] = "sandbox"
    supports_execution: bool = True
    supports_required_sandbox: bool = True
    is_test: bool = False

    @property
    def secret_options(self) -> frozenset[str]:
        """The options whose values are shown and recorded nowhere; a header may hold a token, too."""
        kinds = (Kind.SECRET, Kind.HEADERS)
        return frozenset(option.name for option in self.options if option.kind in kinds)

    def account(self, options: Mapping[str, Any]) -> dict[str, Any]:
        """Return those of the options that decide whom is called; all of them where none is known."""
        if not self.options:
            return dict(options)
        kinds = (Kind.SECRET, Kind.HEADERS, Kind.ADDRESS)
        whom = {one.name for one in self.options if one.is_account or one.kind in kinds}
        return {name: value for name, value in options.items() if name in whom}

    def read_options(self, options: Mapping[str, Any]) -> dict[str, Any]:
        """Return every option with its value or default.

        Raises InvalidInput with a problem for each option that is unknown, missing or wrong.
        """
        if self.factory is not None and not self.options:
            # Its own code knows what it takes.
            return dict(options)
        problems = _unknown(self, options)
        values: dict[str, Any] = {}
        for option in self.options:
            path = f"options.{option.name}"
            try:
                values[option.name] = option.read(self.name, options.get(option.name))
            except ValueError as error:
                problems.append(Problem(path=path, message=str(error)))
            else:
                if option.required and not values[option.name]:
                    message = f"{_called(self.name, option)} is required"
                    problems.append(Problem(path=path, message=message))
        if problems:
            raise InvalidInput(problems[0].message, problems=problems)
        return values


def _called(provider: str, option: Option) -> str:
    return f"{provider} sandbox option '{option.name}'"


# Things people look for among the options that every provider takes from the manifest.
_IN_THE_MANIFEST = {
    "network": 'Use "sandbox_manifest": {"network_policy": {"default": "allow"}}.',
    "network_policy": 'Use "sandbox_manifest": {"network_policy": {"default": "allow"}}.',
    "working_dir": 'Use "sandbox_manifest": {"working_dir": "/workspace"}.',
    "environment": 'Use "sandbox_manifest": {"environment": {"plain": {}}}.',
    "cpu": 'Use "sandbox_manifest": {"resources": {"cpu": "1"}}.',
    "memory": 'Use "sandbox_manifest": {"resources": {"memory": "1g"}}.',
}


def _unknown(spec: ProviderSpec, options: Mapping[str, Any]) -> list[Problem]:
    known = [option.name for option in spec.options]
    unknown = sorted(set(options) - set(known))
    if not unknown:
        return []
    elsewhere = next((_IN_THE_MANIFEST[name] for name in unknown if name in _IN_THE_MANIFEST), "")
    listed = f"known options: {', '.join(known)}" if known else f"{spec.name} has no options"
    return [
        Problem(
            path=f"options.{unknown[0]}",
            message=f"Unknown {spec.name} sandbox option(s): {', '.join(unknown)}",
            suggestion=elsewhere or listed,
        )
    ]


def _check_text(value: Any) -> str:
    fine = isinstance(value, str) and value.strip() and not re.search(r"[\x00-\x1f\x7f]", value)
    return "" if fine else "must be a text"


def _check_address(value: Any) -> str:
    if problem := _check_text(value):
        return problem
    wanted = "must be an http:// or https:// address without credentials, query and fragment"
    try:
        parts = urlsplit(value)
        fine = parts.scheme in ("http", "https") and parts.hostname and parts.port != 0
    except ValueError:
        return wanted
    odd = "@" in parts.netloc or re.search(r"[?#\\\s]", value)
    return "" if fine and not odd else wanted


def _check_size(value: Any) -> str:
    try:
        memory_bytes(value if isinstance(value, str) else "")
    except ValueError:
        return "must be a size such as 512m or 1g"
    return ""


def _check_user(value: Any) -> str:
    if isinstance(value, str) and re.fullmatch(r"\d{1,9}(:\d{1,9})?", value):
        return ""
    return "must be numeric ('uid' or 'uid:gid') so the working directory can belong to it"


def _check_positive(value: Any) -> str:
    fine = isinstance(value, int) and not isinstance(value, bool) and 0 < value < 2**53
    return "" if fine else "must be a positive whole number"


def _check_switch(value: Any) -> str:
    return "" if isinstance(value, bool) else "must be true or false"


def _check_names(value: Any) -> str:
    fine = isinstance(value, (list, tuple)) and all(
        isinstance(name, str) and ENVIRONMENT_NAME.fullmatch(name) for name in value
    )
    return "" if fine else "must be a list of variable names"


def _check_servers(value: Any) -> str:
    wanted = "must be a list of IPv4 addresses"
    if not isinstance(value, (list, tuple)):
        return wanted
    try:
        for one in value:
            IPv4Address(one if isinstance(one, str) else "")
    except ValueError:
        return wanted
    return ""


def _check_headers(value: Any) -> str:
    fine = isinstance(value, Mapping) and all(
        isinstance(name, str)
        and re.fullmatch(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+", name)
        and isinstance(text, str)
        and not re.search(r"[\r\n\0]", text)
        for name, text in value.items()
    )
    return "" if fine else "must be a mapping of header names to texts"


_CHECKS: dict[Kind, Callable[[Any], str]] = {
    Kind.TEXT: _check_text,
    Kind.SECRET: _check_text,
    Kind.ADDRESS: _check_address,
    Kind.SIZE: _check_size,
    Kind.USER: _check_user,
    Kind.POSITIVE: _check_positive,
    Kind.SWITCH: _check_switch,
    Kind.NAMES: _check_names,
    Kind.SERVERS: _check_servers,
    Kind.HEADERS: _check_headers,
}
