"""What an agent says of itself: messages for the record."""

from __future__ import annotations

from typing import Literal

from django.db import transaction

from omniweb.accounts.permissions import Action, Actor
from omniweb.core.errors import Conflict, InvalidInput, NotPermitted, Problem
from omniweb.core.realtime import publish
from sandboxes.models import Run
from sandboxes.secrecy import redactor_for
from sandboxes.services.runs import run_touch
from trajectories.blobs import blob_store
from trajectories.models import Step
from trajectories.services import step_append
from trajectories.steps import StepKind

MAX_MESSAGE = 1_000_000
# A step holds this much of a message; of a longer one the whole is a blob.
INLINE = 8_000


def message_report(
    *, actor: Actor, run: Run, role: Literal["system", "user", "assistant"], text: str
) -> Step:
    """Add to the record what was said to or by the acting agent.

    Raises InvalidInput for a text that is empty or over MAX_MESSAGE characters, Conflict when the
    run is over.
    """
    actor.require(Action.RUN)
    if actor.agent is None or actor.agent.pk != run.agent_id:
        raise NotPermitted("Only a run's own agent reports what was said in it")
    if run.is_over:
        raise Conflict(run.reason or f"The run is {run.state}")
    if not text or len(text) > MAX_MESSAGE:
        message = f"a message has 1 to {MAX_MESSAGE} characters"
        raise InvalidInput(problems=[Problem(path="text", message=message)])
    clean = redactor_for(run)
    payload: dict[str, object] = {"role": role, "text": text}
    with transaction.atomic():
        if len(text) > INLINE:
            whole = clean.text(text)
            data = whole.encode()
            blob = blob_store(team=run.team, data=data, media_type="text/plain; charset=utf-8")
            payload = {
                "role": role,
                "text": whole[:INLINE],
                "blob": blob.digest,
                "size": len(data),
            }
        step = step_append(
            trajectory=run.trajectory,
            kind=StepKind.MESSAGE,
            actor=actor.label,
            payload=payload,
            clean=clean,
        )
        run_touch(run=run)
        publish("run", run.id)
    return step
