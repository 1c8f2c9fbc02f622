"""Environments, secrets, profiles, runs, sandboxes, executions and circuits."""

from __future__ import annotations

from sandboxes.models.circuit import Circuit, CircuitState
from sandboxes.models.environment import Environment
from sandboxes.models.environment_test import EnvironmentTest, EnvironmentTestState
from sandboxes.models.execution import Execution, ExecutionState, OutputChunk, Stream
from sandboxes.models.price import Price
from sandboxes.models.profile import Profile
from sandboxes.models.run import Run, RunState
from sandboxes.models.sandbox import Sandbox, SandboxState
from sandboxes.models.secret import Secret
from sandboxes.models.warm import WarmSandbox, WarmState

__all__ = [
    "Circuit",
    "CircuitState",
    "Environment",
    "EnvironmentTest",
    "EnvironmentTestState",
    "Execution",
    "ExecutionState",
    "OutputChunk",
    "Price",
    "Profile",
    "Run",
    "RunState",
    "Sandbox",
    "SandboxState",
    "Secret",
    "Stream",
    "WarmSandbox",
    "WarmState",
]
