"""A team's secrets: kept encrypted, checked where they are named, given once, masked after."""

from __future__ import annotations

import hashlib
import json
from typing import Any

import docker
import pytest
from django.apps import apps
from django.urls import reverse

from approvals.models import Decision, Request
from approvals.services.policies import policy_create
from omniweb.accounts.permissions import Actor, system
from omniweb.core.errors import (
    Conflict,
    InvalidInput,
    NotPermitted,
    PolicyDenied,
    SandboxUnsupported,
)
from omniweb.core.models import AuditEntry
from sandboxes.live import live_sandbox
from sandboxes.manifest import Manifest, NetworkPolicy
from sandboxes.models import Environment, Profile, Run, Secret
from sandboxes.secrecy import redactor_for
from sandboxes.services.environments import environment_create, environment_update
from sandboxes.services.runs import run_open
from sandboxes.services.secrets import (
    secret_archive,
    secret_create,
    secret_replace,
    secrets_give,
)
from tests.factories import ask, request_of, run_ready, vote, work
from tests.people import People, bearer, browser_for

VALUE = "Zq9tugboat-4711-unlike-anything"
HOSTS = ("api.example.org",)
NAMED = {"environment": {"secret_refs": ["HARBOUR_TOKEN"]}}
REACHING = {**NAMED, "network_policy": {"allowed_hosts": ["api.example.org"]}}


@pytest.fixture
def secret(people: People) -> Secret:
    return secret_create(actor=people.operator, name="HARBOUR_TOKEN", value=VALUE, hosts=HOSTS)


def place(people: People, manifest: dict[str, Any], provider: str = "docker") -> Environment:
    """Make an environment and have the agent run in it, under a policy that asks about secrets."""
    made = environment_create(
        actor=people.operator,
        name=f"{provider} place",
        provider=provider,
        options={},
        manifest=manifest,
    )
    Profile.objects.filter(agent=people.agent.agent).update(environment=made)
    return made


def refused(people: People, provider: str, manifest: dict[str, Any]) -> list[str]:
    with pytest.raises(InvalidInput) as error:
        place(people, manifest, provider)
    assert {problem.path for problem in error.value.problems} == {
        "manifest.environment.secret_refs"
    }
    return [problem.message for problem in error.value.problems]


def columns() -> str:
    """Return all that the database holds, as text."""
    return json.dumps(
        [
            [
                bytes(value).decode("latin-1") if isinstance(value, (bytes, memoryview)) else value
                for value in row
            ]
            for model in apps.get_models()
            for row in model._default_manager.values_list()
        ],
        default=str,
    )


def test_a_value_is_in_no_row_and_in_no_audit_entry(people: People, secret: Secret) -> None:
    secret_replace(actor=people.operator, secret=secret, value=f"{VALUE}-2")
    assert VALUE not in columns()
    assert Secret.objects.get().values() == [f"{VALUE}-2"]
    acts = AuditEntry.objects.filter(subject=secret.ref).values_list("act", flat=True)
    assert sorted(acts) == ["secret.create", "secret.replace"]


def test_another_key_of_the_installation_does_not_read_it(secret: Secret, settings: Any) -> None:
    settings.SECRET_KEY = "another"
    with pytest.raises(Conflict, match="another OMNIWEB_SECRET_KEY"):
        secret.values()


@pytest.mark.parametrize("who", ["viewer", "approver", "auditor"])
def test_only_who_may_configure_keeps_secrets(people: People, secret: Secret, who: str) -> None:
    actor: Actor = getattr(people, who)
    with pytest.raises(NotPermitted):
        secret_create(actor=actor, name="OTHER", value=VALUE)
    with pytest.raises(NotPermitted):
        secret_replace(actor=actor, secret=secret, value=VALUE)
    with pytest.raises(NotPermitted):
        secret_archive(actor=actor, secret=secret)


