"""What the linter says of a policy, and that what it says is so."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from approvals.policy.decision import AuthorityRequest, Target
from approvals.policy.document import load_document, read_document
from approvals.policy.evaluator import compile_policy
from approvals.policy.lint import Finding, Kind, lint_document
from approvals.policy.profiles import PROFILES, profile_document
from tests.policy.build import policy, rule


def found(**buckets: list[dict[str, Any]]) -> dict[str, Finding]:
    """Return the findings on a policy of these rules that are about what a rule matches."""
    findings = lint_document(load_document(policy("interactive", **buckets)))
    return {item.rule_id: item for item in findings if item.kind is not Kind.MISSING_REASON}


def git(*words: str) -> dict[str, Any]:
    return {"command": {"prefix": ["git", *words]}}


@pytest.mark.parametrize(
    ("outer", "inner"),
    [
        ({}, git("push")),
        (git(), git("push")),
        ({"command": {"program": ["git", "hg"]}}, git()),
        ({"command": {"prefix": ["git", ["push", "pull"]]}}, git("push")),
        ({"target": {"path": "src/*"}}, {"target": {"path": "src/app/*"}}),
        ({"target": {"host": "*"}}, {"conditions": {"host": "example.org"}}),
        ({"conditions": {"method": "get"}}, {"conditions": {"method": "GET"}}),
        ({"conditions": {"risk_level": ["low", "high"]}}, {"conditions": {"risk_level": ["high"]}}),
        (
            {"conditions": {"exclude_execution_surface": ["sandbox"]}},
            {"conditions": {"execution_surface": "host"}},
        ),
        (
            {"conditions": {"exclude_capability": ["secret.*"]}},
            {"conditions": {"provider": "local"}},
        ),
    ],
)
def test_an_allow_within_a_deny_is_shadowed(outer: dict[str, Any], inner: dict[str, Any]) -> None:
    shadowed = found(deny=[rule("outer", **outer)], allow=[rule("inner", **inner)])["inner"]
    assert shadowed.kind is Kind.SHADOWED
    assert "deny rule outer" in shadowed.message


@pytest.mark.parametrize(
    ("outer", "inner"),
    [
        (git("push"), git()),
        (git("push"), {}),
        ({"command": {"program": "git"}}, {"command": {"program": ["git", "ls"]}}),
        ({"target": {"path": "src/a*"}}, {"target": {"path": "src/*"}}),
        ({"target": {"path": "*.py"}}, {"target": {"path": "src/*.py"}}),
        ({"conditions": {"host": "*"}}, {}),
        ({"conditions": {"data_classes": ["pii"]}}, {"conditions": {"data_classes": ["pii"]}}),
        ({"conditions": {"execution_surface": "host"}}, {}),
        ({"conditions": {"risk_level": ["low"]}}, {"conditions": {"risk_level": ["low", "high"]}}),
        ({"conditions": {"exclude_execution_surface": ["sandbox"]}}, {}),
        ({"conditions": {"exclude_capability": ["process.*"]}}, {}),
    ],
)
def test_what_only_might_be_shadowed_is_not_said(
    outer: dict[str, Any], inner: dict[str, Any]
) -> None:
    said = found(deny=[rule("outer", **outer)], allow=[rule("inner", **inner)])
    assert "inner" not in said or said["inner"].kind in (Kind.TOO_BROAD, Kind.NEVER_CARRIED)


def test_an_ask_within_a_deny_is_shadowed_but_not_a_deny_within_an_ask() -> None:
    said = found(deny=[rule("no", **git("push"))], ask=[rule("perhaps", **git("push", "-f"))])
    assert said["perhaps"].kind is Kind.SHADOWED
    assert not found(deny=[rule("no", **git("push"))], ask=[rule("perhaps", **git())])


def test_two_rules_that_say_the_opposite_of_the_same_contradict() -> None:
    said = found(ask=[rule("perhaps", **git("push"))], allow=[rule("yes", **git("push"))])
    assert said["yes"].kind is Kind.CONTRADICTING
    assert "ask rule perhaps" in said["yes"].message


@pytest.mark.parametrize(
    "parts",
    [
        {"conditions": {"execution_surface": "host", "exclude_execution_surface": ["host"]}},
        {"conditions": {"exclude_capability": ["process.*"]}},
        {"conditions": {"host": "example.org"}, "target": {"host": "*.example.com"}},
        {"conditions": {"mcp_server": "files"}, "target": {"mcp_server": "web"}},
        {"command": {"program": "/usr/bin/git"}},
    ],
)
def test_a_rule_that_can_match_nothing_is_dead(parts: dict[str, Any]) -> None:
    assert found(allow=[rule("never", **parts)])["never"].kind is Kind.DEAD


def test_a_deny_on_a_program_in_a_folder_lives() -> None:
    assert not found(deny=[rule("no", command={"program": "/usr/bin/git"})])


def test_a_surface_no_request_comes_on_is_named_with_those_that_occur() -> None:
    said = found(deny=[rule("no", conditions={"execution_surface": "code"})])["no"]
    assert said.kind is Kind.SURFACE_NEVER_OCCURS
    assert said.suggestion == "the surfaces that occur are: host, sandbox"


@pytest.mark.parametrize("capability", ["subagent.spawn", "memory.notes", "network.*"])
def test_a_capability_nobody_asks_for_here_is_noted(capability: str) -> None:
    said = found(deny=[rule("waits", capability)])["waits"]
    assert said.kind is Kind.NEVER_RAISED
    assert said.to_dict()["level"] == "note"


@pytest.mark.parametrize(
    ("capability", "parts"),
    [
        ("process.exec", {"target": {"path": "src/*"}}),
        ("process.exec", {"conditions": {"data_classes": ["pii"]}}),
        ("workspace.files.*", {"conditions": {"host": "a.example"}}),
        ("sandbox.image.use", {"conditions": {"mcp_server": "files"}}),
    ],
)
def test_what_no_request_here_says_is_noted(capability: str, parts: dict[str, Any]) -> None:
    assert found(deny=[rule("waits", capability, **parts)])["waits"].kind is Kind.NEVER_CARRIED


@pytest.mark.parametrize(
    ("capability", "parts"),
    [
        ("sandbox.*", {"target": {"path": "src/*"}}),
        ("sandbox.network.configure", {"conditions": {"host": "a.example"}}),
        ("process.exec", {"target": {"path": "*"}}),
    ],
)
def test_what_some_request_says_is_not(capability: str, parts: dict[str, Any]) -> None:
    assert not found(deny=[rule("lives", capability, **parts)])


def test_an_allow_of_everything_or_of_every_command_is_too_broad() -> None:
    said = found(allow=[rule("all", "*"), rule("commands"), rule("looking", **git("log"))])
    assert said["all"].kind is Kind.TOO_BROAD
    assert "process.exec" in said["all"].message
    assert "anywhere" in said["commands"].message
    assert "looking" not in said


def test_an_allow_of_many_is_not_broad_where_the_risky_ones_are_asked_about() -> None:
    asks = [rule(f"ask_{name}", f"sandbox.{name}.*") for name in ("network", "filesystem")]
    assert "setup" in found(allow=[rule("setup", "sandbox.*")])
    assert "setup" not in found(ask=asks, allow=[rule("setup", "sandbox.*")])


def test_an_ask_that_time_answers_with_yes_is_told() -> None:
    lax = rule("lax", constraints={"approvals": {"at_expiry": "allow"}}, **git())
    assert found(ask=[lax])["lax"].kind is Kind.ALLOWS_AT_EXPIRY


def test_a_finding_has_its_line() -> None:
    text = "name: a\nrules:\n  deny:\n    - rule_id: no\n      capability: process.exec\n"
    (finding,) = lint_document(*read_document(text))
    assert (finding.kind, finding.line, finding.path) == (Kind.MISSING_REASON, 4, "rules.deny[0]")


@pytest.mark.parametrize("name", PROFILES)
def test_no_rule_of_the_built_in_policies_is_useless(name: str) -> None:
    useless = {Kind.SHADOWED, Kind.DEAD, Kind.CONTRADICTING, Kind.SURFACE_NEVER_OCCURS}
    assert not [item for item in lint_document(profile_document(name)) if item.kind in useless]


# Small worlds, so that rules and requests meet often.
HOSTS = ("a.example", "b.example", "*", "a.*", "*.example")
SURFACES = ("sandbox", "host", "workspace")
CAPABILITIES = ("process.exec", "process.*", "*", "secret.use", "sandbox.image.use")
WORDS = ("git", "push", "ls", "/bin/git")


def sparse(**fields: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    return st.fixed_dictionaries({}, optional=fields)


def some(values: tuple[str, ...]) -> st.SearchStrategy[list[str]]:
    return st.lists(st.sampled_from(values), min_size=1, max_size=2, unique=True)


CONDITIONS = sparse(
    risk_level=some(("low", "high")),
    data_classes=some(("pii", "credential")),
    provider=st.sampled_from(("local", "docker")),
    execution_surface=st.sampled_from(SURFACES),
    exclude_execution_surface=some(SURFACES),
    exclude_capability=some(("process.exec", "secret.*", "*")),
    mcp_server=st.sampled_from(("files", "")),
    method=st.sampled_from(("get", "GET", "")),
    host=st.sampled_from(HOSTS),
)
TARGETS = sparse(
    path=st.sampled_from(("src/*", "src/a", "*")),
    host=st.sampled_from(HOSTS),
    mcp_server=st.sampled_from(("files", "web", "*", "")),
)
COMMANDS = st.lists(
    st.lists(st.sampled_from(WORDS), min_size=1, max_size=2), min_size=1, max_size=2
)
PARTS = {"conditions": CONDITIONS, "target": TARGETS}
ON_COMMANDS = st.fixed_dictionaries(
    {"capability": st.sampled_from(CAPABILITIES[:3])},
    optional=PARTS | {"command": COMMANDS.map(lambda prefix: {"prefix": prefix})},
)
RULES = ON_COMMANDS | st.fixed_dictionaries(
    {"capability": st.sampled_from(CAPABILITIES)}, optional=PARTS
)
LINES = ("git push", "git $x", "/bin/git push", "ls; git push", "ls", "$(git push)", "sudo git")
REQUESTS = st.builds(
    AuthorityRequest,
    capability=st.sampled_from(("process.exec", "process.spawn", "secret.use", "other")),
    target=st.none()
    | st.builds(
        Target,
        path=st.sampled_from((None, "src/a", "b")),
        host=st.sampled_from((None, "a.example", "c")),
        mcp_server=st.sampled_from((None, "files", "web")),
    ),
    provider=st.sampled_from((None, "local")),
    execution_surface=st.sampled_from((None, *SURFACES)),
    risk_level=st.sampled_from(("low", "high")),
    data_classes=st.sampled_from(((), ("pii",), ("pii", "credential"))),
    method=st.sampled_from((None, "get", "post")),
    host=st.sampled_from((None, "a.example", "b.example")),
    mcp_server=st.sampled_from((None, "files", "web")),
    command=st.none() | st.sampled_from(LINES).map(lambda line: ("sh", "-c", line)),
)


@given(
    deny=st.lists(RULES, max_size=3),
    ask=st.lists(RULES, max_size=2),
    allow=st.lists(RULES, max_size=3),
    requests=st.lists(REQUESTS, min_size=1, max_size=12),
)
def test_a_rule_said_never_to_decide_never_decides(
    deny: list[dict[str, Any]],
    ask: list[dict[str, Any]],
    allow: list[dict[str, Any]],
    requests: list[AuthorityRequest],
) -> None:
    buckets = {"deny": deny, "ask": ask, "allow": allow}
    numbered = {
        name: [rule(f"{name}{at}", **one) for at, one in enumerate(rules)]
        for name, rules in buckets.items()
    }
    document = load_document(policy("permissive", **numbered))
    useless = {
        finding.rule_id
        for finding in lint_document(document)
        if finding.kind in (Kind.SHADOWED, Kind.DEAD, Kind.CONTRADICTING)
    }
    compiled = compile_policy(document)
    for request in requests:
        decision = compiled.evaluate(request)
        assert useless.isdisjoint(decision.matched_rules), (request, decision.matched_rules)
