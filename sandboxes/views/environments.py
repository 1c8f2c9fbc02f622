"""Environments: where agents may run, written as a form that knows each provider."""

from __future__ import annotations

from typing import Any

from django.contrib import messages
from django.db import transaction
from django.db.models import Max
from django.http import HttpResponse, HttpResponseRedirect
from django.shortcuts import render
from django.urls import reverse
from django.views.decorators.http import require_GET, require_http_methods, require_POST

from omniweb.accounts.http import Request, door
from omniweb.accounts.permissions import Action
from omniweb.core.errors import Conflict, InvalidInput, NotFound, Problem
from omniweb.core.htmx import page
from omniweb.core.text import natural
from sandboxes.forms.environments import (
    NOTHING,
    DraftForm,
    EnvironmentForm,
    JsonForm,
    Stored,
    draft_problems,
)
from sandboxes.models import Environment
from sandboxes.providers import conformance
from sandboxes.providers.registry import provider_spec, provider_specs
from sandboxes.providers.spec import ProviderSpec
from sandboxes.selectors import (
    environment_tests_visible,
    environments_visible,
    profiles_visible,
    runs_visible,
)
from sandboxes.services.capacity import capacity_line, capacity_set, capacity_taken
from sandboxes.services.environment_tests import environment_test_cancel, environment_test_start
from sandboxes.services.environments import (
    environment_create,
    environment_switch,
    environment_update,
)
from sandboxes.services.warm import warm_live, warm_set
from sandboxes.views.providers import Found, look
from sandboxes.views.tests_shown import shown_test
from sandboxes.views.words import place_of, shown_manifest, shown_options, spec_or_none


@require_GET
@door(Action.VIEW)
def environments_view(request: Request) -> HttpResponse:
    """The environments of the team."""
    rows = environments_visible(request.actor).annotate(last_run_at=Max("runs__created_at"))
    context = {
        "environments": [{"environment": row, "place": place_of(row)} for row in rows],
        "may_configure": request.actor.may(Action.CONFIGURE),
    }
    return page(request, "sandboxes/environments.html", context)


@require_GET
@door(Action.VIEW)
def environment_view(request: Request, ref: str) -> HttpResponse:
    """One environment: what its sandboxes are, who runs in it, and whether it works here."""
    environment = environments_visible(request.actor).by_ref(ref)
    spec = spec_or_none(environment.provider)
    tests = environment_tests_visible(request.actor).filter(environment=environment)
    last = tests.first()
    context = {
        "environment": environment,
        "last": shown_test(last) if last else None,
        "earlier": tests[1:6],
        "check_count": len(conformance.checks()),
        "ready": warm_live(environment),
        "taken": capacity_taken(environment),
        "waiting": len(capacity_line(environment)),
        "is_testable": spec is not None and spec.supports_execution and not spec.is_test,
        "place": place_of(environment),
        "options": shown_options(environment.provider, environment.options),
        "manifest": shown_manifest(environment.manifest),
        "profiles": profiles_visible(request.actor).filter(environment=environment),
        "runs": runs_visible(request.actor).filter(environment=environment)[:10],
        "may_configure": request.actor.may(Action.CONFIGURE),
    }
    return page(request, "sandboxes/environment.html", context)


@require_GET
@door(Action.VIEW)
def here_view(request: Request, ref: str) -> HttpResponse:
    """Whether an environment's provider works here with its options."""
    environment = environments_visible(request.actor).by_ref(ref)
    spec = spec_or_none(environment.provider)
    missing = Found(tone="bad", word="Not usable", line="This installation has no such provider")
    found = look(spec, environment.options) if spec else missing
    return render(request, "sandboxes/here.html", {"found": found})


@require_http_methods(["GET", "POST"])
@door(Action.CONFIGURE)
def new_view(request: Request) -> HttpResponse:
    """Choose a provider, then write an environment for it."""
    if "provider" not in request.GET:
        return page(request, "sandboxes/environment_provider.html", {"specs": provider_specs()})
    spec = _spec(request)
    form = _form(request, spec, NOTHING)
    if request.method == "POST" and form.is_valid():
        draft = form.draft()
        try:
            environment = environment_create(
                actor=request.actor,
                name=draft.name,
                provider=spec.name,
                options=draft.options,
                manifest=draft.manifest,
            )
        except InvalidInput as error:
            form.refuse(draft_problems(spec, draft) or error.problems)
        except Conflict as error:
            form.refuse([Problem(path="name", message=error.detail)])
        else:
            messages.success(request, f"The environment {environment.name} is ready to be used.")
            return HttpResponseRedirect(reverse("environment", args=[environment.ref]))
    return _form_page(request, form, environment=None)


