"""Workspace paths have one spelling before rules see them."""

from __future__ import annotations

import pytest

from approvals.policy.paths import workspace_path
from omniweb.core.errors import InvalidInput


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("a/b.txt", "a/b.txt"),
        ("./a/b.txt", "a/b.txt"),
        ("a//./b.txt", "a/b.txt"),
        ("workspace/a", "a"),
        ("workspace_files/a", "a"),
        ("files/a", "a"),
        ("/workspace/a", "a"),
        ("/workspace", ""),
        ("a%2Fb%20c", "a/b c"),
        ("a\\b", "a/b"),
    ],
)
def test_spellings_of_one_file_become_one_path(path: str, expected: str) -> None:
    assert workspace_path(path) == expected


@pytest.mark.parametrize("path", ["../a", "a/../../b", "%2e%2e/a", "/etc/passwd", "/workspaces/a"])
def test_paths_that_leave_the_workspace_are_refused(path: str) -> None:
    with pytest.raises(InvalidInput):
        workspace_path(path)


def test_other_roots_can_be_named() -> None:
    assert workspace_path("/srv/work/a", roots=("/srv/work",)) == "a"
