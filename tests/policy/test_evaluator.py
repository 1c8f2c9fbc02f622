"""The order of a decision, what commands do to it, and that it fails closed."""

from __future__ import annotations

import random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from approvals.policy.commands.parse import read_command
from approvals.policy.decision import AuthorityRequest, Effect, ReasonCode, Target
from approvals.policy.document import load_document
from approvals.policy.evaluator import compile_policy
from tests.policy.build import decide, policy, rule, shell

ALL = rule("all")
RM = rule("rm", command={"program": "rm"})
PUSH = rule("push", command={"prefix": ["git", ["push", "reset"]]})


@pytest.mark.parametrize("mode", ["permissive", "interactive", "strict"])
@pytest.mark.parametrize(
    ("command", "effect"),
    [
        ("ls", "allow"),
        ("rm x", "deny"),
        ("/bin/rm x", "deny"),
        ("./rm x", "deny"),
        ("git push", "ask"),
        ("git reset --hard", "ask"),
        ("git status", "allow"),
        ("git push && rm x", "deny"),
        ("env rm x", "deny"),
        ("xargs rm < list", "deny"),
        ("if true; then rm x; fi", "deny"),
        ("sudo git push", "ask"),
    ],
)
def test_deny_beats_ask_beats_allow_for_every_command_in_the_line(
    mode: str, command: str, effect: str
) -> None:
    document = policy(mode, deny=[RM], ask=[PUSH], allow=[ALL])
    assert decide(document, shell(command)).effect == effect


@pytest.mark.parametrize(
    ("mode", "effect"), [("permissive", "ask"), ("interactive", "ask"), ("strict", "deny")]
)
def test_an_unreadable_command_beats_every_allow_where_rules_speak_of_commands(
    mode: str, effect: str
) -> None:
    decision = decide(policy(mode, deny=[RM], allow=[ALL]), shell("echo $HOME"))
    assert (decision.effect, decision.reason_code) == (effect, "command_opaque")
    assert "a variable" in decision.reason


def test_an_unreadable_command_is_like_any_other_where_no_rule_speaks_of_commands() -> None:
    assert decide(policy("strict", allow=[ALL]), shell("echo $HOME")).effect == "allow"


def test_a_command_rule_for_other_requests_makes_nothing_opaque() -> None:
    elsewhere = RM | {"conditions": {"execution_surface": "host"}}
    assert decide(policy(deny=[elsewhere], allow=[ALL]), shell("echo $HOME")).effect == "allow"


def test_reading_deeper_never_loosens_a_strict_policy() -> None:
    document = policy("strict", ask=[PUSH])
    assert decide(document, shell("git push")).effect == "ask"
    assert decide(document, shell("env git push")).effect == "deny"
    assert decide(document, shell("git push > log")).effect == "deny"


def test_an_ask_found_inside_a_wrapper_counts_where_the_line_would_be_allowed() -> None:
    decision = decide(policy("permissive", ask=[PUSH]), shell("env git push"))
    assert (decision.effect, decision.matched_rules) == ("ask", ("push",))


def test_what_a_deeper_rule_asks_of_approvers_is_added_to_a_plain_ask() -> None:
    deeper = PUSH | {"constraints": {"approvals": {"count": 2}}}
    decision = decide(policy(ask=[rule("any"), deeper]), shell("sudo git push"))
    assert decision.matched_rules == ("any",)
    assert decision.constraints.to_dict() == {"approvals": {"count": 2, "at_expiry": "deny"}}


@pytest.mark.parametrize(
    ("command", "effect"),
    [
        ("ls && git status", "allow"),
        ("ls", "allow"),
        ("ls && git push", "ask"),
        ("./ls", "ask"),
        ("/bin/ls", "ask"),
        ("ls > x", "ask"),
        ("env ls", "ask"),
        ("ls; rm x", "ask"),
    ],
)
def test_command_allow_rules_must_cover_the_whole_line(command: str, effect: str) -> None:
    allowed = [
        rule("ls", command={"program": ["ls", "cat"]}),
        rule("status", command={"prefix": ["git", "status"]}),
    ]
    assert decide(policy(allow=allowed), shell(command)).effect == effect


def test_a_wrapper_is_covered_only_together_with_what_is_inside() -> None:
    env = rule("env", command={"program": "env"})
    assert decide(policy(allow=[env]), shell("env ls")).effect == "ask"
    both = [env, rule("ls", command={"program": "ls"})]
    assert decide(policy(allow=both), shell("env ls")).matched_rules == ("env", "ls")


