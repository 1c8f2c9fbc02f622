"""What people said yes to under a policy, and the narrowest rules that would have spared them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.db.models import QuerySet

from approvals.findings import asked_text
from approvals.models import Decision, Policy, Request, RequestState
from approvals.policy.decision import AuthorityRequest
from approvals.policy.simulate import recorded_request
from approvals.policy.suggest import Suggestion, suggest
from omniweb.core.clock import now
from omniweb.core.errors import Conflict, InvalidInput, Problem
from omniweb.core.ids import first_key, parse_ref, ref

WITHIN = timedelta(days=30)
# The newest so many are looked at, and so many can be chosen at once.
MAX_SEEN = 1_000
MAX_CHOSEN = 200
REVIEW_AFTER = timedelta(days=90)
YES = (RequestState.APPROVED, RequestState.SPENT)


@dataclass(frozen=True, kw_only=True)
class Approved:
    """One question people said yes to: the newest request with it, and how often it was one."""

    request: str
    text: str
    capability: str
    by: str
    agents: list[str]
    times: int
    last: datetime
    # A secret was masked in it, so no rule can be made of it.
    is_masked: bool


def approved(policy: Policy) -> list[Approved]:
    """Return what was approved in the last thirty days, what came most often first."""
    groups: dict[str, list[Decision]] = {}
    for row in _decisions(policy).filter(pk__gte=first_key(now() - WITHIN))[:MAX_SEEN]:
        asked = {name: part for name, part in row.authority_request.items() if name != "metadata"}
        asked.pop("actor", None)
        groups.setdefault(json.dumps(asked, sort_keys=True), []).append(row)
    found = [_approved(question, rows) for question, rows in groups.items()]
    return sorted(found, key=lambda one: (-one.times, one.text))


def _decisions(policy: Policy) -> QuerySet[Decision]:
    rows = Decision.objects.filter(
        team_id=policy.team_id,
        version__policy=policy,
        effect="ask",
        request__state__in=YES,
    )
    return rows.select_related("agent").order_by("-pk")


def _approved(question: str, rows: Sequence[Decision]) -> Approved:
    newest = rows[0]
    return Approved(
        request=ref(Request.PREFIX, newest.request_id) if newest.request_id else "",
        text=asked_text(newest) or newest.capability,
        capability=newest.capability,
        by=newest.matched_rules[0] if newest.matched_rules else "",
        agents=sorted({row.agent.name for row in rows}),
        times=len(rows),
        last=newest.created_at,
        is_masked=recorded_request(question) is None,
    )


def suggestion(policy: Policy, chosen: Iterable[str]) -> Suggestion:
    """Return a draft of the active version that allows what was asked in these requests.

    Raises InvalidInput for requests that are none, Conflict where none of them can be used.
    """
    if policy.active_version is None:
        raise Conflict(f"{policy} has no active version to add to")
    wanted = list(dict.fromkeys(chosen))
    keys = [key for one in wanted if (key := parse_ref(Request.PREFIX, one))]
    if not 1 <= len(keys) == len(wanted) <= MAX_CHOSEN:
        message = f"choose 1 to {MAX_CHOSEN} approved requests"
        raise InvalidInput(problems=[Problem(path="requests", message=message)])
    asked = dict(_asked(_decisions(policy).filter(request__in=keys)))
    if not asked:
        raise Conflict("None of these was approved under this policy and kept in full")
    return suggest(
        policy.active_version.source,
        list(asked.values()),
        names=[name[:200] for name in asked],
        review_by=f"{(now() + REVIEW_AFTER):%Y-%m-%d}",
    )


def _asked(rows: Iterable[Decision]) -> Iterable[tuple[str, AuthorityRequest]]:
    """Yield what was asked and can be asked again, each once, with a name for its test."""
    seen = set()
    for row in rows:
        request = recorded_request(json.dumps(row.authority_request))
        if request is None:
            continue
        question = json.dumps(request.to_dict() | {"actor": ""}, sort_keys=True)
        if question in seen:
            continue
        seen.add(question)
        text = asked_text(row) or row.capability
        yield f"{text[:160]}, approved ({len(seen)})", request