@require_http_methods(["GET", "POST"])
@door(Action.CONFIGURE)
def edit_view(request: Request, ref: str) -> HttpResponse:
    """Change an environment for the runs opened from now on."""
    environment = environments_visible(request.actor).by_ref(ref)
    spec = provider_spec(environment.provider)
    form = _form(request, spec, _stored(environment))
    if request.method == "POST" and form.is_valid():
        draft = form.draft()
        try:
            environment_update(
                actor=request.actor,
                environment=environment,
                options=draft.options,
                manifest=draft.manifest,
            )
        except InvalidInput as error:
            form.refuse(draft_problems(spec, draft) or error.problems)
        else:
            messages.success(request, "Saved. It holds for runs opened from now on.")
            return HttpResponseRedirect(reverse("environment", args=[environment.ref]))
    return _form_page(request, form, environment=environment)


def _spec(request: Request) -> ProviderSpec:
    try:
        return provider_spec(request.GET["provider"])
    except InvalidInput as error:
        raise NotFound(error.detail) from None


def _stored(environment: Environment) -> Stored:
    return Stored(name=environment.name, options=environment.options, manifest=environment.manifest)


def _form(request: Request, spec: ProviderSpec, stored: Stored) -> DraftForm:
    kind = JsonForm if request.GET.get("as") == "json" else EnvironmentForm
    return kind(spec, stored, request.POST if request.method == "POST" else None)


def _form_page(
    request: Request, form: DraftForm, *, environment: Environment | None
) -> HttpResponse:
    context: dict[str, Any] = {
        "form": form,
        "spec": form.spec,
        "environment": environment,
        "is_json": isinstance(form, JsonForm),
    }
    status = 422 if form.errors else 200
    return page(request, "sandboxes/environment_form.html", context, status=status)


@require_POST
@door(Action.CONFIGURE)
def check_view(request: Request) -> HttpResponse:
    """Say what saving would be refused for, at the fields, while they are being filled in."""
    spec = _spec(request)
    ref = request.GET.get("environment", "")
    stored = _stored(environments_visible(request.actor).by_ref(ref)) if ref else NOTHING
    form = _form(request, spec, stored)
    if form.is_valid():
        problems = draft_problems(spec, form.draft())
        # What is still empty may yet be filled in; only saving insists.
        form.refuse(item for item in problems if not item.message.endswith("is required"))
    return render(request, "sandboxes/environment_form.html#refusals", {"form": form})


@require_POST
@door(Action.CONFIGURE)
def test_view(request: Request, ref: str) -> HttpResponse:
    """Have an environment tested and go to where its checks appear."""
    environment = environments_visible(request.actor).by_ref(ref)
    try:
        environment_test_start(actor=request.actor, environment=environment)
    except Conflict as error:
        messages.warning(request, f"{error.detail}.")
    return HttpResponseRedirect(
        reverse("environment", args=[environment.ref]) + "#environment-test"
    )


@require_POST
@door(Action.CONFIGURE)
def test_cancel_view(request: Request, ref: str) -> HttpResponse:
    """Stop the test of an environment that is under way."""
    environment = environments_visible(request.actor).by_ref(ref)
    test = environment_tests_visible(request.actor).filter(environment=environment).first()
    if test is None or not environment_test_cancel(actor=request.actor, test=test):
        messages.warning(request, "No test is under way.")
    return HttpResponseRedirect(
        reverse("environment", args=[environment.ref]) + "#environment-test"
    )


@require_POST
@door(Action.CONFIGURE)
def capacity_view(request: Request, ref: str) -> HttpResponse:
    """Say how many sandboxes an environment may have at once, and how many it keeps ready."""
    environment = environments_visible(request.actor).by_ref(ref)
    most, warm = (
        request.POST.get(name, "").strip() for name in ("max_sandboxes", "warm_sandboxes")
    )
    change: dict[str, Any] = {"actor": request.actor, "environment": environment}
    try:
        with transaction.atomic():
            capacity_set(max_sandboxes=_number(most) if most else None, **change)
            warm_set(warm_sandboxes=_number(warm or "0"), **change)
    except InvalidInput as error:
        problem = error.problems[0]
        name = "Kept ready" if problem.path == "warm_sandboxes" else "At most"
        messages.error(request, f"{name}: {problem.message}")
    else:
        messages.success(request, "Saved. It holds from now on; what runs goes on.")
    return HttpResponseRedirect(reverse("environment", args=[environment.ref]))


def _number(typed: str) -> int:
    """Return the number that was typed; what is none is told as one that is out of range."""
    found = natural(typed)
    return -1 if found is None else found


@require_POST
@door(Action.CONFIGURE)
def switch_view(request: Request, ref: str) -> HttpResponse:
    """Turn an environment on or off."""
    environment = environments_visible(request.actor).by_ref(ref)
    is_enabled = request.POST.get("enabled") == "yes"
    environment_switch(actor=request.actor, environment=environment, is_enabled=is_enabled)
    words = "on: agents may open runs in it" if is_enabled else "off: no new run opens in it"
    messages.success(request, f"{environment.name} is {words}.")
    return HttpResponseRedirect(reverse("environment", args=[environment.ref]))
