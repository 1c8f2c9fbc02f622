"""Commands that run now, with the end of what they have written so far."""

from __future__ import annotations

from dataclasses import dataclass

from django.db.models import QuerySet
from django.utils.safestring import SafeString, mark_safe

from approvals.services.decisions import command_text
from sandboxes.models import Execution, ExecutionState
from sandboxes.secrecy import redactor_for
from sandboxes.selectors import output_tail
from trajectories.viewer.ansi import ansi_html


@dataclass(frozen=True, kw_only=True)
class RunningView:
    """A command that runs now: its line with secrets masked, and the end of its output."""

    execution: Execution
    command: str
    tail: SafeString


def running_in(executions: QuerySet[Execution]) -> list[RunningView]:
    """Return those of some executions that run now, the oldest first."""
    running = executions.filter(state=ExecutionState.RUNNING).order_by("id")
    return [_shown(execution) for execution in running.select_related("run")[:8]]


def _shown(execution: Execution) -> RunningView:
    clean = redactor_for(execution.run, execution.env)
    # The cut may go through a character: what is left of it says nothing.
    text = output_tail(execution).decode("utf-8", "replace").lstrip("\ufffd")
    return RunningView(
        execution=execution,
        command=clean.text(command_text(execution.argv)),
        tail=mark_safe(ansi_html(text)),  # noqa: S308 - it escapes all text
    )
