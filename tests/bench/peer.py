"""The other side of `decision`: OmniCoreAgent's evaluator, in an environment that has it.

Reads one order per line, `{"policy": name or document, "commands": […]}`, decides each command,
and answers the seconds it took. Nothing here may import what only our environment has.
"""

from __future__ import annotations

import json
import sys
import time
from importlib import import_module
from typing import Any

governance: Any = import_module("omnicoreagent.governance")
commands: Any = import_module("omnicoreagent.governance.commands")


def policy(asked: Any) -> Any:
    """Return a built-in policy by name, or the one a document describes."""
    if isinstance(asked, str):
        return governance.build_default_policy(asked)
    return governance.policy_from_mapping(asked)


def decide(evaluator: Any, rules: Any, argv: list[str]) -> Any:
    """Return the decision on one command."""
    request = governance.AuthorityRequest(
        capability="process.exec",
        target=governance.AuthorityTarget(resource=argv[0]),
        execution_surface="sandbox",
        risk_level="high",
    )
    return evaluator.evaluate(rules, commands.attach_command(request, argv))


def main() -> None:
    """Answer orders until there are no more."""
    evaluator = governance.PolicyEvaluator()
    known: dict[str, Any] = {}
    for line in sys.stdin:
        order = json.loads(line)
        key = json.dumps(order["policy"])
        if key not in known:
            known[key] = policy(order["policy"])
        rules = known[key]
        start = time.perf_counter()
        effects = [str(decide(evaluator, rules, argv).effect.value) for argv in order["commands"]]
        seconds = time.perf_counter() - start
        sys.stdout.write(json.dumps({"seconds": seconds, "effects": effects}) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
