"""The pages of environments: a form that knows each provider."""

from __future__ import annotations

import json
from typing import Any

import pytest

from omniweb.accounts.permissions import system
from sandboxes.models import Environment
from sandboxes.providers.registry import provider_specs
from sandboxes.services.environments import environment_create
from tests.people import People, browser_for

HTMX = {"HX-Request": "true"}
NO_HOSTS = "The docker sandbox does not enforce allowed_hosts with gVisor"


@pytest.fixture
def here(people: People) -> Environment:
    return Environment.objects.get(team=people.team, name="here")


@pytest.fixture
def service(people: People) -> Environment:
    return environment_create(
        actor=system(people.team),
        name="service",
        provider="http",
        options={"base_url": "https://sandboxes.example.org", "token": "hush-hush-1234"},
        manifest={"environment": {"plain": {"API_TOKEN": "quiet-quiet-5678", "LANG": "C"}}},
    )


def test_the_list_says_what_is_isolated_and_what_is_not(people: People, here: Environment) -> None:
    text = browser_for(people.viewer).get("/environments").text
    for words in ("here", "not isolated", "network on"):
        assert words in text
    assert "New environment" not in text


@pytest.mark.parametrize(
    ("policy", "words"),
    [
        ({"default": "deny", "allowed_hosts": ["a.example"]}, "some hosts only"),
        ({"default": "allow", "denied_hosts": ["a.example"]}, "all but some hosts"),
    ],
)
def test_an_environment_says_which_hosts_are_told_apart(
    people: People, policy: dict[str, Any], words: str
) -> None:
    made = environment_create(
        actor=system(people.team),
        name="listed",
        provider="docker",
        options={"verify_network_isolation": False},
        manifest={"network_policy": policy},
    )
    text = browser_for(people.viewer).get(f"/environments/{made.ref}").text
    assert words in text
    assert "a.example" in text
    assert "verify_network_isolation" in text.split("<h1", 1)[1].split("<dl", 1)[0]


@pytest.mark.parametrize("provider", [spec.name for spec in provider_specs()])
def test_every_provider_has_a_form_with_its_options(people: People, provider: str) -> None:
    text = browser_for(people.operator).get(f"/environments/new?provider={provider}").text
    [spec] = [spec for spec in provider_specs() if spec.name == provider]
    for option in spec.options:
        assert f'name="option_{option.name}"' in text
        assert option.default in (None, (), True, False) or str(option.default) in text


def test_an_unknown_provider_is_not_there(people: People) -> None:
    answer = browser_for(people.operator).get("/environments/new?provider=nowhere")
    assert answer.status_code == 404
    assert "must be a registered sandbox provider" in answer.text


def test_a_form_becomes_options_and_a_manifest(people: People) -> None:
    written = {
        "name": "strict",
        "option_image": "python:3.13-slim",
        "option_pids_limit": "64",
        "option_pull": "never",
        "option_user": "65534:65534",
        "option_verify_network_isolation": "on",
        "working_dir": "/work",
        "network": "allow",
        "variables": "LANG=C\nA=b=c",
        "cpu": "0.5",
        "memory": "512m",
        "mount_mode": "read_only",
    }
    answer = browser_for(people.operator).post(
        "/environments/new?provider=docker", written, follow=True
    )
    made = Environment.objects.get(team=people.team, name="strict")
    assert answer.redirect_chain[-1][0] == f"/environments/{made.ref}"
    assert made.options == {"image": "python:3.13-slim", "pids_limit": 64, "pull": "never"}
    assert made.manifest == {
        "working_dir": "/work",
        "network_policy": {"default": "allow"},
        "environment": {"plain": {"LANG": "C", "A": "b=c"}},
        "resources": {"cpu": "0.5", "memory": "512m"},
    }


def test_what_is_refused_is_said_at_its_field_and_nothing_is_lost(people: People) -> None:
    written = {
        "name": "strict",
        "option_user": "root",
        "option_runtime": "runsc",
        "option_pids_limit": "many",
        "network": "deny",
        "allowed_hosts": "a.example.org",
        "variables": "LANG=C",
    }
    answer = browser_for(people.operator).post("/environments/new?provider=docker", written)
    assert answer.status_code == 422
    assert "must be numeric" in at(answer.text, "option_user")
    assert "must be a positive whole number" in at(answer.text, "option_pids_limit")
    assert NO_HOSTS in at(answer.text, "allowed_hosts")
    for value in ('value="root"', 'value="many"', "a.example.org", "LANG=C", 'value="strict"'):
        assert value in answer.text
    assert not Environment.objects.filter(name="strict").exists()


def at(text: str, field: str) -> str:
    """Return the list of refusals at a field."""
    return text.split(f'id="id_{field}_error"', 1)[1].split("</ul>", 1)[0]


def test_refusals_come_while_the_form_is_filled_in(people: People) -> None:
    answer = browser_for(people.operator).post(
        "/environments/check?provider=docker",
        {
            "option_user": "root",
            "option_runtime": "runsc",
            "network": "deny",
            "allowed_hosts": "a.example.org",
        },
        headers=HTMX,
    )
    assert answer.status_code == 200
    assert "must be numeric" in at(answer.text, "option_user")
    assert NO_HOSTS in at(answer.text, "allowed_hosts")
    assert "<li>" not in at(answer.text, "option_image")
    # Only lists of refusals are replaced: what is being typed stays.
    assert "<input" not in answer.text


