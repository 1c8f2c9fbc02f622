"""The pages of agents, and the code they give to paste."""

from __future__ import annotations

import html
import re
import subprocess
import sys
from contextlib import closing

import pytest
from django.test import Client

from approvals.selectors import policy_for
from omniweb.accounts.models import AgentIdentity, ApiToken
from omniweb.accounts.services import token_create
from omniweb.core.clock import now
from sandboxes.models import Environment, Profile
from sandboxes.services.environments import environment_switch
from sandboxes.views.snippets import PLACEHOLDER, snippets
from tests.factories import FREE_POLICY, run_ready
from tests.people import People, browser_for
from tests.server import ADMIN, Server


@pytest.fixture
def agent(people: People) -> AgentIdentity:
    assert people.agent.agent
    return people.agent.agent


def choices(people: People) -> dict[str, object]:
    assert people.owner.user
    return {
        "owner": people.owner.user.pk,
        "policy": policy_for(people.team, "interactive-dev").pk,
        "environment": Environment.objects.get(team=people.team, name="here").pk,
    }


def test_the_list_says_who_answers_and_where_each_runs(people: People) -> None:
    text = browser_for(people.viewer).get("/agents").text
    for words in ("fix-bot", "owner@example.org", "interactive-dev", "here"):
        assert words in text
    assert "Register an agent" not in text


def test_a_team_without_agents_is_told_what_to_do(people: People) -> None:
    assert "No agents yet" in browser_for(people.outsider).get("/agents").text


def test_an_operator_registers_an_agent_and_goes_on_to_connect_it(people: People) -> None:
    answer = browser_for(people.operator).post(
        "/agents/new", {"name": "lab-agent", **choices(people)}, follow=True
    )
    made = AgentIdentity.objects.get(team=people.team, name="lab-agent")
    assert answer.redirect_chain[-1][0] == f"/agents/{made.ref}/connect"
    assert Profile.objects.get(agent=made).policy.name == "interactive-dev"


def test_a_taken_name_is_refused_and_what_was_chosen_stays(people: People) -> None:
    chosen = choices(people)
    answer = browser_for(people.operator).post("/agents/new", {"name": "fix-bot", **chosen})
    assert answer.status_code == 422
    assert "There is already an agent named fix-bot" in answer.text
    assert 'value="fix-bot"' in answer.text
    assert f'value="{chosen["policy"]}" selected' in answer.text


def test_another_teams_policy_is_no_choice(people: People) -> None:
    chosen = choices(people) | {"policy": policy_for(people.outsider.team, "interactive-dev").pk}
    answer = browser_for(people.operator).post("/agents/new", {"name": "lab-agent", **chosen})
    assert answer.status_code == 422
    assert not AgentIdentity.objects.filter(name="lab-agent").exists()


def test_the_profile_is_changed_for_new_runs(people: People, agent: AgentIdentity) -> None:
    chosen = choices(people)
    chosen["policy"] = policy_for(people.team, "strict-production").pk
    answer = browser_for(people.operator).post(f"/agents/{agent.ref}/profile", chosen, follow=True)
    assert "It holds for runs opened from now on." in answer.text
    assert Profile.objects.get(agent=agent).policy.name == "strict-production"


def test_a_token_is_shown_once_and_works_until_it_is_revoked(
    people: People, agent: AgentIdentity
) -> None:
    client = browser_for(people.operator)
    answer = client.post(f"/agents/{agent.ref}/connect", {"label": "CI", "lifetime": "30"})
    [secret] = set(re.findall(r"omw_[\w-]{20,}", answer.text))
    assert "no-store" in answer["Cache-Control"]
    token = ApiToken.objects.get(agent=agent, label="CI")
    assert token.expires_at is not None
    assert 29 <= (token.expires_at - now()).days <= 30
    for path in (f"/agents/{agent.ref}", f"/agents/{agent.ref}/connect", "/audit"):
        assert secret not in client.get(path).text
    assert (
        Client(headers={"Authorization": f"Bearer {secret}"}).get("/api/v1/runs").status_code == 200
    )

    client.post(f"/agents/{agent.ref}/tokens/{token.ref}/revoke")
    assert "revoked" in client.get(f"/agents/{agent.ref}").text
    assert (
        Client(headers={"Authorization": f"Bearer {secret}"}).get("/api/v1/runs").status_code == 401
    )