@pytest.mark.parametrize(
    ("mode", "effect", "reason"),
    [
        ("permissive", "allow", "Allowed by permissive policy: no rule matches this code.run request."),
        ("interactive", "ask", "No rule matches this code.run request, so a person decides."),
        ("strict", "deny", "Denied by strict policy: no rule matches this code.run request."),
    ],
)  # fmt: skip
def test_the_mode_decides_where_no_rule_matches(mode: str, effect: str, reason: str) -> None:
    decision = decide(policy(mode), AuthorityRequest("code.run"))
    assert (decision.effect, decision.reason_code) == (effect, ReasonCode.UNKNOWN_CAPABILITY)
    assert decision.reason == reason


def test_the_first_reason_given_is_shown_and_a_plain_one_where_none_is() -> None:
    rules = [rule("a", "code.*"), rule("b", "code.run", reason="Because.")]
    assert decide(policy(deny=rules), AuthorityRequest("code.run")).reason == "Because."
    plain = decide(policy(ask=[rule("a", "code.*")]), AuthorityRequest("code.run"))
    assert plain.reason == "Matched ask policy rule."


def test_constraints_of_the_deciding_bucket_are_merged_and_others_left_out() -> None:
    rules = [
        rule("a", "code.*", constraints={"approval_expires_seconds": 300, "metadata": {"x": 1, "y": 1}}),
        rule("b", "code.*", constraints={"approval_expires_seconds": 60, "audit_required": True, "metadata": {"x": 2}}),
    ]  # fmt: skip
    allow = [rule("c", "code.*", constraints={"sandbox_required": True})]
    decision = decide(policy(ask=rules, allow=allow), AuthorityRequest("code.run"))
    assert decision.constraints.to_dict() == {
        "approval_expires_seconds": 60,
        "audit_required": True,
        "metadata": {"x": 2, "y": 1},
    }


def test_approval_terms_merge_to_the_more_demanding() -> None:
    rules = [
        rule("a", "code.*", constraints={"approvals": {"count": 2, "roles": ["approver", "admin"]}, "scopes": ["once", "run"]}),
        rule("b", "code.*", constraints={"approvals": {"roles": ["admin"], "exclude_owner": True, "at_expiry": "allow"}, "scopes": ["run"]}),
    ]  # fmt: skip
    merged = decide(policy(ask=rules), AuthorityRequest("code.run")).constraints
    assert merged.scopes == ("run",)
    assert merged.to_dict()["approvals"] == {
        "count": 2,
        "roles": ["admin"],
        "exclude_owner": True,
        "at_expiry": "deny",
    }


def test_terms_no_role_can_meet_are_met_by_nobody() -> None:
    rules = [
        rule("a", "code.*", constraints={"approvals": {"roles": ["approver"]}}),
        rule("b", "code.*", constraints={"approvals": {"roles": ["admin"]}}),
    ]
    merged = decide(policy(ask=rules), AuthorityRequest("code.run")).constraints
    assert merged.approvals is not None
    assert merged.approvals.roles == ("nobody",)


def test_a_used_up_budget_denies_before_any_rule() -> None:
    document = policy(allow=[ALL]) | {"budget": {"max_requests": 3, "used_requests": 3}}
    assert decide(document, shell("ls")).reason_code == ReasonCode.BUDGET_EXCEEDED


def test_an_error_while_deciding_is_a_deny_with_its_own_code() -> None:
    broken = AuthorityRequest("process.exec", command=(1, 2))  # type: ignore[arg-type] # on purpose
    decision = decide(policy("permissive", deny=[RM]), broken)
    assert (decision.effect, decision.reason_code) == ("deny", "policy_error")
    assert decision.to_dict()["explanation"]["parts"] == []


def test_a_request_without_a_command_meets_no_command_rule() -> None:
    request = AuthorityRequest("process.exec", target=Target(resource="sh"))
    assert decide(policy("permissive", deny=[RM]), request).reason_code == "unknown_capability"


def test_a_capability_outside_the_catalogue_still_meets_its_globs() -> None:
    document = policy(deny=[rule("m", "memory.*")], allow=[rule("all", "*")])
    assert decide(document, AuthorityRequest("memory.secrets.read")).effect == "deny"
    assert decide(document, AuthorityRequest("made.up")).effect == "allow"


CAPABILITIES = ["process.exec", "process.*", "*", "code.run", "tool.*"]
COMMANDS = [
    "ls", "rm x", "git push", "git status && rm x", "env rm x", "ls > x", "echo $X", "sudo git push",
    "sh -c 'rm x'", "./rm", "ls | xargs rm", "(rm x)", "",
]  # fmt: skip
PREFIXES = [["rm"], ["git"], ["git", "push"], ["ls"], ["env"], ["sudo"], [["rm", "ls"]], ["echo"]]
CONDITIONS: list[dict[str, Any]] = [
    {},
    {"risk_level": ["high"]},
    {"execution_surface": "sandbox"},
    {"exclude_execution_surface": ["sandbox"]},
    {"data_classes": ["pii"]},
    {"exclude_capability": ["code.*"]},
]


