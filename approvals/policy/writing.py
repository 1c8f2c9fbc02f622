"""Writing YAML that the reader of policy documents reads as it was meant."""

from __future__ import annotations

from typing import Any

import yaml

from approvals.policy.source import NUMBER


class _Writer(yaml.SafeDumper):
    """Writes what `read_source` reads: quotes every text that would be read as a number."""

    def ignore_aliases(self, data: Any) -> bool:
        return True


def _write_text(writer: yaml.SafeDumper, text: str) -> yaml.Node:
    # Left to itself the writer puts some separators into the text as they are.
    style = None if text.isprintable() else '"'
    return writer.represent_scalar("tag:yaml.org,2002:str", text, style=style)


_Writer.add_representer(str, _write_text)
_Writer.add_implicit_resolver("tag:yaml.org,2002:float", NUMBER, list("-+.0123456789"))


def written(value: Any) -> str:
    """Return a value as YAML text."""
    return yaml.dump(value, Dumper=_Writer, sort_keys=False, allow_unicode=True, width=100)
