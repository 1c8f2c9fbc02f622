"""The same request sent twice happens once: `Idempotency-Key` (as in the IETF draft of that name).

The key, the act and its answer are one transaction, so a crash leaves either all or nothing, and a
second request that comes while the first is at work waits for it and gets its answer.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import timedelta

from django.db import IntegrityError, transaction
from django.http import HttpRequest, HttpResponse, JsonResponse

from omniweb.core.canonical import digest_bytes
from omniweb.core.clock import now
from omniweb.core.errors import InvalidInput, KeyReused, OmniWebError, Problem
from omniweb.core.models import IdempotencyKey
from omniweb.core.problems import MEDIA_TYPE, problem_response
from omniweb.core.sealing import seal, unseal

HEADER = "Idempotency-Key"
MAX_KEY_LENGTH = 200
KEPT_FOR = timedelta(hours=24)
PURPOSE = "idempotency answers"


def answer_once(request: HttpRequest, holder: str, act: Callable[[], HttpResponse]) -> HttpResponse:
    """Return what `act` answers, or what it answered when this holder sent the same key before.

    `act` may raise errors of the tree; those below 500 are kept as answers, too. Raises KeyReused
    when the key came with another request, InvalidInput for a key that cannot be one.
    """
    key = request.headers.get(HEADER, "")
    if not key:
        return act()
    if len(key) > MAX_KEY_LENGTH or not key.isprintable():
        message = f"an idempotency key has 1 to {MAX_KEY_LENGTH} printable characters"
        raise InvalidInput(problems=[Problem(path=HEADER, message=message)])
    IdempotencyKey.objects.filter(created_at__lt=now() - KEPT_FOR).delete()
    digest = digest_bytes(f"{request.method} {request.path}\n".encode() + request.body)
    with transaction.atomic():
        row = IdempotencyKey(holder=holder, key=key, digest=digest)
        try:
            with transaction.atomic():
                row.save(force_insert=True)
        except IntegrityError:
            return _repeat(IdempotencyKey.objects.get(holder=holder, key=key), digest)
        answer = _answered(act)
        if answer.status_code < 500:
            row.status, row.answer = answer.status_code, seal(answer.content, purpose=PURPOSE)
            row.save(update_fields=["status", "answer"])
        else:
            row.delete()
    return answer


def _answered(act: Callable[[], HttpResponse]) -> HttpResponse:
    try:
        return act()
    except OmniWebError as error:
        return problem_response(error)


def _repeat(row: IdempotencyKey, digest: str) -> HttpResponse:
    if row.digest != digest:
        raise KeyReused(f"{HEADER} was sent before with another request; use a new one for this")
    data = json.loads(unseal(row.answer, purpose=PURPOSE))
    answer = JsonResponse(data, status=row.status, safe=False)
    if row.status >= 400:
        answer["Content-Type"] = MEDIA_TYPE
    answer["Idempotent-Replayed"] = "true"
    return answer