def test_an_empty_field_is_only_insisted_on_when_saving(people: People) -> None:
    client = browser_for(people.operator)
    checked = client.post("/environments/check?provider=http", {"network": "deny"}, headers=HTMX)
    assert "is required" not in checked.text
    saved = client.post("/environments/new?provider=http", {"name": "x", "network": "deny"})
    assert "is required" in at(saved.text, "option_base_url")


def test_local_without_a_network_is_refused_in_the_documents_words(people: People) -> None:
    written = {"name": "mine", "working_dir": "/tmp/mine", "network": "deny"}
    answer = browser_for(people.operator).post("/environments/new?provider=local", written)
    assert (
        "The local sandbox does not enforce network off: local runs on the host and cannot cut its "
        "network; set network_policy default &#x27;allow&#x27; with no host lists, or use an "
        "isolating provider such as docker" in at(answer.text, "network")
    )


def test_a_taken_name_is_refused_at_the_name(people: People, here: Environment) -> None:
    answer = browser_for(people.operator).post(
        "/environments/new?provider=docker", {"name": "here", "network": "deny"}
    )
    assert "There is already an environment named here" in at(answer.text, "name")


@pytest.mark.parametrize("query", ["", "?as=json"])
def test_saving_a_form_as_it_came_changes_nothing(
    people: People, service: Environment, query: str
) -> None:
    client = browser_for(people.operator)
    answer = client.get(f"/environments/{service.ref}/edit{query}")
    assert "hush-hush" not in answer.text
    form: Any = answer.context["form"]
    written = {
        field.html_name: field.value() for field in form if field.value() not in (None, False)
    }
    assert client.post(f"/environments/{service.ref}/edit{query}", written).status_code == 302
    again = Environment.objects.get(pk=service.pk)
    assert again.options == service.options
    assert again.manifest == service.manifest


def test_a_secret_is_replaced_when_a_new_one_is_written(
    people: People, service: Environment
) -> None:
    browser_for(people.operator).post(
        f"/environments/{service.ref}/edit",
        {"option_base_url": "https://other.example.org", "option_token": "new", "network": "deny"},
    )
    again = Environment.objects.get(pk=service.pk)
    assert again.options["token"] == "new"
    assert again.options["base_url"] == "https://other.example.org"


def test_the_other_form_takes_json_and_says_where_it_is_wrong(people: People) -> None:
    client = browser_for(people.operator)
    path = "/environments/new?provider=docker&as=json"
    wrong = client.post(path, {"name": "raw", "options": "{", "manifest": '{"colour": 1}'})
    assert wrong.status_code == 422
    assert "This is not JSON" in at(wrong.text, "options")
    unknown = client.post(path, {"name": "raw", "options": "{}", "manifest": '{"colour": 1}'})
    assert "unknown field(s) colour" in unknown.text
    manifest = {"resources": {"memory": "1g"}}
    client.post(
        path, {"name": "raw", "options": '{"runtime": "runsc"}', "manifest": json.dumps(manifest)}
    )
    made = Environment.objects.get(team=people.team, name="raw")
    assert (made.options, made.manifest) == ({"runtime": "runsc"}, manifest)


def test_secrets_of_an_environment_are_on_no_page(people: People, service: Environment) -> None:
    text = browser_for(people.viewer).get(f"/environments/{service.ref}").text
    assert "https://sandboxes.example.org" in text
    assert "hush-hush" not in text
    assert "quiet-quiet" not in text


def test_turning_on_what_is_not_isolated_asks_loudly(people: People, here: Environment) -> None:
    client = browser_for(people.operator)
    client.post(f"/environments/{here.ref}/switch", {"enabled": "no"})
    here.refresh_from_db()
    assert not here.is_enabled
    text = client.get(f"/environments/{here.ref}").text
    assert "This machine is not a sandbox." in text
    assert "Turn it on anyway" in text
    client.post(f"/environments/{here.ref}/switch", {"enabled": "yes"})
    here.refresh_from_db()
    assert here.is_enabled


def test_whether_an_environment_works_here_is_looked_up_apart(
    people: People, here: Environment
) -> None:
    client = browser_for(people.viewer)
    assert f"/environments/{here.ref}/here" in client.get(f"/environments/{here.ref}").text
    assert "Usable" in client.get(f"/environments/{here.ref}/here").text


@pytest.mark.parametrize("name", ["viewer", "auditor", "approver"])
def test_only_those_who_configure_change_environments(
    people: People, here: Environment, name: str
) -> None:
    client = browser_for(people.everyone[name])
    assert "/edit" not in client.get(f"/environments/{here.ref}").text
    for path in ("/environments/new?provider=docker", f"/environments/{here.ref}/edit"):
        assert client.get(path).status_code == 403
        assert client.post(path, {"name": "x"}).status_code == 403
    for path in ("/environments/check?provider=docker", f"/environments/{here.ref}/switch"):
        assert client.post(path).status_code == 403


def test_another_teams_environment_is_not_there(people: People, here: Environment) -> None:
    client = browser_for(people.outsider)
    for path in ("", "/edit", "/here"):
        assert client.get(f"/environments/{here.ref}{path}").status_code == 404
    assert client.post(f"/environments/{here.ref}/switch").status_code == 404
    check = f"/environments/check?provider=local&environment={here.ref}"
    assert client.post(check).status_code == 404


def test_a_new_form_starts_with_what_its_provider_can_keep(people: People) -> None:
    client = browser_for(people.operator)
    for provider, default in (("docker", "deny"), ("local", "allow")):
        form = client.get(f"/environments/new?provider={provider}").context["form"]
        assert form["network"].value() == default
