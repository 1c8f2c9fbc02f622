"""Local: this machine, not a sandbox."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml
from django.test import Client

from approvals.policy.profiles.profiles import profile_source
from omniweb.accounts.permissions import system
from omniweb.core.clock import now
from omniweb.core.errors import SandboxUnsupported
from sandboxes.manifest import Manifest
from sandboxes.models import Environment, Execution, Profile, Run
from sandboxes.providers.base import LiveSandbox
from sandboxes.providers.registry import open_provider, provider_spec, satisfies_required_sandbox
from sandboxes.services.environments import environment_create
from tests.factories import ask, policy_use, request_of, run_ready, work
from tests.people import People, bearer, browser_for
from tests.providers import unique
from tests.providers.running import run, sh, somebody
from tests.requirements.sandbox_providers.doors import Place, refused_everywhere

FREE = "name: free\nmode: permissive\nrules: {}\n"
NAMED = ("PATH", "HOME", "USER", "LOGNAME", "LANG", "LC_ALL", "TERM", "TMPDIR", "TZ")

Open = Callable[..., LiveSandbox]


@pytest.fixture
def opened(tmp_path: Path) -> Open:
    """Return a function that opens a local sandbox: options, then manifest fields."""

    def make(options: Mapping[str, Any] | None = None, **fields: Any) -> LiveSandbox:
        said = {"working_dir": str(tmp_path), "network_policy": {"default": "allow"}, **fields}
        return open_provider("local", options or {}).create(Manifest.parse(said), owner=somebody())

    return make


def printed(execution: Execution) -> str:
    """Return what a command wrote to stdout."""
    return bytes(execution.stdout.data).decode() if execution.stdout else ""


def local_run(people: People, folder: Path, **options: Any) -> Run:
    """Return a ready run of the agent on this machine."""
    environment = environment_create(
        actor=system(people.team),
        name=unique("local"),
        provider="local",
        options=options,
        manifest={"working_dir": str(folder), "network_policy": {"default": "allow"}},
    )
    Profile.objects.filter(agent=people.agent.agent).update(environment=environment)
    return run_ready(people.agent, people.approver)


# "with nothing in between"


def test_a_command_is_a_process_of_this_machine(opened: Open, tmp_path: Path) -> None:
    """'local runs each command as a process on the machine the agent runs on'."""
    sandbox = opened()
    assert sh(sandbox, "id -u").text == str(os.getuid())
    assert sh(sandbox, "cat /proc/sys/kernel/random/boot_id").text == (
        Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    )


def test_it_can_reach_the_network_and_any_file_and_its_changes_stay(
    opened: Open, tmp_path: Path
) -> None:
    """'a command can reach the network, read and change any file …, and what it changes stays'."""
    elsewhere = tmp_path.parent / unique("elsewhere")
    sandbox = opened()
    assert sh(sandbox, f"echo changed > {elsewhere}; cat /proc/net/dev").code == 0
    sandbox.terminate()
    assert elsewhere.read_text() == "changed\n"


# The built-in profiles


@pytest.mark.parametrize(
    ("profile", "state"),
    [("permissive-dev", "denied"), ("strict-production", "denied"), ("interactive-dev", "waiting")],
)
def test_the_built_in_profiles_never_allow_host_commands_on_their_own(
    people: People, tmp_path: Path, profile: str, state: str
) -> None:
    """'permissive-dev and strict-production deny them; interactive-dev asks a person for each'."""
    run_here = run_decided_by(people, tmp_path, profile_source(profile))
    for _ in range(2):
        assert ask(people.agent, run_here, "echo hi").state == state


def run_decided_by(people: People, folder: Path, source: str) -> Run:
    """Return an open run whose commands a policy decides that may not have let it open."""
    policy_use(people.agent, FREE, name="free")
    run_here = local_run(people, folder)
    policy_use(people.agent, source, name="under-test")
    version = Profile.objects.get(agent=people.agent.agent).policy.active_version
    Run.objects.filter(pk=run_here.pk).update(version=version)
    return run_here


def own_rules(profile: str, *dropped: str) -> str:
    """Return the document's policy: a profile without some asks, host commands allowed by a rule."""
    document = yaml.safe_load(profile_source(profile))
    rules = document["rules"]
    rules["ask"] = [rule for rule in rules.get("ask", []) if rule["rule_id"] not in dropped]
    rules["allow"].insert(
        0,
        {
            "rule_id": "allow_host_commands",
            "capability": "process.exec",
            "conditions": {"execution_surface": "host"},
        },
    )
    return str(yaml.safe_dump(document | {"name": "host-runner"}, sort_keys=False))


