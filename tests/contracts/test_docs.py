"""The documentation is whole: what exists is described."""

from __future__ import annotations

import re
from pathlib import Path

import omniweb.settings
from approvals.policy.check import activation_problems
from approvals.policy.decision import AuthorityRequest
from approvals.policy.document import parse_document
from approvals.policy.evaluator import compile_policy
from approvals.policy.lint import Kind

DOCS = Path(omniweb.settings.BASE_DIR) / "docs"


def test_every_setting_is_described_and_every_described_one_exists() -> None:
    source = Path(omniweb.settings.__file__).read_text()
    read = set(re.findall(r'env\.\w+\(\s*"([A-Z_]+)"', source))
    read |= set(re.findall(r'"([A-Z]+_URL)"', source))
    described = set(re.findall(r"^\| `([A-Z_]+)`", (DOCS / "settings.md").read_text(), re.M))
    assert read == described


def test_every_relative_link_leads_somewhere() -> None:
    for page in [*DOCS.glob("*.md"), DOCS.parent / "README.md"]:
        for target in re.findall(r"\]\((?!https?://|#)([^)#]+)", page.read_text()):
            assert (page.parent / target).exists(), f"{page.name} links to {target}"


def test_the_example_policy_says_what_its_page_promises() -> None:
    page = (DOCS / "policies.md").read_text()
    source, tests = re.findall(r"^```yaml\n(.*?)^```", page, re.M | re.S)
    policy = compile_policy(parse_document(source))
    assert not activation_problems(source + tests)
    lines = {
        "git push": "ask",
        "npm ci > logs/install.txt": "allow",
        "CI=1 npm test": "allow",
        "npm run deploy": "ask",
        "ls; rm -rf build": "deny",
    }
    for line, effect in lines.items():
        request = AuthorityRequest(capability="process.exec", command=("sh", "-c", line))
        assert policy.evaluate(request).effect == effect, line


def test_every_kind_of_finding_is_described() -> None:
    page = (DOCS / "policies.md").read_text()
    for kind in Kind:
        assert f"| `{kind}` |" in page
