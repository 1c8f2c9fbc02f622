"""The commands: what they print and how they end."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import pytest
from django.core.management import CommandError, call_command

VECTOR = {
    "profile": "strict-production",
    "request": {"capability": "code.run"},
    "expect": {"effect": "deny"},
    "match": "exact",
}


def run(*args: Any) -> str:
    out = io.StringIO()
    call_command(*args, stdout=out)
    return out.getvalue()


def test_vectors_that_agree_are_counted(tmp_path: Path) -> None:
    file = tmp_path / "v.jsonl"
    file.write_text(f"{json.dumps(VECTOR)}\n\n{json.dumps(VECTOR)}\n")
    assert run("policy_vectors", file) == "2 vectors, 0 disagreements\n"


def test_a_disagreement_is_printed_and_ends_with_1(tmp_path: Path) -> None:
    file = tmp_path / "v.jsonl"
    file.write_text(json.dumps(VECTOR | {"expect": {"effect": "allow"}}))
    with pytest.raises(CommandError) as caught:
        run("policy_vectors", file)
    assert caught.value.returncode == 1


@pytest.mark.parametrize("content", ["{", "[1]", b"\xff\xfe"])
def test_an_unreadable_line_ends_with_2(tmp_path: Path, content: str | bytes) -> None:
    file = tmp_path / "v.jsonl"
    file.write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(CommandError) as caught:
        run("policy_vectors", file)
    assert caught.value.returncode == 2


def test_a_missing_file_ends_with_2_and_says_which(tmp_path: Path) -> None:
    with pytest.raises(CommandError, match=r"absent\.jsonl cannot be read") as caught:
        run("policy_vectors", tmp_path / "absent.jsonl")
    assert caught.value.returncode == 2


def test_a_command_is_explained_in_words() -> None:
    told = run("policy_explain", "--profile", "interactive-dev", "--command", "ls > x")
    assert told.startswith("allow  (matched_allow)")
    assert "allow  ls by allow_sandboxed_execution" in told
    assert "allow  > x: a redirect" in told
    assert "ask_high_risk: wants execution_surface not in sandbox" in told


def test_a_request_is_explained_as_json(tmp_path: Path) -> None:
    file = tmp_path / "policy.yaml"
    file.write_text("name: mine\nextends: interactive-dev\n")
    request = json.dumps({"capability": "sandbox.network.configure", "host": "example.org"})
    told = json.loads(run("policy_explain", "--file", file, "--request", request, "--json"))
    assert told["decision"]["matched_rules"] == ["ask_sandbox_network"]
    assert told["policy"]["name"] == "mine"


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (("--profile", "strict", "--command", "ls"), "did you mean 'strict-production'"),
        (("--file", "absent.yaml", "--command", "ls"), "absent.yaml cannot be read"),
        (("--profile", "strict-production", "--request", "{"), "the request is not JSON"),
        (("--profile", "strict-production", "--request", "{}"), "a request needs a capability"),
    ],
)
def test_a_wrong_question_ends_with_2_and_what_to_do(args: tuple[str, ...], message: str) -> None:
    with pytest.raises(CommandError, match=message) as caught:
        run("policy_explain", *args)
    assert caught.value.returncode == 2


def test_a_policy_file_with_an_error_is_refused_with_its_line(tmp_path: Path) -> None:
    file = tmp_path / "policy.yaml"
    file.write_text("name: mine\nmood: strict\n")
    with pytest.raises(CommandError, match="line 2: policy has unknown key"):
        run("policy_explain", "--file", file, "--command", "ls")
