"""How the rooms write their part of `/api/v1`: what an operation answers, and who may use it."""

from __future__ import annotations

import hashlib
import inspect
from collections.abc import Awaitable, Callable
from functools import wraps
from typing import Any, cast

from django.http import HttpRequest, HttpResponse, JsonResponse
from django.http.response import HttpResponseBase
from ninja import Router, Schema
from ninja.security import HttpBearer

from omniweb.accounts.auth import actor_for_token
from omniweb.accounts.http import Request
from omniweb.accounts.permissions import Action, Actor
from omniweb.core.asynchronous import in_thread
from omniweb.core.errors import NotPermitted
from omniweb.core.idempotency import HEADER, answer_once
from omniweb.core.schemas import ProblemDocument

type Result = Schema | HttpResponseBase | None
type View = Callable[..., Result] | Callable[..., Awaitable[Result]]

ERRORS = frozenset({401, 403, 404, 409, 410, 413, 422, 429, 502, 503})


class _Problem(Schema):
    """What ninja makes of a declared answer. Left to itself it makes one for each error of each
    operation, some six hundred, and they took half a second and 10 MB at each start.
    """

    response: ProblemDocument


_KEY_PARAMETER = {
    "name": HEADER,
    "in": "header",
    "required": False,
    "schema": {"type": "string", "maxLength": 200},
    "description": "The same request sent again with the same key happens once (24 hours).",
}
_WAIT_PARAMETER = {
    "name": "Prefer",
    "in": "header",
    "required": False,
    "schema": {"type": "string", "pattern": r"^wait=\d+$"},
    "description": "`wait=N` answers when it is settled, or as it stands after N seconds (max. 60).",
}


class _Gate:
    """Who may use an operation; asked before anything else of the request is looked at."""

    def __init__(self, people: Action | None, agents: bool) -> None:
        super().__init__()
        self.people = people
        self.agents = agents

    def admit(self, request: HttpRequest, actor: Actor) -> Actor:
        """Put the actor on the request; raises NotPermitted."""
        if actor.agent and self.agents:
            actor.require(Action.RUN)
        elif self.people is None:
            raise NotPermitted(f"This is for agents; {actor.label} is a person")
        else:
            actor.require(self.people)
        request.actor = actor  # type: ignore[attr-defined]  # see accounts/http.py Request
        return actor


class Bearer(_Gate, HttpBearer):
    """Bearer tokens of those who may use an operation; a browser's session counts for nothing."""

    def authenticate(self, request: HttpRequest, token: str) -> Actor:
        """Return the actor; raises NotAuthenticated and NotPermitted."""
        return self.admit(request, actor_for_token(token))


class AsyncBearer(_Gate, HttpBearer):
    """As Bearer, where nothing may block."""

    async def authenticate(self, request: HttpRequest, token: str) -> Actor:
        """Return the actor; raises NotAuthenticated and NotPermitted."""
        return self.admit(request, await in_thread(actor_for_token, token))


def token_digest(request: HttpRequest) -> str:
    """Return what tells one token's requests from another's, without keeping the token."""
    return hashlib.sha256(request.headers.get("Authorization", "").encode()).hexdigest()


class Operations(Router):
    """A router whose operations say who may use them."""

    def operation(
        self,
        method: str,
        path: str,
        answer: Any,
        *,
        people: Action | None = None,
        agents: bool = False,
        status: int = 200,
        makes: bool = False,
        waits: bool = False,
        sends: str = "",
        extra: dict[str, Any] | None = None,
    ) -> Callable[[View], View]:
        """Mount a view that returns a schema, a response, or nothing (204).

        `people` is the action a person needs (None: agents only), `agents` lets agents in, too;
        views still start from what the actor may see. `makes` honours idempotency keys, `waits`
        documents that the view honours `Prefer: wait=N`, `sends` is the media type of an answer
        that has no schema, `extra` is further OpenAPI.
        """

        def mount(view: View) -> View:
            gate = AsyncBearer if inspect.iscoroutinefunction(view) else Bearer
            name = view.__name__.removesuffix("_view")
            line, _, rest = (inspect.getdoc(view) or name).partition("\n")
            answering = _answering(view, status=status, makes=makes)
            # Becomes the description; the first line is the summary.
            answering.__doc__ = rest.strip()
            parameters = [_KEY_PARAMETER] * makes + [_WAIT_PARAMETER] * waits
            documented: dict[str, Any] = {
                "x-people": people.value if people else None,
                "x-agents": agents,
            }
            if sends:
                # Of a stream of events, each is an object.
                kind = "string" if sends == "application/octet-stream" else "object"
                content = {sends: {"schema": {"type": kind}}}
                documented |= {"responses": {status: {"content": content}}}
            self.api_operation(
                [method],
                path,
                response={status: answer},
                operation_id=name,
                summary=line.rstrip("."),
                auth=gate(people, agents),
                openapi_extra=documented | {"parameters": parameters} | (extra or {}),
            )(answering)
            answering._ninja_operation.response_models |= dict.fromkeys(sorted(ERRORS), _Problem)
            return view

        return mount


def _answering(view: View, *, status: int, makes: bool) -> Any:
    """Return a view as ninja calls it: it answers responses, and things are made once."""
    if inspect.iscoroutinefunction(view):

        @wraps(view)
        async def answer_later(request: Request, *args: Any, **kwargs: Any) -> HttpResponseBase:
            return _response(await view(request, *args, **kwargs), status)

        answering: Any = answer_later
    else:

        @wraps(view)
        def answer_now(request: Request, *args: Any, **kwargs: Any) -> HttpResponseBase:
            def act() -> Any:
                return _response(cast("Result", view(request, *args, **kwargs)), status)

            answer: HttpResponseBase = (
                answer_once(request, _holder(request.actor), act) if makes else act()
            )
            return answer

        answering = answer_now
    # ninja reads the types of parameters; they are names of the view's own module.
    answering.__signature__ = inspect.signature(view, eval_str=True)
    return answering


def _holder(actor: Actor) -> str:
    who = actor.agent or actor.user
    return f"{actor.team.ref}/{who.ref}" if who else actor.team.ref


def _response(result: Result, status: int) -> HttpResponseBase:
    if isinstance(result, HttpResponseBase):
        return result
    if result is None:
        return HttpResponse(status=204)
    return JsonResponse(result.model_dump(mode="json"), status=status)
