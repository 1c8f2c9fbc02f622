"""Writing a policy in a browser: marks, completion, keys, and what happens when two write at once."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from playwright.sync_api import FilePayload, Page, expect

from tests.e2e.window import Window
from tests.server import ADMIN, Server

pytestmark = pytest.mark.browser

START = "name: written\nmode: strict\nrules:\n  deny:\n    - rule_id: no_rm\n"


@pytest.fixture
def editor(server: Server, window: Callable[..., Window]) -> Page:
    """The editor of a new policy."""
    page = window(server, ADMIN).page
    page.goto("/policies/new")
    return page


def write(page: Page, text: str) -> None:
    """Put a text in the place of the one there is."""
    page.locator(".cm-content").click()
    page.keyboard.press("Control+a")
    page.keyboard.insert_text(text)


def test_what_is_wrong_is_marked_while_it_is_written(editor: Page) -> None:
    write(editor, f"{START}      capability: proces.exec\n")
    expect(editor.locator("#check")).to_contain_text("did you mean 'process.exec'?")
    expect(editor.locator(".cm-lint-marker-error")).to_have_count(1)
    # The rules stay as they could last be read.
    expect(editor.locator("#check-rules")).to_contain_text("allow_looking")
    write(editor, f"{START}      capability: process.exec\n")
    expect(editor.locator("#check-rules")).to_contain_text("no_rm")
    expect(editor.locator(".cm-lint-marker-error")).to_have_count(0)
    expect(editor.locator(".cm-lint-marker-info")).to_have_count(1)
    assert editor.locator("#id_source").input_value().endswith("capability: process.exec\n")


def test_a_line_that_is_named_is_gone_to(editor: Page) -> None:
    write(editor, START)
    editor.locator('[data-line="5"]').click()
    expect(editor.locator(".cm-activeLine")).to_contain_text("rule_id: no_rm")


def test_keys_and_values_are_completed_from_what_the_server_knows(editor: Page) -> None:
    write(editor, START)
    editor.keyboard.press("Control+End")
    editor.keyboard.type("      capab")
    expect(editor.locator(".cm-tooltip-autocomplete")).to_contain_text("what is asked for")
    editor.wait_for_timeout(200)
    editor.keyboard.press("Enter")
    editor.keyboard.type("sec")
    expect(editor.locator(".cm-tooltip-autocomplete")).to_contain_text("secret.use")
    editor.keyboard.press("Escape")
    editor.keyboard.type("ret.use\nconditions: {risk_level: [cri")
    expect(editor.locator(".cm-tooltip-autocomplete")).to_contain_text("critical")
    assert "      capability: secret.use\n" in editor.locator("#id_source").input_value()


def test_the_text_is_asked_about_a_command_as_both_are_written(editor: Page) -> None:
    editor.locator("#id_command").fill("git push && id")
    expect(editor.locator("#check-asked")).to_contain_text("Publishing needs a person.")
    expect(editor.locator("#check-asked mark")).to_have_count(2)
    write(editor, "name: a\nmode: strict\n")
    expect(editor.locator("#check-asked")).to_contain_text("Denied by strict policy")
    editor.locator("#id_command").press("Enter")
    expect(editor.locator("#check-asked")).to_contain_text("Denied by strict policy")
    expect(editor.locator(".cm-content")).to_contain_text("mode: strict")


def test_tab_indents_and_escape_leads_out(editor: Page) -> None:
    editor.locator(".cm-content").click()
    editor.keyboard.press("Control+Home")
    editor.keyboard.press("Tab")
    assert editor.locator("#id_source").input_value().startswith("  name:")
    editor.keyboard.press("Escape")
    editor.keyboard.press("Tab")
    expect(editor.locator(".cm-focused")).to_have_count(0)


def test_the_keys_of_the_page_do_nothing_while_a_policy_is_written(editor: Page) -> None:
    editor.locator(".cm-content").click()
    editor.keyboard.type("?")
    expect(editor.locator("dialog[open]")).to_have_count(0)
    write(editor, "name: saved-by-key\n")
    editor.keyboard.press("Control+s")
    expect(editor.locator("main h1")).to_have_text("saved-by-key")
    expect(editor.locator("main")).to_contain_text("Not active")


def test_a_file_is_read_into_the_text(editor: Page) -> None:
    file = FilePayload(name="theirs.yaml", mimeType="text/yaml", buffer=b"name: theirs\n")
    editor.locator("#id_upload").set_input_files(file)
    expect(editor.locator(".cm-content")).to_contain_text("name: theirs")


def test_without_scripts_the_text_is_written_checked_and_saved(
    server: Server, window: Callable[..., Window]
) -> None:
    page = window(server, ADMIN, java_script_enabled=False).page
    page.goto("/policies/new")
    page.locator("#id_source").fill("name: plainly\nmode: lax\n")
    page.get_by_role("button", name="Check").click()
    expect(page.locator("#check")).to_contain_text("mode must be one of")
    page.locator("#id_source").fill("name: plainly\nmode: strict\n")
    page.get_by_role("button", name="Save and activate").click()
    expect(page.locator("main h1")).to_have_text("plainly")


def test_two_who_write_at_once_lose_nothing(server: Server, window: Callable[..., Window]) -> None:
    server.policy("shared", "name: shared\nmode: strict\n")
    windows = [window(server, ADMIN) for _ in range(2)]
    first, second = (one.page for one in windows)
    for page in (first, second):
        page.goto("/policies")
        page.get_by_role("link", name="shared", exact=True).click()
        page.get_by_role("link", name="New version").click()
    write(first, "name: shared\nmode: interactive\n")
    first.get_by_role("button", name="Save and activate").click()
    expect(first.locator("main")).to_contain_text("Version 2")
    write(second, "name: shared\nmode: permissive\n")
    second.get_by_role("button", name="Save and activate").click()
    expect(second.locator(".overtaken")).to_contain_text("saved version 2")
    expect(second.locator(".cm-content")).to_contain_text("mode: permissive")
    # A browser says on its console, too, that the answer was a refusal.
    assert all("409" in line for line in windows[1].complaints)
    windows[1].complaints.clear()
    second.get_by_role("button", name="on top of version 2").click()
    expect(second.locator("main")).to_contain_text("Version 3")