@st.composite
def rules(draw: st.DrawFn) -> dict[str, Any]:
    capability = draw(st.sampled_from(CAPABILITIES))
    parts: dict[str, Any] = {"conditions": draw(st.sampled_from(CONDITIONS))}
    if capability not in ("code.run", "tool.*") and draw(st.booleans()):
        parts["command"] = {"prefix": draw(st.sampled_from(PREFIXES))}
    if draw(st.booleans()):
        parts["constraints"] = {"approval_expires_seconds": draw(st.integers(1, 100))}
    return rule(f"r{draw(st.integers(0, 10**12))}", capability, **parts)


@st.composite
def documents(draw: st.DrawFn) -> dict[str, Any]:
    found = draw(st.lists(rules(), max_size=6, unique_by=lambda item: item["rule_id"]))
    buckets: dict[str, list[dict[str, Any]]] = {"deny": [], "ask": [], "allow": []}
    for item in found:
        buckets[draw(st.sampled_from(sorted(buckets)))].append(item)
    return policy(draw(st.sampled_from(["permissive", "interactive", "strict"])), **buckets)


@st.composite
def requests(draw: st.DrawFn) -> AuthorityRequest:
    if draw(st.integers(0, 3)) == 0:
        return AuthorityRequest(draw(st.sampled_from(["code.run", "tool.mcp.call", "x.y"])))
    return shell(
        draw(st.sampled_from(COMMANDS)),
        execution_surface=draw(st.sampled_from(["sandbox", "host"])),
        risk_level=draw(st.sampled_from(["low", "high"])),
        data_classes=tuple(draw(st.lists(st.sampled_from(["pii", "credential"]), max_size=2))),
    )


def with_rule(document: dict[str, Any], bucket: str, added: dict[str, Any]) -> dict[str, Any]:
    named = added | {"rule_id": "added"}
    return document | {"rules": document["rules"] | {bucket: [*document["rules"][bucket], named]}}


@given(documents(), rules(), requests())
def test_adding_a_deny_rule_never_loosens(
    document: dict[str, Any], added: dict[str, Any], request: AuthorityRequest
) -> None:
    before, after = decide(document, request), decide(with_rule(document, "deny", added), request)
    assert after.effect.strictness >= before.effect.strictness


@given(documents(), rules(), requests())
def test_adding_an_ask_rule_never_lets_through_what_was_held(
    document: dict[str, Any], added: dict[str, Any], request: AuthorityRequest
) -> None:
    before, after = decide(document, request), decide(with_rule(document, "ask", added), request)
    assert after.effect is not Effect.ALLOW or before.effect is Effect.ALLOW
    if before.reason_code is ReasonCode.MATCHED_DENY:
        assert after.effect is Effect.DENY


@given(documents(), st.integers(0, 5), requests())
def test_removing_an_allow_rule_never_loosens(
    document: dict[str, Any], at: int, request: AuthorityRequest
) -> None:
    allow = document["rules"]["allow"]
    fewer = document | {"rules": document["rules"] | {"allow": allow[:at] + allow[at + 1 :]}}
    speaks_of_commands = any("command" in item for item in allow[at : at + 1])
    if speaks_of_commands and read_command(request.command or ()).opaque:
        # Rules on commands make unreadable ones ask; where the last one goes, so does that.
        return
    before, after = decide(document, request), decide(fewer, request)
    assert after.effect.strictness >= before.effect.strictness


@given(documents(), requests(), st.randoms(use_true_random=False))
def test_the_order_of_rules_decides_nothing(
    document: dict[str, Any], request: AuthorityRequest, chance: random.Random
) -> None:
    shuffled = {
        bucket: chance.sample(items, len(items)) for bucket, items in document["rules"].items()
    }
    before, after = decide(document, request), decide(document | {"rules": shuffled}, request)
    assert (before.effect, before.reason_code) == (after.effect, after.reason_code)
    assert sorted(before.matched_rules) == sorted(after.matched_rules)
    assert before.constraints == after.constraints


@given(documents(), requests())
def test_every_decision_can_be_written_down(
    document: dict[str, Any], request: AuthorityRequest
) -> None:
    decision = decide(document, request)
    told = decision.to_dict()
    assert decision.reason_code is not ReasonCode.POLICY_ERROR
    matched = [note["rule_id"] for note in told["explanation"]["matched"]]
    assert matched == list(decision.matched_rules)
    assert AuthorityRequest.from_dict(request.to_dict()) == request


def test_a_compiled_policy_decides_the_same_twice() -> None:
    compiled = compile_policy(load_document(policy(deny=[RM])))
    assert compiled.evaluate(shell("rm x")) == compiled.evaluate(shell("rm x"))