@pytest.mark.parametrize(
    ("wrong", "path"),
    [
        ({"name": "no spaces"}, "name"),
        ({"name": ""}, "name"),
        ({"value": "12345"}, "value"),
        ({"value": "nul\0nul\0"}, "value"),
        ({"value": "two\nlines", "hosts": HOSTS}, "value"),
        ({"hosts": ("https://api.example.org",)}, "hosts"),
        ({"header": "Not a header"}, "header"),
        ({"template": "Bearer"}, "template"),
        ({"template": "{}\r\nX: {}"}, "template"),
        ({"description": "two\nlines"}, "description"),
    ],
)
def test_what_cannot_be_a_secret_is_refused_where_it_is_wrong(
    people: People, wrong: dict[str, Any], path: str
) -> None:
    with pytest.raises(InvalidInput) as error:
        secret_create(actor=people.operator, **{"name": "TOKEN", "value": VALUE} | wrong)
    assert [problem.path for problem in error.value.problems] == [path]
    assert VALUE not in str(error.value.problems)


def test_a_name_is_free_again_once_its_secret_is_archived(people: People, secret: Secret) -> None:
    with pytest.raises(Conflict, match="already a secret named HARBOUR_TOKEN"):
        secret_create(actor=people.operator, name="HARBOUR_TOKEN", value=VALUE)
    secret_archive(actor=people.operator, secret=secret)
    assert bytes(Secret.objects.get().sealed) == b""
    secret_create(actor=people.operator, name="HARBOUR_TOKEN", value=VALUE)
    with pytest.raises(Conflict, match="is archived"):
        secret_replace(actor=people.operator, secret=secret, value=VALUE)


def test_a_secret_in_use_is_not_archived_and_who_uses_it_is_named(
    people: People, secret: Secret
) -> None:
    used = place(people, NAMED)
    with pytest.raises(Conflict, match="used by docker place"):
        secret_archive(actor=people.operator, secret=secret)
    run = run_open(actor=people.agent)
    environment_update(actor=people.operator, environment=used, options={}, manifest={})
    with pytest.raises(Conflict, match=f"in use: {run.ref} must end first"):
        secret_archive(actor=people.operator, secret=secret)


def test_a_reference_to_no_secret_of_the_team_is_refused_when_saved_and_at_open(
    people: People,
) -> None:
    secret_create(actor=people.outsider, name="HARBOUR_TOKEN", value=VALUE)
    said = "There is no secret HARBOUR_TOKEN: add it to the team's secrets"
    assert refused(people, "docker", NAMED)[0].startswith(said)
    place(people, {})
    with pytest.raises(SandboxUnsupported, match="There is no secret HARBOUR_TOKEN"):
        run_open(actor=people.agent, manifest=Manifest.parse(NAMED))
    assert Run.objects.get().state == "refused"


@pytest.mark.parametrize(
    ("provider", "manifest", "said"),
    [
        ("docker", {**NAMED, "network_policy": {"default": "allow"}}, "allow no other host"),
        ("e2b", NAMED, "cannot reach: allow one of them"),
        ("daytona", NAMED, "cannot reach: allow one of them"),
        ("vercel", NAMED, "cannot reach: allow one of them"),
        (
            "docker",
            {
                "environment": {
                    "secret_refs": ["HARBOUR_TOKEN"],
                    "plain": {"HARBOUR_TOKEN_FILE": ""},
                }
            },
            "take it out of environment.plain",
        ),
        (
            "e2b",
            {**REACHING, "environment": {"secret_refs": ["HARBOUR_TOKEN", "SECOND"]}},
            "would both be the header Authorization",
        ),
        ("e2b", {"environment": {"secret_refs": ["HOMELESS"]}}, "HOMELESS names none"),
    ],
)
def test_where_a_secret_may_go_is_kept_or_refused(
    people: People, secret: Secret, provider: str, manifest: dict[str, Any], said: str
) -> None:
    secret_create(actor=people.operator, name="SECOND", value=VALUE, hosts=["*.example.org"])
    secret_create(actor=people.operator, name="HOMELESS", value=VALUE)
    assert said in "\n".join(refused(people, provider, manifest))


