"""What an approval binds, and how it reads: digests, what is shown, and the sentence."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from approvals.models import Decision, RequestKind
from approvals.policy.explain import NO_RULE
from approvals.services.decisions import command_text
from approvals.services.requests import Candidate
from omniweb.core.canonical import digest, digest_bytes
from omniweb.core.text import visible
from sandboxes.models import Execution, Run
from sandboxes.providers.registry import satisfies_required_sandbox


def execution_digest(execution: Execution) -> str:
    """Return the digest of everything that decides what a command does (domain.md §3)."""
    run = execution.run
    stdin = bytes(execution.stdin) if execution.stdin is not None else None
    return digest(
        {
            "agent": run.agent_id.hex,
            "run": run.ref,
            "capability": "process.exec",
            "argv": execution.argv,
            "cwd": execution.cwd,
            "env": {name: digest(value) for name, value in execution.env.items()},
            "stdin": digest_bytes(stdin) if stdin is not None else None,
            "time_limit_seconds": execution.time_limit_seconds,
            "provider": run.provider,
            "options": digest(run.options),
            "manifest": run.manifest_digest,
            "policy_version": run.version_id.hex,
        }
    )


def execution_candidate(execution: Execution, decision: Decision) -> Candidate:
    """Return a command as people are asked about it."""
    run = execution.run
    stdin = bytes(execution.stdin) if execution.stdin is not None else None
    return Candidate(
        kind=RequestKind.EXECUTION,
        subject_id=execution.id,
        sentence=f"{run.agent.name} wants to {_command_act(execution, decision)}",
        shown=sandbox_shown(run)
        | {
            "command": command_text(execution.argv),
            "argv": execution.argv,
            "cwd": execution.cwd,
            "env_names": sorted(execution.env),
            "stdin_bytes": len(stdin) if stdin is not None else None,
            "time_limit_seconds": execution.time_limit_seconds,
            "parts": decision.explanation.get("parts", []),
        },
        digest=execution.digest,
        risk=_risk(run),
    )


def _risk(run: Run) -> str:
    """Rank commands by what they could reach: this machine, other machines, or neither."""
    if not satisfies_required_sandbox(run.provider, run.options):
        return "critical"
    network = run.manifest.get("network_policy", {})
    is_open = network.get("default") == "allow" or network.get("allowed_hosts")
    return "high" if is_open else "medium"


def _command_act(execution: Execution, decision: Decision) -> str:
    parts = decision.explanation.get("parts", [])
    programs = list(dict.fromkeys(part["program"] for part in parts if part["program"]))
    # A part that no rule speaks of has no effect either, but it was read.
    is_read = all(part["effect"] != "unknown" or part["why"] == NO_RULE for part in parts)
    if not programs:
        return "run a command that could not be read in full"
    act = f"run {visible(_listed(programs))}"
    return act if is_read else f"{act}, in a line that could not be read in full"


def sandbox_shown(run: Run) -> dict[str, Any]:
    """Return what a card says about where something would run."""
    manifest = run.manifest
    return {
        "environment": run.environment.name,
        "provider": run.provider,
        "runtime": run.options.get("runtime"),
        "image": manifest.get("image") or run.options.get("image"),
        "network": manifest.get("network_policy", {}),
        "working_dir": manifest.get("working_dir"),
    }


def manifest_digest(run: Run) -> str:
    """Return the digest of everything that decides what a sandbox is."""
    return digest(
        {
            "agent": run.agent_id.hex,
            "run": run.ref,
            "provider": run.provider,
            "options": digest(run.options),
            "manifest": run.manifest_digest,
            "policy_version": run.version_id.hex,
        }
    )


def manifest_candidate(run: Run, asks: Sequence[Decision]) -> Candidate:
    """Return a sandbox as people are asked about it: every asked part in one request."""
    acts = [_manifest_act(decision) for decision in asks]
    risks = [ask.authority_request.get("risk_level", "low") for ask in asks]
    ranked = ("critical", "high", "medium", "low")
    environment = run.manifest.get("environment", {})
    return Candidate(
        kind=RequestKind.MANIFEST,
        subject_id=run.id,
        sentence=f"{run.agent.name} wants to {_listed(acts)}",
        shown=sandbox_shown(run)
        | {
            "env_names": sorted(environment.get("plain", {})),
            "resources": run.manifest.get("resources", {}),
            "workspace_mount": run.manifest.get("workspace_mount"),
        },
        digest=manifest_digest(run),
        risk=next((risk for risk in ranked if risk in risks), "medium"),
    )


def _manifest_act(decision: Decision) -> str:
    asked = decision.authority_request
    target = asked.get("target", {})
    details = asked.get("metadata", {})
    host = asked.get("host") or target.get("host") or "*"
    match decision.capability:
        case "sandbox.network.configure" if host == "*":
            return "turn the network on for its whole sandbox"
        case "sandbox.network.configure" if details.get("mode") == "deny":
            return f"block {visible(host)} for its sandbox"
        case "sandbox.network.configure":
            return f"let its sandbox reach {visible(host)}"
        case "sandbox.image.use":
            return f"use the image {visible(target.get('resource', ''))}"
        case "sandbox.filesystem.mount":
            mode = "read and write" if details.get("mode") == "read_write" else "read"
            return f"let its sandbox {mode} {visible(target.get('resource', ''))} of the host"
        case "sandbox.environment.set":
            names = ", ".join(details.get("names", []))
            return f"set the variables {visible(names)}"
        case "sandbox.resources.set":
            given = [f"{value} {name}" for name, value in details.items() if value]
            return f"use {visible(', '.join(given))}"
        case "secret.use":
            return _secret_act(visible(target.get("resource", "")), details)
        case other:
            return f"do {other}"


def _secret_act(name: str, details: Mapping[str, Any]) -> str:
    hosts = f" for {', '.join(details['hosts'])}" if details.get("hosts") else ""
    return f"{'read' if details.get('is_readable') else 'use'} the secret {name}{hosts}"


def _listed(items: Sequence[str]) -> str:
    if len(items) < 2:
        return "".join(items)
    return f"{', '.join(items[:-1])} and {items[-1]}"