def test_without_a_token_the_code_has_a_place_for_it(people: People, agent: AgentIdentity) -> None:
    text = browser_for(people.operator).get(f"/agents/{agent.ref}/connect").text
    assert PLACEHOLDER in text


def test_an_environment_that_is_off_is_said_before_anyone_wonders(
    people: People, agent: AgentIdentity
) -> None:
    here = Environment.objects.get(team=people.team, name="here")
    environment_switch(actor=people.operator, environment=here, is_enabled=False)
    client = browser_for(people.operator)
    assert "cannot open runs" in client.get(f"/agents/{agent.ref}").text
    assert "Turn it on" in client.get(f"/agents/{agent.ref}/connect").text


def test_the_page_of_an_agent_lists_its_runs(people: People, agent: AgentIdentity) -> None:
    run = run_ready(people.agent, people.approver)
    assert run.ref in browser_for(people.viewer).get(f"/agents/{agent.ref}").text


@pytest.mark.parametrize("name", ["viewer", "auditor", "approver"])
def test_only_those_who_configure_make_agents_and_tokens(
    people: People, agent: AgentIdentity, name: str
) -> None:
    client = browser_for(people.everyone[name])
    assert client.get(f"/agents/{agent.ref}").status_code == 200
    assert "Connect</a>" not in client.get(f"/agents/{agent.ref}").text
    for path in ("/agents/new", f"/agents/{agent.ref}/connect"):
        assert client.get(path).status_code == 403
        assert client.post(path, {"name": "x"}).status_code == 403
    assert client.post(f"/agents/{agent.ref}/profile", choices(people)).status_code == 403


def test_another_teams_agent_and_token_are_not_there(people: People, agent: AgentIdentity) -> None:
    token, _ = token_create(actor=people.operator, agent=agent)
    client = browser_for(people.outsider)
    assert client.get(f"/agents/{agent.ref}").status_code == 404
    assert client.get(f"/agents/{agent.ref}/connect").status_code == 404
    assert client.post(f"/agents/{agent.ref}/connect", {"label": "x"}).status_code == 404
    assert client.post(f"/agents/{agent.ref}/profile", choices(people)).status_code == 404
    assert client.post(f"/agents/{agent.ref}/tokens/{token.ref}/revoke").status_code == 404
    token.refresh_from_db()
    assert token.revoked_at is None


def test_a_name_with_quotes_stays_a_text_in_the_code(people: People, agent: AgentIdentity) -> None:
    agent.name = '"); import os #'
    for snippet in snippets(agent, Profile.objects.get(agent=agent), "omw_secret"):
        if snippet.key != "curl":
            compile(snippet.code, snippet.key, "exec")


def test_the_code_for_omnicoreagent_says_what_its_environment_gives(
    people: People, agent: AgentIdentity
) -> None:
    profile = Profile.objects.select_related("environment").get(agent=agent)
    code = snippets(agent, profile, "omw_secret")[0].code
    compile(code, "omnicoreagent", "exec")
    assert '"default": "allow"' in code
    assert str(profile.environment.manifest["working_dir"]) in code


@pytest.mark.parametrize(
    ("key", "program"), [("curl", ["bash", "-eu", "-c"]), ("python", [sys.executable, "-c"])]
)
def test_the_code_works_as_it_is_pasted(server: Server, key: str, program: list[str]) -> None:
    server.policy(f"free-{key}", FREE_POLICY.replace("name: free", f"name: free-{key}"))
    server.agent_made(f"pasted-{key}", f"free-{key}")
    with closing(server.browser(ADMIN)) as browser:
        listed = browser.get("/agents").text
        [path] = re.findall(rf'href="(/agents/agt_\w+)"[^>]*>pasted-{key}<', listed)
        page = browser.get(f"{path}/connect")
        token = re.search(r'name="csrfmiddlewaretoken" value="([^"]+)"', page.text)
        assert token
        made = browser.post(
            f"{path}/connect",
            data={"csrfmiddlewaretoken": token[1], "label": key, "lifetime": "1"},
            headers={"Origin": server.url, "Referer": f"{server.url}{path}/connect"},
        )
    section = made.text.split(f'id="{key}"', 1)[1]
    found = re.search(r"<code>(.*?)</code>", section, re.DOTALL)
    assert found
    code = html.unescape(found[1])
    done = subprocess.run(
        [*program, code], capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "uid=" in done.stdout
    assert "Linux" in done.stdout