@pytest.mark.parametrize("provider", ["e2b", "daytona", "vercel"])
def test_a_provider_that_sends_it_takes_it_where_a_host_is_reached(
    people: People, secret: Secret, provider: str
) -> None:
    place(people, REACHING, provider)


def test_each_use_is_asked_with_where_it_may_go(people: People, secret: Secret) -> None:
    place(people, REACHING, "e2b")
    run = run_open(actor=people.agent)
    decision = Decision.objects.get(subject_id=run.pk, capability="secret.use")
    asked = decision.authority_request
    assert asked["target"] == {"resource": "HARBOUR_TOKEN"}
    assert asked["metadata"] == {
        "purpose": "sandbox environment",
        "delivery": "header",
        "is_readable": False,
        "hosts": ["api.example.org"],
        "header": "Authorization",
    }
    request = Request.objects.get(subject_id=run.pk)
    card = browser_for(people.approver).get(reverse("request", args=[request.ref])).text
    assert "use the secret HARBOUR_TOKEN for api.example.org" in card
    assert "HARBOUR_TOKEN → api.example.org" in card
    assert "e2b place" in card


def test_a_card_says_where_commands_can_read_it(people: People, secret: Secret) -> None:
    place(people, NAMED)
    request = Request.objects.get(subject_id=run_open(actor=people.agent).pk)
    card = browser_for(people.approver).get(reverse("request", args=[request.ref])).text
    assert "read the secret HARBOUR_TOKEN for api.example.org" in card
    assert "secret its commands can read:" in card


def test_a_policy_may_deny_a_secret(people: People, secret: Secret) -> None:
    place(people, NAMED)
    source = (
        "name: shut\nmode: permissive\nrules: {deny: [{rule_id: no, capability: secret.use}]}\n"
    )
    policy = policy_create(actor=system(people.team), name="shut", source=source)
    Profile.objects.filter(agent=people.agent.agent).update(policy=policy)
    with pytest.raises(PolicyDenied):
        run_open(actor=people.agent)


def test_a_secret_replaced_under_an_open_run_is_masked_old_and_new(
    people: People, secret: Secret
) -> None:
    place(people, NAMED)
    run = run_open(actor=people.agent)
    secret_replace(actor=people.operator, secret=secret, value="a-newer-tugboat")
    [given] = secrets_give(run=run)
    assert given.value == "a-newer-tugboat"
    assert given.value not in repr(given)
    clean = redactor_for(run).text(f"{VALUE} and a-newer-tugboat")
    assert "tugboat" not in clean
    assert Secret.objects.get().last_used_at is not None


def test_every_long_line_of_a_secret_is_masked(people: People) -> None:
    value = "first line of a key\nsecond line of it"
    secret_create(actor=people.operator, name="HARBOUR_TOKEN", value=value)
    place(people, NAMED)
    run = run_open(actor=people.agent)
    assert "second" not in redactor_for(run).text("2: second line of it")


# What it prints is kept by a thread of its own.
@pytest.mark.django_db(transaction=True)
@pytest.mark.docker
def test_a_container_reads_its_secret_and_nobody_reads_it_in_the_record(
    people: People, docker_image: str
) -> None:
    secret_create(actor=people.operator, name="HARBOUR_TOKEN", value=VALUE)
    made = place(people, NAMED)
    options = {"image": docker_image, "pull": "never"}
    environment_update(actor=people.operator, environment=made, options=options, manifest=NAMED)
    run = run_ready(people.agent, people.approver)
    live = live_sandbox(run.sandboxes.get())
    try:
        file = '"$HARBOUR_TOKEN_FILE"'
        script = f"stat -c '%a %u' {file}; df -P {file}; sha256sum < {file}; cat {file}; env"
        request = ask(people.agent, run, script)
        if request.request_id:
            vote(people.approver, request_of(request))
        done = work(request)
        with pytest.raises(SandboxUnsupported, match="keeps the network it was made with"):
            live.set_network(NetworkPolicy(default="allow"))
        engine = docker.from_env()
        seen = json.dumps(engine.api.inspect_container(live.handle["container"]))
        engine.close()
    finally:
        live.terminate()
    assert done.exit_code == 0
    assert done.stdout is not None
    printed = bytes(done.stdout.data).decode()
    assert printed.startswith("400 65534\n")
    assert "tmpfs" in printed
    assert hashlib.sha256(VALUE.encode()).hexdigest() in printed
    assert "HARBOUR_TOKEN_FILE=/run/secrets/HARBOUR_TOKEN" in printed
    assert VALUE not in printed + seen + columns()


