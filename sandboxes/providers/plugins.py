"""Providers of one's own, registered once when a process starts.

They come from packages with an entry point in GROUP, and from the setting
OMNIWEB_SANDBOX_PROVIDERS. One that cannot be loaded is told and left out; the others work.
docs/own-provider.md has a complete example.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib import import_module
from importlib.metadata import entry_points
from typing import Any

from omniweb.core.errors import OmniWebError
from sandboxes.providers.registry import register_sandbox_provider

GROUP = "omniweb.sandbox_providers"
SETTING = "OMNIWEB_SANDBOX_PROVIDERS"
_ENTRY = re.compile(r"\s*([^=\s]+)\s*=\s*([\w.]+):([\w.]+)\s*")

logger = logging.getLogger(__name__)
# What could not be loaded in this process; a system check tells it.
failures: list[Failure] = []


@dataclass(frozen=True, kw_only=True)
class Failure:
    """A provider that was asked for and is not there: where it is named, and why not."""

    place: str
    problem: str


@dataclass(frozen=True, kw_only=True)
class Source:
    """One provider before it is loaded: its name, its factory's address, and where it is named."""

    name: str
    module: str
    attribute: str
    place: str


def load(entries: Sequence[str]) -> None:
    """Register what packages bring and what `entries` name, each `name=package.module:factory`.

    The factory is called with the options and returns a SandboxProvider; what it promises is its
    attribute `SPEC`, a ProviderSpec. What fails is in `failures` afterwards.
    """
    failures.clear()
    for source in (*_installed(), *_named(entries)):
        try:
            factory = _found(source)
            spec = getattr(factory, "SPEC", None)
            register_sandbox_provider(source.name, factory, spec=spec)
        except OmniWebError as error:
            _tell(source.place, error.detail)
        except Exception as error:
            # Importing somebody's module can raise anything.
            logger.exception("the provider %s cannot be loaded", source.name)
            _tell(source.place, f"{type(error).__name__}: {error}")


def _installed() -> Iterator[Source]:
    for point in entry_points(group=GROUP):
        package = point.dist.name if point.dist else "?"
        yield Source(
            name=point.name,
            module=point.module,
            attribute=point.attr,
            place=f"the entry point {point.name} = {point.value} of the package {package}",
        )


def _named(entries: Sequence[str]) -> Iterator[Source]:
    for entry in entries:
        place = f"{SETTING}, {entry}"
        if match := _ENTRY.fullmatch(entry):
            name, module, attribute = match.groups()
            yield Source(name=name, module=module, attribute=attribute, place=place)
        else:
            _tell(place, "it does not read name=package.module:factory")


def _found(source: Source) -> Any:
    found: Any = import_module(source.module)
    for name in source.attribute.split("."):
        found = getattr(found, name)
    if not callable(found):
        raise TypeError(f"{source.module}:{source.attribute} cannot be called")
    return found


def _tell(place: str, problem: str) -> None:
    failures.append(Failure(place=place, problem=problem))