DROPPED = ("ask_process_exec", "ask_high_risk", "ask_sandbox_network")


@pytest.mark.django_db(transaction=True)
def test_the_documents_policy_lets_host_commands_run_without_asking(
    people: People, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """'drop the asks that stand in the way, and allow host commands with a rule of your own'."""
    monkeypatch.setenv("LLM_API_KEY", "sk-of-the-server")
    policy_use(people.agent, own_rules("interactive-dev", *DROPPED), name="host-runner")
    run_here = local_run(people, tmp_path)
    assert run_here.state == "active"
    done = work(ask(people.agent, run_here, 'pwd; echo "LLM_API_KEY=${LLM_API_KEY:-unset}"'))
    assert (done.state, done.exit_code) == ("finished", 0)
    assert done.decision is not None
    assert done.decision.matched_rules == ["allow_host_commands"]
    assert printed(done) == f"{tmp_path}\nLLM_API_KEY=unset\n"


def test_with_the_asks_kept_a_person_is_still_asked(people: People, tmp_path: Path) -> None:
    """'Dropping ask_high_risk stops the profile asking …; keep it if …'."""
    source = own_rules("interactive-dev", "ask_process_exec", "ask_sandbox_network")
    policy_use(people.agent, source, name="host-runner")
    run_here = local_run(people, tmp_path)
    waiting = ask(people.agent, run_here, "echo hi")
    assert waiting.state == "waiting"
    assert "ask_high_risk" in str(request_of(waiting).lines)


def test_permissive_dev_cannot_be_opened_up_that_way(people: People, tmp_path: Path) -> None:
    """'A deny rule always wins over an allow, so this cannot be done from permissive-dev.'"""
    run_here = run_decided_by(people, tmp_path, own_rules("permissive-dev", *DROPPED))
    denied = ask(people.agent, run_here, "echo hi")
    assert denied.state == "denied"
    assert denied.decision is not None
    assert "deny_unrestricted_process_exec" in denied.decision.matched_rules


# "The manifest's working_dir must already exist"


@pytest.mark.django_db(transaction=True)
def test_without_its_working_directory_the_first_command_fails_and_says_so(
    people: People, tmp_path: Path
) -> None:
    """'otherwise the first command fails, saying the working directory does not exist'."""
    policy_use(people.agent, FREE)
    missing = tmp_path / "app"
    run_here = local_run(people, missing)
    [sandbox] = run_here.sandboxes.all()
    assert sandbox.state == "failed"
    assert sandbox.reason == (
        f"The local sandbox's working directory {missing} does not exist; create it, set "
        "sandbox_manifest.working_dir to one that does, or set the option create_working_dir=true"
    )
    assert not missing.exists()


def test_working_dir_is_a_real_directory_used_as_it_is(opened: Open, tmp_path: Path) -> None:
    """'a real directory, used as it is'; 'Workspace files are not copied in or out'."""
    (tmp_path / "mine").write_text("mine")
    sandbox = opened()
    assert sh(sandbox, "cat mine; echo new > made").text == "mine"
    assert (tmp_path / "made").read_text() == "new\n"


# "What it refuses."

HOST_LISTS = {"default": "allow", "allowed_hosts": ["packages.example.org"]}
REFUSED: dict[str, dict[str, Any]] = {
    "no manifest at all": {},
    "the network at its default": {"working_dir": "/srv"},
    "an image": {"image": "python:3.12-slim"},
    "host lists": {"network_policy": HOST_LISTS},
    "a workspace mount": {"workspace_mount": {"source": "/srv/data", "target": "/data"}},
    "CPU": {"resources": {"cpu": "1"}},
    "memory": {"resources": {"memory": "1g"}},
    "GPU limits": {"resources": {"gpu": True}},
    "a sandbox lifetime": {"resources": {"timeout_seconds": 60}},
    "secret references": {"environment": {"secret_refs": ["vault/key"]}},
}


@pytest.mark.parametrize("what", REFUSED)
def test_what_it_cannot_give_is_refused_at_every_door(people: People, what: str) -> None:
    """'What it refuses': the network at its default, an image, a mount, limits, a lifetime, secrets."""
    manifest = dict(REFUSED[what])
    if what not in ("no manifest at all", "the network at its default"):
        manifest.setdefault("network_policy", {"default": "allow"})
    told = refused_everywhere(people, Place(provider="local", manifest=manifest))
    assert len(set(told)) == 1
    assert told[0].startswith("The local sandbox does not enforce ")


def test_path_lists_are_refused_with_the_reason(people: People) -> None:
    """'filesystem allow, with no … path lists': nobody keeps path lists, so they cannot be written."""
    manifest = {"network_policy": {"default": "allow"}, "filesystem_policy": {"default": "allow"}}
    told = refused_everywhere(people, Place(provider="local", manifest=manifest))
    assert all("has unknown field(s) filesystem_policy" in text for text in told)


# "What it enforces."


def test_a_time_limit_kills_the_command_and_everything_it_started(opened: Open) -> None:
    """'Each command's time limit (the command and everything it started are killed)'."""
    sandbox, mark = opened(), unique("nap")
    nap = f"python3 -c 'import time; time.sleep(60)' {mark}"
    started = time.monotonic()
    ran = sh(sandbox, f"{nap} & setsid {nap} & (setsid {nap} &); {nap}", time_limit_seconds=1)
    assert (ran.code, ran.result.timed_out) == (137, True)
    assert time.monotonic() - started < 15
    assert mark not in sh(sandbox, "cat /proc/[0-9]*/cmdline 2>/dev/null | tr '\\0' ' '").text


def test_output_is_capped(opened: Open) -> None:
    """'the output cap'; 'max_output_bytes: Output kept per stream'."""
    ran = sh(opened({"max_output_bytes": 10}), "echo 0123456789abc; echo 0123456789abc >&2")
    assert (ran.stdout, ran.stderr) == (b"0123456789", b"0123456789")


def test_only_the_named_variables_and_the_manifests_are_seen(
    opened: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    """'only PATH, HOME, USER, LOGNAME, LANG, LC_ALL, TERM, TMPDIR and TZ plus the manifest's'."""
    for name in NAMED:
        monkeypatch.setenv(name, os.environ.get(name) or "C")
    monkeypatch.setenv("LLM_API_KEY", "sk-of-the-server")
    sandbox = opened(environment={"plain": {"OF_THE_MANIFEST": "1"}})
    shown = run(sandbox, "env", "-0").stdout.decode().split("\0")
    names = {pair.partition("=")[0] for pair in shown if pair}
    # The last is how what a command started is found again.
    assert names == {*NAMED, "OF_THE_MANIFEST", "OMNIWEB_COMMAND"}


def test_a_command_can_read_whatever_the_user_can(opened: Open, tmp_path: Path) -> None:
    """'a command can read whatever your user can, including credential files'."""
    credentials = tmp_path.parent / unique("home") / ".aws" / "credentials"
    credentials.parent.mkdir(parents=True)
    credentials.write_text("key")
    assert run(opened(), "cat", str(credentials)).text == "key"


# "The model is told the truth too … every command is recorded with execution_surface: host"


@pytest.mark.django_db(transaction=True)
def test_record_and_pages_say_that_it_is_the_host(people: People, tmp_path: Path) -> None:
    """'every command is recorded with execution_surface: host'."""
    policy_use(people.agent, FREE)
    run_here = local_run(people, tmp_path)
    done = work(ask(people.agent, run_here, "true"))
    address = f"/api/v1/runs/{run_here.ref}/trajectory"
    record = Client().get(address, headers=bearer(people.agent)).json()["segments"][0]["trajectory"]
    [execution] = [
        run for step in record["steps"] for call in step["tool_calls"] for run in call["executions"]
    ]
    assert (record["execution_surface"], execution["execution_surface"]) == ("host", "host")
    assert done.decision is not None
    assert done.decision.authority_request["execution_surface"] == "host"
    opening = run_here.trajectory.steps.get(kind="run_opened").payload
    assert opening["execution_surface"] == "host"


@pytest.mark.django_db(transaction=True)
def test_every_page_says_that_it_is_not_isolated(people: People, tmp_path: Path) -> None:
    """'it runs on this machine and is not isolated', for everyone who decides or looks."""
    policy_use(people.agent, profile_source("interactive-dev"), name="copy")
    run_here = local_run(people, tmp_path)
    waiting = request_of(ask(people.agent, run_here, "echo hi"))
    environment = Environment.objects.get(pk=run_here.environment_id)
    sandbox = run_here.sandboxes.get()
    pages = {
        f"/runs/{run_here.ref}": "Not isolated.",
        "/runs": "host",
        f"/environments/{environment.ref}": "Not isolated.",
        "/environments": "not isolated",
        f"/sandboxes/{sandbox.ref}": "Not isolated.",
        "/sandboxes": "not isolated",
        "/providers": "this machine, not isolated",
        "/environments/new": "not isolated",
        "/environments/new?provider=local": "This machine is not a sandbox.",
        f"/inbox/{waiting.ref}": "not isolated",
    }
    browser = browser_for(people.admin)
    for address, words in pages.items():
        assert words in browser.get(address).text, address


def test_it_never_counts_as_a_sandbox() -> None:
    """'local … not a sandbox'."""
    spec = provider_spec("local")
    assert (spec.execution_surface, spec.runs_where) == ("host", "this machine, not isolated")
    assert not satisfies_required_sandbox("local", {})


@pytest.mark.django_db(transaction=True)
def test_an_agent_reads_in_every_answer_that_it_is_the_host(people: People, tmp_path: Path) -> None:
    """'"timed_out": false, "execution_surface": "host"', as the tool's result has it."""
    policy_use(people.agent, FREE)
    run_here = local_run(people, tmp_path)
    command = {"command": ["true"], "cwd": str(tmp_path), "timeout_seconds": 5}
    done = work(ask(people.agent, run_here, "true", time_limit_seconds=5))
    Execution.objects.filter(pk=done.pk).update(waiter_until=now() - timedelta(seconds=1))
    # The same command sent again is answered with the result that nobody has read yet.
    answer = (
        Client()
        .post(
            f"/sandbox/v1/sessions/{run_here.ref}/exec",
            command | {"command": ["sh", "-c", "true"]},
            content_type="application/json",
            headers=bearer(people.agent),
        )
        .json()
    )
    assert (answer["exit_code"], answer["timed_out"]) == (0, False)
    assert answer["execution_surface"] == "host"
    address = f"/api/v1/executions/{done.ref}"
    assert Client().get(address, headers=bearer(people.agent)).json()["execution_surface"] == "host"


# The options


def test_the_options_are_those_of_the_table_with_their_defaults() -> None:
    """The table of options, its first two columns."""
    assert provider_spec("local").read_options({}) == {
        "environment_passthrough": (),
        "inherit_environment": False,
        "create_working_dir": False,
        "max_output_bytes": 1_000_000,
    }


def test_environment_passthrough_names_what_is_passed(
    opened: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    """'Host variable names to pass, e.g. ["PYTHONPATH", "VIRTUAL_ENV"]'."""
    monkeypatch.setenv("PYTHONPATH", "/here")
    monkeypatch.setenv("LLM_API_KEY", "sk-of-the-server")
    shown = run(opened({"environment_passthrough": ["PYTHONPATH", "VIRTUAL_ENV"]}), "env").text
    assert "PYTHONPATH=/here" in shown
    assert "LLM_API_KEY" not in shown


def test_inherit_environment_passes_all(opened: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    """'True passes the whole host environment (prefer the named list)'."""
    monkeypatch.setenv("LLM_API_KEY", "sk-of-the-server")
    assert "LLM_API_KEY=sk-of-the-server" in run(opened({"inherit_environment": True}), "env").text
    [option] = [one for one in provider_spec("local").options if one.name == "inherit_environment"]
    assert "better name the ones they need" in option.help


def test_create_working_dir_makes_it(tmp_path: Path) -> None:
    """'Create a missing working_dir instead of failing'."""
    fields = {"working_dir": str(tmp_path / "a" / "b"), "network_policy": {"default": "allow"}}
    manifest = Manifest.parse(fields)
    with pytest.raises(SandboxUnsupported, match="does not exist"):
        open_provider("local", {}).create(manifest, owner=somebody())
    made = open_provider("local", {"create_working_dir": True}).create(manifest, owner=somebody())
    assert run(made, "pwd").text == str(tmp_path / "a" / "b")


def test_the_documents_manifest_is_one_that_local_keeps(people: People, tmp_path: Path) -> None:
    """'"working_dir": os.path.abspath("app"), "network_policy": {"default": "allow"}'."""
    manifest = {"working_dir": str(tmp_path), "network_policy": {"default": "allow"}}
    answer = Client().post(
        "/api/v1/environments",
        json.dumps({"name": "host", "provider": "local", "manifest": manifest}),
        content_type="application/json",
        headers=bearer(people.operator),
    )
    assert answer.status_code == 201, answer.content
