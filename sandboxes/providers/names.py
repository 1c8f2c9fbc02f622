"""What a name may look like; shared by manifests, commands and providers."""

from __future__ import annotations

import re

ENVIRONMENT_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
PROVIDER_NAME = re.compile(r"[a-z][a-z0-9_-]{0,63}")
