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
from ninja.constants import NOT_SET
from ninja.security import HttpBearer

from omniweb.accounts.auth import actor_for_token
from omniweb.accounts.http import Request
from omniweb.accounts.permissions import Action, Actor
from omniweb.core.asynchronous import in_thread, thread_release
from omniweb.core.idempotency import HEADER, answer_once
from omniweb.core.schemas import ProblemDocument

type Result = Schema | HttpResponseBase | None
type View = Callable[..., Result] | Callable[..., Awaitable[Result]]

ERRORS = frozenset({401, 403, 404, 409, 413, 422, 429, 502, 503})

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


class AsyncTokenAuth(HttpBearer):
    """Bearer tokens where nothing may block: as TokenAuth, without keeping a thread."""

    async def authenticate(self, request: HttpRequest, token: str) -> Actor:
        """Return the actor and put it on the request; raises NotAuthenticated."""
        actor = await in_thread(actor_for_token, token)
        request.actor = actor  # type: ignore[attr-defined]  # see accounts/http.py Request
        thread_release()
        return actor


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
        extra: dict[str, Any] | None = None,
    ) -> Callable[[View], View]:
        """Mount a view that returns a schema, a response, or nothing (204).

        `people` is the action a person needs (None: agents only), `agents` lets agents in, too;
        views still start from what the actor may see. `makes` honours idempotency keys, `waits`
        documents that the view honours `Prefer: wait=N`, `extra` is further OpenAPI.
        """

        def mount(view: View) -> View:
            guarded = _guarded(view, people=people, agents=agents, status=status, makes=makes)
            name = view.__name__.removesuffix("_view")
            line, _, rest = (inspect.getdoc(view) or name).partition("\n")
            parameters = [_KEY_PARAMETER] * makes + [_WAIT_PARAMETER] * waits
            documented: dict[str, Any] = {
                "x-people": people.value if people else None,
                "x-agents": agents,
                **({"parameters": parameters} if parameters else {}),
                **(extra or {}),
            }
            is_async = inspect.iscoroutinefunction(view)
            self.api_operation(
                [method],
                path,
                response={status: answer, ERRORS: ProblemDocument},
                operation_id=name,
                summary=line.rstrip("."),
                description=rest.strip() or None,
                auth=AsyncTokenAuth() if is_async else NOT_SET,
                openapi_extra=documented,
            )(guarded)
            return view

        return mount


def _guarded(
    view: View, *, people: Action | None, agents: bool, status: int, makes: bool
) -> Callable[..., Any]:
    def check(request: Request) -> None:
        actor = request.actor
        if actor.agent and agents:
            actor.require(Action.RUN)
        else:
            actor.require(people or Action.RUN)

    if inspect.iscoroutinefunction(view):

        @wraps(view)
        async def guarded_async(request: Request, *args: Any, **kwargs: Any) -> HttpResponseBase:
            check(request)
            return _response(await view(request, *args, **kwargs), status)

        guarded: Any = guarded_async
    else:

        @wraps(view)
        def guarded_sync(request: Request, *args: Any, **kwargs: Any) -> HttpResponseBase:
            check(request)

            def act() -> Any:
                return _response(cast("Result", view(request, *args, **kwargs)), status)

            answer: HttpResponseBase = (
                answer_once(request, _holder(request.actor), act) if makes else act()
            )
            return answer

        guarded = guarded_sync
    # ninja reads the types of parameters; they are names of the view's own module.
    guarded.__signature__ = inspect.signature(view, eval_str=True)
    return cast("Callable[..., Any]", guarded)


def _holder(actor: Actor) -> str:
    who = actor.agent or actor.user
    return f"{actor.team.ref}/{who.ref}" if who else actor.team.ref


def _response(result: Result, status: int) -> HttpResponseBase:
    if isinstance(result, HttpResponseBase):
        return result
    if result is None:
        return HttpResponse(status=204)
    return JsonResponse(result.model_dump(mode="json"), status=status)