def test_the_pages_keep_replace_and_archive_and_never_show_a_value(people: People) -> None:
    browser = browser_for(people.operator)
    written = {
        "name": "HARBOUR_TOKEN",
        "value": VALUE,
        "hosts": "api.example.org",
        "header": "X",
        "template": "no place",
    }
    answer = browser.post("/environments/secrets/new", written)
    assert answer.status_code == 422
    assert "has {} once" in answer.text
    assert VALUE not in answer.text
    answer = browser.post("/environments/secrets/new", written | {"template": "{}"}, follow=True)
    secret = Secret.objects.get()
    assert answer.redirect_chain[-1][0] == f"/environments/secrets/{secret.ref}"
    answer = browser.post(f"/environments/secrets/{secret.ref}/replace", {"value": "12345"})
    assert "at least 6 characters" in answer.text
    browser.post(f"/environments/secrets/{secret.ref}/replace", {"value": f"{VALUE}\r\nagain"})
    browser.post(f"/environments/secrets/{secret.ref}/replace", {"value": f"{VALUE}-2"})
    assert Secret.objects.get().values() == [f"{VALUE}-2"]
    environment = place(people, NAMED)
    answer = browser.post(f"/environments/secrets/{secret.ref}/archive", follow=True)
    assert "is used by docker place" in answer.text
    assert "HARBOUR_TOKEN" in browser.get(f"/environments/{environment.ref}/edit").text
    environment_update(actor=people.operator, environment=environment, options={}, manifest={})
    answer = browser.post(f"/environments/secrets/{secret.ref}/archive", follow=True)
    assert "No secrets" in answer.text


def test_the_form_of_an_environment_names_secrets(people: People, secret: Secret) -> None:
    browser = browser_for(people.operator)
    written = {"name": "new", "mount_mode": "read_only", "network": "deny"}
    answer = browser.post("/environments/new?provider=docker", written | {"secret_refs": "NOWHERE"})
    assert "There is no secret NOWHERE" in answer.text
    browser.post("/environments/new?provider=docker", written | {"secret_refs": "HARBOUR_TOKEN"})
    assert Environment.objects.get(name="new").manifest == NAMED


def test_the_api_takes_values_and_gives_none(people: People) -> None:
    client, head = browser_for(people.viewer), bearer(people.operator)

    def send(method: str, path: str, **body: Any) -> Any:
        return getattr(client, method)(
            f"/api/v1/secrets{path}", body or None, content_type="application/json", headers=head
        )

    made = send("post", "", name="HARBOUR_TOKEN", value=VALUE, hosts=["API.example.org"])
    assert made.status_code == 201
    ref = made.json()["id"]
    assert made.json()["hosts"] == ["api.example.org"]
    texts = [
        made.text,
        send("put", f"/{ref}/value", value=f"{VALUE}-2").text,
        client.get("/api/v1/secrets", headers=bearer(people.viewer)).text,
        client.get(f"/api/v1/secrets/{ref}", headers=head).text,
    ]
    assert VALUE not in "".join(texts)
    assert '"rotated_at": "' in texts[1] or '"rotated_at":"' in texts[1]
    assert send("post", f"/{ref}/archive").status_code == 200
    assert client.get(f"/api/v1/secrets/{ref}", headers=head).status_code == 404
