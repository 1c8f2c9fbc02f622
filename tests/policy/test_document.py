"""Reading policies: what is refused, where, with what advice; and what two texts have in common."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from approvals.policy.capabilities import SURFACES
from approvals.policy.document import (
    PolicyDocument,
    document_source,
    load_document,
    parse_document,
)
from approvals.policy.profiles import PROFILES, profile_document
from omniweb.core.errors import InvalidInput, Problem
from tests.policy.build import policy, rule

HEAD = "name: p\nrules:\n  deny:\n    - rule_id: r\n"


def problems(text: str) -> list[Problem]:
    with pytest.raises(InvalidInput) as caught:
        parse_document(text)
    return list(caught.value.problems)


@pytest.mark.parametrize(
    ("body", "line", "message", "suggestion"),
    [
        (
            "      capability: process.exce\n",
            5,
            "rule r: unknown capability 'process.exce'; the capabilities are listed in the policy reference",
            "did you mean 'process.exec'?",
        ),
        (
            '      capability: "proces.*"\n',
            5,
            "rule r: capability pattern 'proces.*' matches no capability",
            "did you mean 'process.exec'?",
        ),
        ("      capability: process.exec\n      taget: {}\n", 6, "rule r: unknown key(s) taget", "did you mean 'target'?"),
        (
            "      capability: process.exec\n      target:\n        hots: x\n",
            7,
            "rule r: target has unknown key(s) hots",
            "did you mean 'host'?",
        ),
        (
            "      capability: process.exec\n      conditions: {risk: [low]}\n",
            6,
            "rule r: conditions has unknown key(s) risk",
            "did you mean 'risk_level'?",
        ),
        (
            "      capability: process.exec\n      constraints: {sandbox: true}\n",
            6,
            "rule r: constraints has unknown key(s) sandbox",
            "did you mean 'sandbox_required'?",
        ),
        (
            "      capability: process.exec\n      conditions:\n        execution_surface: sandbx\n",
            7,
            f"rule r: unknown execution surface 'sandbx'; one of: {', '.join(SURFACES)}",
            "did you mean 'sandbox'?",
        ),
        (
            "      capability: process.exec\n      conditions: {exclude_capability: [tool.locl.call]}\n",
            6,
            "rule r: exclude_capability 'tool.locl.call': unknown capability",
            "did you mean 'tool.local.call'?",
        ),
        (
            "      capability: process.exec\n      conditions: {exclude_capability: ['x.*']}\n",
            6,
            "rule r: exclude_capability 'x.*' matches no capability",
            "",
        ),
        (
            "      capability: process.exec\n      conditions:\n        risk_level: [hihg]\n",
            7,
            "rule r: risk_level must be one of: critical, high, low, medium",
            "did you mean 'high'?",
        ),
        (
            "      capability: workspace.files.read\n      command: {program: rm}\n",
            6,
            "rule r: a command matcher applies only to process.exec, not workspace.files.read",
            "set capability to process.exec",
        ),
        (
            "      capability: process.exec\n      command: {prefix: ['rm*']}\n",
            6,
            "rule r: command.prefix word 'rm*': words are literal; list alternatives instead",
            'for example ["git", ["push", "reset"]]',
        ),
        (
            "      capability: process.exec\n      command: {}\n",
            6,
            "rule r: command needs a prefix, or a program as shorthand for one",
            "give exactly one of the two, with at least one word",
        ),
        (
            "      capability: process.exec\n      command: {prefix: [a], program: b}\n",
            6,
            "rule r: command needs a prefix, or a program as shorthand for one",
            "give exactly one of the two, with at least one word",
        ),
        (
            "      capability: process.exec\n      command: {prefix: [a], args_any: [b]}\n",
            6,
            "rule r: command.args_any was removed: list the words in prefix, as alternatives where they differ",
            "",
        ),
        (
            "      capability: process.exec\n      command: {program: rm}\n      examples:\n        match: [ls]\n",
            8,
            "rule r does not match its example 'ls'",
            "",
        ),
        (
            "      capability: process.exec\n      command: {program: rm}\n      examples:\n        not_match: [rm x]\n",
            8,
            "rule r matches 'rm x', listed as not_match",
            "",
        ),
        (
            "      capability: process.exec\n      effect: allow\n",
            6,
            "Rule 'r' declares effect 'allow' but is stored in the deny bucket",
            "move it to rules.allow, or remove its effect",
        ),
        (
            "      capability: process.exec\n    - rule_id: r\n      capability: process.exec\n",
            6,
            "Duplicate policy rule_id: r",
            "the first one is rules.deny[0]",
        ),
        (
            "      capability: process.exec\n      constraints: {sandbox_required: 'true'}\n",
            6,
            "rule r: constraints.sandbox_required must be a boolean",
            "write true or false, without quotes",
        ),
        (
            "      capability: process.exec\n      constraints: {approval_expires_seconds: 0}\n",
            6,
            "rule r: constraints.approval_expires_seconds: input should be greater than or equal to 1",
            "",
        ),
        (
            "      capability: process.exec\n      constraints: {scopes: [onec]}\n",
            6,
            "rule r: constraints.scopes[0] must be one of: once, run, minutes, rule",
            "did you mean 'once'?",
        ),
        ("      reason: x\n", 4, "rule r: capability is missing", ""),
        (
            "      capability: process.exec\n      examples: {match: [ls]}\n",
            6,
            "rule r: examples belong to a rule with a command",
            "",
        ),
        (
            "      capability: network.http.get\n      target:\n        host: '" + "a*" * 600 + "'\n",
            7,
            "rule r: a pattern has at most 1000 characters",
            "",
        ),
    ],
)  # fmt: skip
def test_a_rule_that_cannot_be_meant_is_refused_with_line_and_advice(
    body: str, line: int, message: str, suggestion: str
) -> None:
    found = problems(HEAD + body)
    assert [(item.message, item.line, item.suggestion) for item in found] == [
        (message, line, suggestion)
    ]


@pytest.mark.parametrize(
    ("text", "line", "message"),
    [
        ("name: p\nrules:\n  block: []\n", 3, "rules has unknown key(s) block; the buckets are deny, ask and allow"),
        ("name: p\nmood: strict\n", 2, "policy has unknown key(s) mood"),
        ("name: p\nmode: lax\n", 2, "mode must be one of: permissive, interactive, strict"),
        ("name: ''\n", 1, "name must not be empty"),
        ("name: p\nrules: [1]\n", 2, "rules must be an object"),
        ("- a\n", 1, "a policy is an object with name, mode and rules"),
        ("", 1, "a policy is an object with name, mode and rules"),
        ("name: p\nname: q\n", 2, "the key 'name' is given twice"),
        ("name: &a p\nmode: *a\n", 1, "anchors and aliases are not read in policies"),
        ("name: p\nmetadata: {<<: {a: 1}}\n", 2, "merge keys are not read in policies"),
        ("name: !!python/object:os.system p\n", 1, "the tag tag:yaml.org,2002:python/object:os.system is not read in policies"),
        ("name: p\n---\nname: q\n", 2, "there is more than one document"),
        ("name: p\nmetadata: " + "[" * 40 + "]" * 40, 2, "the document nests deeper than 32 levels"),
        ("name: p\nmetadata: {[a]: 1}\n", 2, "a key must be text"),
        ("name: [p\n", 2, "did not find expected ',' or ']'"),
        ("name: p\ntests:\n  - request: {capability: x, risk_level: no}\n    expect: allow\n", 3, "risk_level must be one of: critical, high, low, medium"),
        ("name: p\ntests:\n  - request: {}\n    expect: maybe\n", 4, "tests[0].expect must be one of: allow, ask, deny"),
        ("name: p\nextends: interactive-dev\n", 2, "extends 'interactive-dev' cannot be looked up here"),
        ('{"name": "p",\n\t"mode": "lax"}', 2, "mode must be one of: permissive, interactive, strict"),
    ],
)  # fmt: skip
def test_a_document_that_cannot_be_read_is_refused_with_its_line(
    text: str, line: int, message: str
) -> None:
    assert [(item.message, item.line) for item in problems(text)] == [(message, line)]


def test_all_problems_are_told_at_once_in_the_order_of_the_text() -> None:
    text = HEAD + "      capability: nothing.here\n      effect: ask\n"
    assert [item.line for item in problems(text)] == [5, 6]


def test_a_problem_has_a_column_and_a_path() -> None:
    (found,) = problems(HEAD + "      capability: nope\n")
    assert (found.column, found.path) == (7, "rules.deny[0].capability")


def test_half_a_surrogate_pair_is_refused_and_a_whole_one_is_one_character() -> None:
    assert parse_document('{"name": "a\\ud83d\\ude42"}').name == "a🙂"
    assert "invalid Unicode character escape" in problems('{"name": "a\\ud83d"}')[0].message


def test_an_over_long_document_is_refused_before_it_is_read() -> None:
    started = time.perf_counter()
    assert "at most 1000000 are read" in problems("#" * 1_000_001)[0].message
    assert time.perf_counter() - started < 1


def test_alias_bombs_and_deep_nesting_cost_nothing() -> None:
    bomb = "a: &a [x, x]\n" + "".join(
        f"b{at}: &b{at} [*a, *a, *a, *a, *a, *a, *a, *a]\n" for at in range(50)
    )
    started = time.perf_counter()
    problems(bomb)
    problems("[" * 400_000)
    problems("name: p\nmetadata: " + "{a: " * 200_000)
    assert time.perf_counter() - started < 5


def test_words_other_dialects_take_for_values_stay_words() -> None:
    document = parse_document("name: on\nmetadata: {a: no, b: 2026-01-01, c: 1:30, d: 010, e: ~}\n")
    assert document.name == "on"
    assert document.metadata == {"a": "no", "b": "2026-01-01", "c": "1:30", "d": "010", "e": None}


def test_numbers_read_as_numbers() -> None:
    document = parse_document("name: p\nversion: 2\nmetadata: {a: 1, b: -2.5, c: 1e3}\n")
    assert document.version == "2"
    assert document.metadata == {"a": 1, "b": -2.5, "c": 1000.0}


@pytest.mark.parametrize("name", PROFILES)
def test_yaml_and_json_of_one_document_have_one_digest(name: str) -> None:
    document = profile_document(name)
    as_json = json.dumps(document.to_dict(), indent="\t")
    assert parse_document(as_json).digest == document.digest
    assert load_document(document.to_dict()).digest == document.digest
    assert parse_document(document_source(document)).digest == document.digest


def test_the_digest_changes_with_what_is_said_and_not_with_where_it_came_from() -> None:
    base = policy(deny=[rule("a")])
    digest = load_document(base).digest
    moved = base | {"provenance": {"source": "file", "source_ref": "x.json"}, "policy_id": "y"}
    assert load_document(moved).digest == digest
    assert load_document(policy(deny=[rule("b")])).digest != digest
    assert load_document(policy(ask=[rule("a")])).digest != digest
    assert load_document(base | {"mode": "strict"}).digest != digest


@given(
    st.dictionaries(
        st.text(min_size=1, max_size=8).filter(lambda key: key.strip() == key),
        st.one_of(
            st.text(max_size=12),
            st.integers(-(2**40), 2**40),
            st.booleans(),
            st.sampled_from(["yes", "1e5", "0x1f", "1:30", "null", "~", "=", "<<", "- a", "\x85"]),
        ),
        max_size=5,
    )
)
def test_what_is_written_reads_back_the_same(metadata: dict[str, Any]) -> None:
    try:
        document = load_document({"name": "p", "metadata": metadata})
    except InvalidInput:
        return
    assert parse_document(document_source(document)).digest == document.digest


def test_what_is_written_is_canonical_yaml_in_the_documents_order() -> None:
    text = document_source(load_document(policy(deny=[rule("a", reason="No.")])))
    assert yaml.safe_load(text)["rules"]["deny"] == [
        {"rule_id": "a", "capability": "process.exec", "reason": "No."}
    ]
    assert text.startswith("version: '1'\nname: under-test\nmode: interactive\nrules:")


def test_an_extended_policy_holds_its_parents_rules_before_its_own() -> None:
    text = "name: mine\nextends: strict-production\nrules:\n  deny: [{rule_id: more, capability: process.exec}]\n"
    document = parse_document(text, resolve=profile_document)
    assert [item.rule_id for item in document.rules.deny] == [
        "deny_credential_or_system_prompt_flow",
        "deny_raw_secret_read",
        "more",
    ]
    assert (document.mode, document.extends, document.name) == ("strict", None, "mine")


def test_an_extended_policy_may_say_its_own_mode() -> None:
    text = "name: mine\nmode: permissive\nextends: strict-production\n"
    assert parse_document(text, resolve=profile_document).mode == "permissive"


def test_an_extended_policy_may_not_reuse_a_rule_id_of_its_parent() -> None:
    text = "name: mine\nextends: strict-production\nrules:\n  deny: [{rule_id: deny_raw_secret_read, capability: secret.read}]\n"
    with pytest.raises(InvalidInput, match="Duplicate policy rule_id: deny_raw_secret_read"):
        parse_document(text, resolve=profile_document)


def test_a_document_of_the_other_system_pastes_in_unchanged() -> None:
    document = load_document(
        {
            "version": "1",
            "name": "default-policy",
            "mode": "interactive",
            "policy_id": "policy_0123",
            "policy_id_supplied": False,
            "profile": None,
            "provenance": {"source": "code", "source_ref": None, "policy_hash": "x"},
            "budget": {"max_requests": 10, "max_cost": 1.5},
            "budgets": {"application_id": None, "agent": [{"limit": "tool_calls", "max": 3}]},
            "metadata": {},
            "rules": {
                "deny": [
                    {
                        "rule_id": "r",
                        "effect": "deny",
                        "capability": "process.exec",
                        "target": None,
                        "conditions": None,
                        "constraints": {"metadata": {"a": 1}},
                        "command": {"program": ["rm", "shred"]},
                        "examples": {"match": ["rm x"], "not_match": ["ls", "echo rm"]},
                        "reason": None,
                        "metadata": {},
                    }
                ]
            },
        }
    )
    assert isinstance(document, PolicyDocument)
    assert document.budgets is not None
    assert document.budgets.agent == ({"limit": "tool_calls", "max": 3},)


def test_too_many_rules_are_refused() -> None:
    with pytest.raises(InvalidInput, match="at most 5000"):
        load_document(policy(deny=[rule(f"r{at}") for at in range(5_001)]))
