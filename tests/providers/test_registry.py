"""The table of providers, the refusals of the requirement document, and providers of one's own."""

from __future__ import annotations

import importlib.util
from collections.abc import Mapping
from importlib import import_module
from importlib.machinery import ModuleSpec
from typing import Any

import pytest

from omniweb.core.errors import InvalidInput, ProviderMissing
from sandboxes.adapters.local import LocalProvider
from sandboxes.capabilities import ADVICE, NAMES, Setting, refusal
from sandboxes.manifest import Manifest
from sandboxes.providers import registry
from sandboxes.providers.base import SandboxProvider
from sandboxes.providers.registry import (
    check_environment,
    check_installed,
    open_provider,
    provider_spec,
    provider_specs,
    register_sandbox_provider,
    satisfies_required_sandbox,
)
from sandboxes.providers.table import TABLE

BUILT_IN = ["docker", "e2b", "daytona", "modal", "vercel", "http", "local", "none", "local_test"]
NEEDED = {"http": {"base_url": "https://sandboxes.example.org"}}


@pytest.fixture
def own_names(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a test register providers; they are forgotten with it."""
    monkeypatch.setattr(registry, "_registered", dict(registry._registered))


def refused(provider: str, options: Mapping[str, Any], fields: Mapping[str, Any]) -> str:
    """Return what saving such an environment is refused with."""
    with pytest.raises(InvalidInput) as error:
        check_environment(provider, options, Manifest.parse(fields))
    return error.value.detail


def test_the_table_holds_the_nine_providers_of_the_document() -> None:
    assert [spec.name for spec in provider_specs()] == BUILT_IN


def test_an_unknown_provider_is_answered_with_those_there_are() -> None:
    assert refused("dokcer", {}, {}) == (
        "governance_config.sandbox_config.provider must be a registered sandbox provider: "
        "daytona, docker, e2b, http, local, local_test, modal, none, vercel"
    )


@pytest.mark.parametrize("provider", BUILT_IN)
def test_an_unknown_option_is_refused_for_every_provider(provider: str) -> None:
    options = {**NEEDED.get(provider, {}), "network": "allow"}
    with pytest.raises(InvalidInput) as error:
        check_environment(provider, options, Manifest())
    assert error.value.detail == f"Unknown {provider} sandbox option(s): network"
    hint = 'Use "sandbox_manifest": {"network_policy": {"default": "allow"}}.'
    assert error.value.problems[0].suggestion == hint


def test_several_unknown_options_are_named_together_with_the_known_ones() -> None:
    with pytest.raises(InvalidInput) as error:
        check_environment("e2b", {"zone": 1, "colour": 2}, Manifest())
    assert error.value.detail == "Unknown e2b sandbox option(s): colour, zone"
    assert error.value.problems[0].suggestion.startswith("known options: template, api_key")


DEFAULTS = {
    "docker": {
        "image": "python:3.12-slim",
        "user": "65534:65534",
        "workdir_size": "1g",
        "pids_limit": 256,
        "pull": "if_missing",
        "runtime": None,
        "gateway_image": "omniweb-gateway:1",
        "gateway_network": "bridge",
        "gateway_name_servers": (),
        "verify_network_isolation": True,
        "max_output_bytes": 1_000_000,
    },
    "e2b": {
        "template": None,
        "api_key": None,
        "timeout_seconds": 600,
        "verify_network_isolation": True,
        "max_output_bytes": 1_000_000,
    },
    "daytona": {
        "image": "python:3.12-slim",
        "api_key": None,
        "api_url": None,
        "target": None,
        "verify_network_isolation": True,
        "max_output_bytes": 1_000_000,
    },
    "modal": {
        "image": "python:3.12-slim",
        "app_name": "omniweb-sandbox",
        "timeout_seconds": 600,
        "max_output_bytes": 1_000_000,
    },
    "vercel": {
        "image": None,
        "project_id": None,
        "timeout_seconds": 600,
        "max_output_bytes": 1_000_000,
    },
    "http": {
        "base_url": "https://sandboxes.example.org",
        "token": None,
        "headers": None,
        "request_timeout_seconds": 120,
        "verify_tls": True,
        "max_output_bytes": 1_000_000,
    },
    "local": {
        "environment_passthrough": (),
        "inherit_environment": False,
        "create_working_dir": False,
        "max_output_bytes": 1_000_000,
    },
    "none": {},
    "local_test": {"allow_test_sandbox_runtime": False, "max_output_bytes": 1_000_000},
}


@pytest.mark.parametrize("provider", BUILT_IN)
def test_options_have_the_documents_defaults(provider: str) -> None:
    assert provider_spec(provider).read_options(NEEDED.get(provider, {})) == DEFAULTS[provider]


@pytest.mark.parametrize(
    ("provider", "option", "value", "message"),
    [
        (
            "docker",
            "gateway_name_servers",
            ["resolver.example.org"],
            "must be a list of IPv4 addresses",
        ),
        (
            "docker",
            "user",
            "nobody",
            "must be numeric ('uid' or 'uid:gid') so the working directory can belong to it",
        ),
        ("docker", "workdir_size", "lots", "must be a size such as 512m or 1g"),
        ("docker", "pids_limit", 0, "must be a positive whole number"),
        ("docker", "pids_limit", True, "must be a positive whole number"),
        ("docker", "pull", "always", "must be one of: if_missing, never"),
        ("docker", "max_output_bytes", "1000", "must be a positive whole number"),
        ("local", "inherit_environment", "yes", "must be true or false"),
        ("local", "environment_passthrough", ["A-B"], "must be a list of variable names"),
        ("http", "headers", {"X": "a\r\nY: b"}, "must be a mapping of header names to texts"),
        ("http", "base_url", "", "must be a text"),
    ],
)
def test_an_option_of_the_wrong_type_is_refused_by_name(
    provider: str, option: str, value: object, message: str
) -> None:
    options = {**NEEDED.get(provider, {}), option: value}
    assert (
        refused(provider, options, {"network_policy": {"default": "allow"}})
        == f"{provider} sandbox option '{option}' {message}"
    )


def test_a_required_option_that_is_missing_is_named() -> None:
    assert refused("http", {}, {}) == "http sandbox option 'base_url' is required"


ASKED: dict[Setting, dict[str, Any]] = {
    Setting.IMAGE: {"image": "python:3.12-slim"},
    Setting.ALLOWED_HOSTS: {"network_policy": {"allowed_hosts": ["a.example.org"]}},
    Setting.DENIED_HOSTS: {
        "network_policy": {"default": "allow", "denied_hosts": ["a.example.org"]}
    },
    Setting.NETWORK_OFF: {},
    Setting.WORKSPACE_MOUNT: {"workspace_mount": {"source": "/srv/x", "target": "/mnt"}},
    Setting.SECRETS: {"environment": {"secret_refs": ["vault/key"]}},
    Setting.CPU: {"resources": {"cpu": "1"}},
    Setting.MEMORY: {"resources": {"memory": "1g"}},
    Setting.GPU: {"resources": {"gpu": True}},
    Setting.LIFETIME: {"resources": {"timeout_seconds": 60}},
}
# Setting → who keeps it, in the order docker, e2b, daytona, modal, vercel, http, local.
KEPT = {
    Setting.IMAGE: "yyyyyyn",
    Setting.ALLOWED_HOSTS: "yyyyyyn",
    Setting.DENIED_HOSTS: "ynnnnyn",
    Setting.NETWORK_OFF: "yyyyyyn",
    Setting.WORKSPACE_MOUNT: "ynnnnnn",
    Setting.SECRETS: "yyyyynn",
    Setting.CPU: "ynyyyyn",
    Setting.MEMORY: "ynyyyyn",
    Setting.GPU: "nnnnnyn",
    Setting.LIFETIME: "nnnnnnn",
}


@pytest.mark.parametrize("setting", list(Setting))
@pytest.mark.parametrize("column", range(7), ids=BUILT_IN[:7])
def test_what_a_provider_does_not_keep_is_refused_and_the_rest_is_not(
    setting: Setting, column: int
) -> None:
    provider = BUILT_IN[column]
    fields = ASKED[setting]
    if (
        provider == "local"
        and "network_policy" not in fields
        and setting is not Setting.NETWORK_OFF
    ):
        fields = {**fields, "network_policy": {"default": "allow"}}
    if provider == "local" and setting is Setting.ALLOWED_HOSTS:
        fields = {"network_policy": {"default": "allow", "allowed_hosts": ["a.example.org"]}}
    options = NEEDED.get(provider, {})
    if KEPT[setting][column] == "y":
        check_environment(provider, options, Manifest.parse(fields))
    else:
        assert refused(provider, options, fields) == refusal(provider, setting)


def test_the_quoted_refusals_are_word_for_word() -> None:
    assert refused("local", {}, ASKED[Setting.ALLOWED_HOSTS]) == (
        "The local sandbox does not enforce a network host allowlist (allowed_hosts): use "
        "network_policy default 'deny' or 'allow', or a provider that enforces one (modal, http)"
    )
    assert "does not enforce blocking named hosts" in refused(
        "e2b", {}, ASKED[Setting.DENIED_HOSTS]
    )
    assert "does not enforce delivering secrets" in refused(
        "http", NEEDED["http"], ASKED[Setting.SECRETS]
    )


HOST_LISTS = [
    ("allowed_hosts", {"allowed_hosts": ["*.example.org"]}),
    ("denied_hosts", {"default": "allow", "denied_hosts": ["a.example.org"]}),
]


@pytest.mark.parametrize(("name", "policy"), HOST_LISTS)
def test_host_lists_are_refused_where_docker_could_not_keep_them(
    name: str, policy: dict[str, Any]
) -> None:
    told = refused("docker", {"runtime": "runsc"}, {"network_policy": policy})
    assert told.startswith(f"The docker sandbox does not enforce {name} with gVisor")
    for number in ("192.0.2.1", "0x7f.1", "2130706433"):
        told = refused("docker", {}, {"network_policy": {**policy, name: ["a.example", number]}})
        assert told == (
            f"The docker sandbox enforces {name} by host name, and {number} is an address: "
            "write the name of the host"
        )


def test_gvisor_is_fine_without_host_lists() -> None:
    for policy in ({"default": "allow", "allowed_hosts": ["a.example"]}, {"denied_hosts": ["a"]}):
        # Neither list says anything that the default does not.
        fields = {"network_policy": policy}
        check_environment("docker", {"runtime": "runsc"}, Manifest.parse(fields))


def test_every_setting_has_a_name_and_advice() -> None:
    assert set(NAMES) == set(ADVICE) == set(Setting)


def test_all_that_is_not_kept_is_listed_in_checking_order() -> None:
    fields = {"image": "x", "resources": {"gpu": True, "cpu": "1"}}
    with pytest.raises(InvalidInput) as error:
        check_environment("local", {}, Manifest.parse(fields))
    paths = [
        "manifest.image",
        "manifest.network_policy.default",
        "manifest.resources.cpu",
        "manifest.resources.gpu",
    ]
    assert [problem.path for problem in error.value.problems] == paths


@pytest.mark.parametrize("provider", ["none", "local_test"])
def test_nothing_is_checked_where_nothing_is_promised(provider: str) -> None:
    for fields in ASKED.values():
        check_environment(provider, {}, Manifest.parse(fields))


def test_a_missing_docker_sdk_is_said_when_it_is_needed_and_not_before(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def without_docker(name: str, package: str | None = None) -> ModuleSpec | None:
        return None if name == "docker" else importlib.util.find_spec(name, package)

    monkeypatch.setattr(registry, "find_spec", without_docker)
    check_environment("docker", {}, Manifest())
    with pytest.raises(ProviderMissing) as missing:
        open_provider("docker", {})
    assert (
        missing.value.detail
        == "The Docker sandbox needs the Docker SDK: pip install omniweb[docker]"
    )


@pytest.mark.parametrize("spec", TABLE, ids=lambda spec: spec.name)
def test_every_provider_has_its_adapter(spec: Any) -> None:
    module, _, name = spec.adapter.rpartition(".")
    assert issubclass(getattr(import_module(module), name), SandboxProvider)
    check_installed(spec.name)


@pytest.mark.parametrize("spec", TABLE, ids=lambda spec: spec.name)
def test_every_entry_says_all_a_person_needs_to_choose(spec: Any) -> None:
    assert all((spec.label, spec.summary, spec.runs_where, spec.runs_as))
    assert all(
        (
            spec.network.deny,
            spec.network.allow,
            spec.network.allowed_hosts,
            spec.network.checked_inside,
        )
    )
    assert all(option.help.endswith(".") for option in spec.options)


def test_only_isolating_providers_satisfy_a_required_sandbox() -> None:
    satisfied = [name for name in BUILT_IN if satisfies_required_sandbox(name, {})]
    assert satisfied == ["docker", "e2b", "daytona", "modal", "vercel", "http"]


@pytest.mark.usefixtures("own_names")
def test_a_provider_of_ones_own_works_wherever_a_name_does() -> None:
    seen: list[Mapping[str, Any]] = []

    def make_my_sandbox(options: Mapping[str, Any]) -> SandboxProvider:
        seen.append(options)
        return LocalProvider(provider_spec("mysandbox"), provider_spec("local").read_options({}))

    register_sandbox_provider("mysandbox", make_my_sandbox)
    check_environment("mysandbox", {"anything": 1}, Manifest.parse({"image": "x"}))
    assert isinstance(open_provider("mysandbox", {"anything": 1}), LocalProvider)
    assert seen == [{"anything": 1}]
    assert "mysandbox, none" in refused("nothing", {}, {})


@pytest.mark.usefixtures("own_names")
def test_a_name_is_taken_only_once_unless_it_is_replaced() -> None:
    def make(options: Mapping[str, Any]) -> SandboxProvider:
        raise NotImplementedError

    with pytest.raises(InvalidInput) as taken:
        register_sandbox_provider("docker", make)
    assert (
        taken.value.detail == "Sandbox provider 'docker' is already registered; pass replace=True"
    )
    register_sandbox_provider("docker", make, replace=True)
    for name in ("", "9lives", "Docker", "a b", "x" * 65):
        with pytest.raises(InvalidInput, match="cannot name a provider"):
            register_sandbox_provider(name, make)
