"""One decision in process.

Reading a command and evaluating it, nothing remembered from one command to the next, beside the
evaluator of omnicoreagent 0.6.0 in an environment of its own: the same documents, the same
commands, and both have to come to the same answers.
"""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from approvals.policy.decision import AuthorityRequest, Target
from approvals.policy.document import load_document
from approvals.policy.evaluator import CompiledPolicy, compile_policy
from approvals.policy.profiles import profile_document
from tests.bench.clock import Timings, alternate
from tests.bench.figure import MICROSECONDS, Figure, Scale, at_most_times, timing
from tests.bench.machine import need
from tests.e2e.real_agent import ISOLATED

ROUNDS, REPEATS = 40, 5
PROFILE = "interactive-dev"
LINES = """
git status && git diff --stat
npm ci && npm test
rg -n "retry" src | head -20
python -m pytest -q tests/checkout
cat package.json | jq .scripts
git add -A && git commit -m "Retry the checkout"
ls -la build; du -sh build
docker compose up -d db
make lint test
git push origin fix/checkout
""".strip().splitlines()
COMMANDS = [["sh", "-c", line] for line in LINES]

PROGRAMS = "git npm python cargo go make kubectl terraform docker aws".split()
WORDS = "status push install test apply delete build run login plan".split()


def document(count: int) -> dict[str, Any]:
    """Return a policy of so many rules as teams write them: half on commands, half on targets."""
    rules: dict[str, list[dict[str, Any]]] = {"deny": [], "ask": [], "allow": []}
    for number in range(count):
        effect = list(rules)[number % 3]
        rule: dict[str, Any] = {"rule_id": f"{effect}_{number}", "reason": f"Rule {number}."}
        if number % 2:
            program = PROGRAMS[number % 10]
            word = (
                f"{WORDS[number // 10 % 10]}-{number}" if effect == "deny" else WORDS[number % 10]
            )
            rule |= {"capability": "process.exec", "command": {"prefix": [program, word]}}
        else:
            rule |= {"capability": "network.*", "target": {"host": f"*.host{number}.example.org"}}
        rules[effect].append(rule)
    return {"name": f"rules-{count}", "mode": "interactive", "rules": rules}


class Peer:
    """The other evaluator, as a process that takes orders."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process

    def decide(self, policy: str | dict[str, Any], repeats: int) -> tuple[float, list[str]]:
        """Decide the commands; return seconds per decision, and the effects."""
        assert self._process.stdin
        assert self._process.stdout
        order = {"policy": policy, "commands": COMMANDS * repeats}
        self._process.stdin.write(json.dumps(order) + "\n")
        self._process.stdin.flush()
        answer = json.loads(self._process.stdout.readline())
        return answer["seconds"] / len(order["commands"]), answer["effects"]


@contextmanager
def peer() -> Iterator[Peer]:
    """Start the other evaluator."""
    need("omnicoreagent")
    script = Path(__file__).with_name("peer.py")
    with subprocess.Popen(
        [*ISOLATED, "python", str(script)],
        cwd="/",
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        yield Peer(process)


def decide(policy: CompiledPolicy, repeats: int) -> tuple[float, list[str]]:
    """Decide the commands here; return seconds per decision, and the effects."""
    commands = COMMANDS * repeats
    start = time.perf_counter()
    effects = [_decided(policy, argv) for argv in commands]
    return (time.perf_counter() - start) / len(commands), effects


def _decided(policy: CompiledPolicy, argv: list[str]) -> str:
    request = AuthorityRequest(
        capability="process.exec",
        target=Target(resource=argv[0]),
        execution_surface="sandbox",
        risk_level="high",
        command=tuple(argv),
    )
    return policy.evaluate(request).effect.value


def _compared(name: str, policy: str | dict[str, Any], other: Peer, rounds: int) -> Timings:
    parsed = profile_document(policy) if isinstance(policy, str) else load_document(policy)
    compiled = compile_policy(parsed)
    assert decide(compiled, 1)[1] == other.decide(policy, 1)[1], f"{name}: they disagree"
    return alternate(
        rounds,
        lambda: decide(compiled, REPEATS)[0],
        lambda: other.decide(policy, REPEATS)[0],
    )


def measure(scale: Scale) -> Iterator[Figure]:
    """Measure three policies."""
    cases: list[tuple[str, str | dict[str, Any], float]] = [
        (PROFILE, PROFILE, 0.5),
        ("30 rules", document(30), 0.25),
        ("300 rules", document(300), 0.05),
    ]
    with peer() as other:
        for name, policy, aim in cases:
            ours, theirs = _compared(name, policy, other, scale.rounds(ROUNDS))
            yield timing(
                f"a decision, {name}",
                ours,
                "omnicoreagent's",
                theirs,
                aim=at_most_times(aim),
                scale=MICROSECONDS,
            )
