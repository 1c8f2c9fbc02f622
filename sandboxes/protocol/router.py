"""The five requests. Each session is a run of the agent whose token it is."""

from __future__ import annotations

from django.conf import settings
from django.http import HttpRequest, HttpResponse

from omniweb.accounts.http import Request
from omniweb.accounts.operations import Operations
from omniweb.accounts.permissions import Actor
from omniweb.core.asynchronous import in_thread
from omniweb.core.errors import NotFound, SandboxLost
from omniweb.core.schemas import Text, storable
from sandboxes.manifest import Manifest
from sandboxes.models import Run, RunState
from sandboxes.protocol.exec import exec_answer
from sandboxes.protocol.schemas import ExecIn, ExecOut, SessionIn, SessionOut
from sandboxes.selectors import runs_visible
from sandboxes.services.files import file_read, file_write
from sandboxes.services.runs import run_end, run_open
from sandboxes.uploads import upload_read
from sandboxes.waiting import sandbox_wait
from trajectories.api import RAW, raw

router = Operations(tags=["Sessions"])

_HEADERS = [
    {
        "name": name,
        "in": "header",
        "required": False,
        "schema": {"type": "string"},
        "description": text,
    }
    for name, text in (
        ("X-Omniweb-Task", "What the run is for; its title"),
        ("X-Omniweb-Group", "What several runs belong to together"),
    )
]


def _session(actor: Actor, ref: str) -> Run:
    return runs_visible(actor).by_ref(ref)


def _header(request: HttpRequest, name: str) -> str:
    # The server reads headers as Latin-1; what clients send is UTF-8.
    text = request.headers.get(name, "").encode("latin-1", "replace").decode("utf-8", "replace")
    return str(storable(text))


@router.operation(
    "POST", "/sessions", SessionOut, agents=True, status=201, extra={"parameters": _HEADERS}
)
def session_open_view(request: Request, body: SessionIn) -> SessionOut:
    """Open a session. It answers at once: approvals and preparing go on behind it.

    422 when the environment cannot keep the manifest, 403 when the policy denies it.
    """
    run = run_open(
        actor=request.actor,
        manifest=Manifest.from_wire(body.manifest),
        title=_header(request, "X-Omniweb-Task"),
        group=_header(request, "X-Omniweb-Group"),
    )
    return SessionOut(session_id=run.ref)


@router.operation("POST", "/sessions/{ref}/exec", ExecOut, agents=True)
async def session_exec_view(request: Request, ref: str, body: ExecIn) -> ExecOut:
    """Run a command; the answer comes when it has ended, or says what it waits for."""
    return await exec_answer(request.actor, ref, body.to_command())


@router.operation(
    "PUT",
    "/sessions/{ref}/files",
    None,
    agents=True,
    status=204,
    extra={
        "requestBody": {
            "required": True,
            "content": {RAW: {"schema": {"type": "string"}}},
        }
    },
)
async def session_file_write_view(request: Request, ref: str, path: Text) -> None:
    """Write a file and the directories it is in; the body is its bytes."""
    actor, data = request.actor, upload_read(request)

    def write(run: Run) -> None:
        file_write(actor=actor, run=run, path=path, data=data)

    try:
        await in_thread(write, await _ready(actor, ref))
    except SandboxLost:
        await in_thread(write, await _ready(actor, ref))


@router.operation("GET", "/sessions/{ref}/files", None, agents=True, sends=RAW)
async def session_file_read_view(request: Request, ref: str, path: Text) -> HttpResponse:
    """Read a file, byte for byte."""
    actor = request.actor

    def read(run: Run) -> bytes:
        return file_read(actor=actor, run=run, path=path)

    try:
        data = await in_thread(read, await _ready(actor, ref))
    except SandboxLost:
        data = await in_thread(read, await _ready(actor, ref))
    return raw(data)


async def _ready(actor: Actor, ref: str) -> Run:
    """Return the session's run once its sandbox is there; a lost one is replaced."""
    run = await in_thread(_session, actor, ref)
    await sandbox_wait(run, settings.HTTP_WAIT_SECONDS)
    return await in_thread(_session, actor, ref)


@router.operation("DELETE", "/sessions/{ref}", None, agents=True, status=204)
def session_end_view(request: Request, ref: str) -> None:
    """End a session: what runs in it is stopped, its sandbox goes. One that is unknown is ended."""
    try:
        run = _session(request.actor, ref)
    except NotFound:
        return
    run_end(actor=request.actor, run=run, outcome=RunState.SUCCEEDED)
