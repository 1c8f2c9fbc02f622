"""The inbox, and deciding from it."""

from __future__ import annotations

import json
from typing import Any
from urllib.parse import urlencode

from django.contrib import messages
from django.http import HttpResponse, HttpResponseRedirect
from django.shortcuts import render
from django.urls import reverse
from django.views.decorators.http import require_GET, require_POST

from approvals.card import Card, card_of
from approvals.forms import DecideForm
from approvals.models import Request as Asked
from approvals.models import RequestKind, RequestState, Scope, Verdict, Vote
from approvals.queue import QUEUE_SIZE, Queue, queue_of
from approvals.selectors import inbox, inbox_count, requests_visible
from approvals.services.votes import vote_cast
from omniweb.accounts.http import Request, door
from omniweb.accounts.permissions import Action
from omniweb.core.errors import AlreadyDecided, InvalidInput, Problem, Stale
from omniweb.core.htmx import page
from omniweb.core.text import natural

TEMPLATE = "approvals/inbox.html"
UNCHANGED = 204  # htmx leaves the part as it is, with what someone is typing into it


@require_GET
@door(Action.VIEW)
def inbox_view(request: Request, ref: str = "") -> HttpResponse:
    """The queue, and beside it the named request or the first one."""
    asked = requests_visible(request.actor).by_ref(ref) if ref else None
    part = request.GET.get("part", "") if request.htmx else ""
    # The two halves refetch themselves on every hint, so each does only its own work.
    if part == "card" and asked:
        card = card_of(request.actor, asked)
        if request.GET.get("seen") == card.version:
            return HttpResponse(status=UNCHANGED)
        return page(request, TEMPLATE, _card_context(request, card))
    number = natural(request.GET.get("page", "")) or 1
    queue = queue_of(request.actor, kind=_kind(request), page=number)
    if part == "queue":
        return page(request, TEMPLATE, _queue_context(request, queue, ref))
    return page(request, TEMPLATE, _context(request, queue, asked))


@require_GET
@door(Action.VIEW)
def inbox_count_view(request: Request) -> HttpResponse:
    """The number on the badge."""
    context = {
        "inbox_count": inbox_count(request.actor),
        "inbox_count_url": reverse("inbox_count"),
    }
    return render(request, "layout/inbox_count.html", context)


@require_POST
@door(Action.VIEW)
def decide_view(request: Request, ref: str) -> HttpResponse:
    """Cast a vote and go on to the next request; when it comes too late, say so and show the card.

    Raises NotPermitted with the reason the card shows beside its buttons.
    """
    asked = requests_visible(request.actor).by_ref(ref)
    following = _following(request, asked)
    try:
        vote = _vote(request, asked)
    except (AlreadyDecided, Stale) as error:
        again = requests_visible(request.actor).by_ref(ref)
        return _answer(request, again, error.detail, is_late=True)
    return _answer(request, following, _said(vote))


def _vote(request: Request, asked: Asked) -> Vote:
    form = DecideForm(request.POST)
    if not form.is_valid():
        raise InvalidInput(
            problems=[
                Problem(path=name, message=f"{name}: {' '.join(map(str, errors))}")
                for name, errors in form.errors.items()
            ]
        )
    sent = form.cleaned_data
    return vote_cast(
        actor=request.actor,
        request=asked,
        verdict=Verdict(sent["verdict"]),
        review_token=sent["review_token"],
        scope=Scope(sent["scope"] or asked.scopes[0]),
        reason=sent["reason"].strip(),
    )


def _said(vote: Vote) -> str:
    request = vote.request
    if request.state == RequestState.OPEN:
        missing = request.votes_needed - request.votes.filter(verdict=Verdict.APPROVE).count()
        return f"Your vote counts. It needs {missing} more."
    if vote.verdict == Verdict.REJECT:
        return f"Rejected. {request.agent.name} is told{' why' if vote.reason else ''}."
    return f"Approved. {request.agent.name} goes on."


def _following(request: Request, asked: Asked) -> Asked | None:
    """Return the request after this one in the queue, or the first when it is the last."""
    waiting = list(inbox(request.actor, _kind(request)).values_list("pk", flat=True)[:QUEUE_SIZE])
    others = [key for key in waiting if key != asked.pk]
    if not others:
        return None
    at = waiting.index(asked.pk) if asked.pk in waiting else 0
    key = others[at] if at < len(others) else others[0]
    return requests_visible(request.actor).filter(pk=key).first()


def _answer(
    request: Request, asked: Asked | None, text: str, *, is_late: bool = False
) -> HttpResponse:
    """Show a request after a vote: the panes for htmx, a redirect otherwise."""
    kind = _kind(request)
    url = reverse("request", args=[asked.ref]) if asked else reverse("inbox")
    url += f"?{urlencode({'kind': kind})}" if kind else ""
    if not request.htmx:
        (messages.warning if is_late else messages.success)(request, text)
        return HttpResponseRedirect(url)
    context = _context(request, queue_of(request.actor, kind=kind), asked) | {"focus_queue": True}
    response = render(request, f"{TEMPLATE}#panes", context)
    response["HX-Push-Url"] = url
    tone = "wait" if is_late else "good"
    response["HX-Trigger"] = json.dumps({"toast": {"text": text, "tone": tone}})
    return response


def _context(request: Request, queue: Queue, asked: Asked | None) -> dict[str, Any]:
    if asked is None and queue.rows:
        asked = requests_visible(request.actor).by_ref(queue.rows[0].ref)
    card = card_of(request.actor, asked) if asked else None
    current = asked.ref if asked else ""
    return _card_context(request, card) | _queue_context(request, queue, current)


def _queue_context(request: Request, queue: Queue, current: str) -> dict[str, Any]:
    words = {"": "All", RequestKind.EXECUTION: "Commands", RequestKind.MANIFEST: "Sandboxes"}
    return {
        "queue": queue,
        "filters": [(value, word, queue.counts[value]) for value, word in words.items()],
        "current": current,
        "inbox_count": queue.counts[""],
        "queue_first": request.GET.get("view") == "queue",
    }


def _card_context(request: Request, card: Card | None) -> dict[str, Any]:
    return {
        "card": card,
        "kind": _kind(request),
        "scopes": [Scope(scope) for scope in card.request.scopes] if card else [],
    }


def _kind(request: Request) -> str:
    """Return the filter in use; a form carries it along."""
    kind = request.GET.get("kind", "") or request.POST.get("kind", "")
    return kind if kind in RequestKind.values else ""
