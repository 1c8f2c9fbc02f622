"""Versions of a policy side by side, and taken away as files."""

from __future__ import annotations

from django.http import HttpResponse
from django.utils.text import slugify
from django.views.decorators.http import require_GET

from approvals.policy.diff import policy_changes
from approvals.policy.exchange import FORMATS, exported
from approvals.policy.textdiff import text_diff
from approvals.selectors import version_of, versions_compared, versions_visible
from omniweb.accounts.http import Request, door
from omniweb.accounts.permissions import Action
from omniweb.core.errors import NotFound
from omniweb.core.htmx import page


@require_GET
@door(Action.VIEW)
def diff_view(request: Request, ref: str) -> HttpResponse:
    """What changes between two versions (`?from=1&to=3`): in the text, and in what is decided."""
    before, after = versions_compared(
        request.actor, ref, _number(request, "from"), _number(request, "to")
    )
    policy = after.policy
    versions = versions_visible(request.actor).filter(policy=policy)
    context = {
        "policy": policy,
        "versions": versions,
        "before": before,
        "after": after,
        "changes": policy_changes(before.compiled(), after.compiled()),
        "lines": text_diff(before.source, after.source),
        "may_configure": request.actor.may(Action.CONFIGURE) and policy.archived_at is None,
    }
    return page(request, "approvals/diff.html", context)


@require_GET
@door(Action.VIEW)
def export_view(request: Request, ref: str, number: int) -> HttpResponse:
    """A version as a file (`?as=yaml|json`), perhaps without what only this product reads."""
    version = version_of(request.actor, ref, number)
    form = request.GET.get("as", "yaml")
    if form not in FORMATS:
        raise NotFound("A policy is exported as yaml or json")
    text = exported(
        version.policy_document(), form, for_peer=request.GET.get("for") == "omnicoreagent"
    )
    name = slugify(version.policy.name) or version.policy.ref
    return HttpResponse(
        text,
        content_type=f"application/{form}; charset=utf-8",
        headers={"Content-Disposition": f'attachment; filename="{name}-{version.number}.{form}"'},
    )


def _number(request: Request, name: str) -> int | None:
    number = request.GET.get(name, "")
    if not number:
        return None
    if not (number.isascii() and number.isdigit() and len(number) < 10):
        raise NotFound(f"There is no version {number[:20]}")
    return int(number)
