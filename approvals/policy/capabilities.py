"""The catalogue of capabilities: what an authority request can ask for, its usual risk and surface."""

from __future__ import annotations

from dataclasses import dataclass

from approvals.policy.globs import compile_glob, has_glob

PROCESS_EXEC = "process.exec"

RISK_LEVELS = ("low", "medium", "high", "critical")

SURFACES = (
    "artifact", "background", "code", "filesystem", "host", "mcp", "memory", "network",
    "sandbox", "secret", "secret_broker", "serve", "subagent", "telemetry", "tool", "workspace",
)  # fmt: skip

# Rules may name anything below these, though no request uses them yet.
RESERVED_PREFIXES = ("memory.", "telemetry.")


@dataclass(frozen=True, slots=True)
class Capability:
    """One thing that can be asked for, with the risk and surface its requests usually carry."""

    name: str
    risk: str
    surface: str


CAPABILITIES: dict[str, Capability] = {
    name: Capability(name, risk, surface)
    for name, risk, surface in (
        ("tool.local.call", "low", "tool"),
        ("tool.mcp.call", "low", "mcp"),
        ("mcp.server.start", "medium", "mcp"),
        ("mcp.server.connect", "low", "mcp"),
        ("workspace.files.read", "low", "workspace"),
        ("workspace.files.write", "medium", "workspace"),
        ("workspace.files.delete", "high", "workspace"),
        ("workspace.files.move", "medium", "workspace"),
        ("workspace.files.clear", "critical", "workspace"),
        ("workspace.files.call", "low", "workspace"),
        ("workspace.artifacts.read", "low", "artifact"),
        ("workspace.artifacts.call", "low", "artifact"),
        ("skill.files.read", "low", "host"),
        ("skill.script.run", "high", "host"),
        ("code.run", "medium", "code"),
        ("sandbox.execute", "high", "sandbox"),
        (PROCESS_EXEC, "high", "sandbox"),
        ("sandbox.image.use", "medium", "sandbox"),
        ("sandbox.filesystem.mount", "high", "sandbox"),
        ("sandbox.workspace.sync", "low", "sandbox"),
        ("sandbox.filesystem.cwd", "medium", "sandbox"),
        ("sandbox.network.configure", "high", "sandbox"),
        ("sandbox.environment.set", "medium", "sandbox"),
        ("sandbox.resources.set", "medium", "sandbox"),
        ("secret.use", "medium", "secret_broker"),
        ("secret.read", "critical", "secret"),
        ("package.install", "high", "network"),
        ("subagent.spawn", "medium", "subagent"),
        ("network.http.get", "low", "network"),
        ("network.http.head", "low", "network"),
        ("network.http.post", "medium", "network"),
        ("network.http.put", "medium", "network"),
        ("network.http.patch", "medium", "network"),
        ("network.http.delete", "medium", "network"),
        ("filesystem.read", "low", "filesystem"),
        ("filesystem.write", "medium", "filesystem"),
        ("filesystem.delete", "high", "filesystem"),
        ("background.task.create", "medium", "background"),
        ("background.task.update", "medium", "background"),
        ("background.task.delete", "low", "background"),
        ("background.task.pause", "low", "background"),
        ("background.task.resume", "low", "background"),
        ("background.run.start", "medium", "background"),
        ("background.run.cancel", "low", "background"),
    )
}


_WHERE_COMMANDS_RUN = frozenset({"sandbox", "host"})

# What requests here ask for, with the surfaces they carry; a rule on anything else waits for a
# door that asks. Held to what the doors do by tests/sandboxes/test_authority.py.
RAISED: dict[str, frozenset[str]] = {
    PROCESS_EXEC: _WHERE_COMMANDS_RUN,
    "sandbox.image.use": _WHERE_COMMANDS_RUN,
    "sandbox.filesystem.mount": _WHERE_COMMANDS_RUN,
    "sandbox.network.configure": _WHERE_COMMANDS_RUN,
    "sandbox.environment.set": _WHERE_COMMANDS_RUN,
    "sandbox.resources.set": _WHERE_COMMANDS_RUN,
    "secret.use": frozenset({"secret_broker"}),
    "workspace.files.read": frozenset({"workspace"}),
    "workspace.files.write": frozenset({"workspace"}),
}

# What else those requests say, by the parts a rule can ask about; a pattern on anything else
# meets nothing. No request here tells data classes, a method or an MCP server.
CARRIED: dict[str, frozenset[str]] = {
    PROCESS_EXEC: frozenset({"resource"}),
    "sandbox.image.use": frozenset({"resource"}),
    "sandbox.filesystem.mount": frozenset({"path", "resource"}),
    "sandbox.network.configure": frozenset({"host"}),
    "sandbox.environment.set": frozenset(),
    "sandbox.resources.set": frozenset(),
    "secret.use": frozenset({"resource"}),
    "workspace.files.read": frozenset({"path"}),
    "workspace.files.write": frozenset({"path"}),
}


def is_reserved(pattern: str) -> bool:
    """Tell whether a name or pattern lies in a namespace kept for later."""
    return pattern.startswith(RESERVED_PREFIXES)


def matching_capabilities(pattern: str) -> tuple[str, ...]:
    """Return the catalogue names a glob (or a plain name) covers."""
    if not has_glob(pattern):
        return (pattern,) if pattern in CAPABILITIES else ()
    covers = compile_glob(pattern)
    return tuple(name for name in CAPABILITIES if covers(name))
