"""What the run page shows of a realistic record."""

from __future__ import annotations

import pytest
from django.template.loader import render_to_string

from omniweb.accounts.models import Team
from tests.trajectories.build import APPROVER, Command, append, notes, record, said
from trajectories.flags import Flag
from trajectories.models import Trajectory
from trajectories.services import trajectory_seal
from trajectories.steps import StepKind
from trajectories.tally import MAX_BARS, Tally
from trajectories.viewer.executions import HEAD_BYTES, TAIL_BYTES, ExecutionView
from trajectories.viewer.lines import Line
from trajectories.viewer.presenters import WINDOW, window
from trajectories.viewer.story import story
from trajectories.viewer.timeline import strip_of


def items(trajectory: Trajectory, **options: int) -> list[Line | ExecutionView]:
    return [item for turn in window(trajectory, **options)["turns"] for item in turn.items]


def commands(trajectory: Trajectory) -> list[ExecutionView]:
    return [item for item in items(trajectory) if isinstance(item, ExecutionView)]


def text_of(line: Line) -> str:
    return " ".join(phrase.text for phrase in line.phrases)


def drawn(trajectory: Trajectory, **options: int) -> str:
    return render_to_string("trajectories/steps.html", window(trajectory, **options))


@pytest.fixture
def morning(trajectory: Trajectory) -> Trajectory:
    """The run of the drawing: an approved command, a rejected one, an allowed one."""
    said(trajectory, "Dependencies are missing; installing them.")
    Command(trajectory, "npm ci && npm test", "ask").asked().decided(reason="pinned now").run(
        b"\x1b[32m PASS \x1b[0m cart\n"
    )
    said(trajectory, "All green, pushing.")
    Command(trajectory, "git push", "ask").asked().decided(verdict="reject", reason="open a pr")
    Command(trajectory, "git format-patch -1").run(exit_code=2)
    Command(trajectory, "rm -rf /", "deny")
    append(trajectory, StepKind.RUN_ENDED, state="succeeded")
    trajectory_seal(trajectory=trajectory)
    return trajectory


def test_a_turn_begins_when_the_agent_speaks(morning: Trajectory) -> None:
    turns = window(morning)["turns"]
    assert [turn.title for turn in turns] == ["Start", "Turn 1", "Turn 2"]
    assert [len(turn.items) for turn in turns] == [1, 2, 6]


def test_without_speech_each_command_is_a_turn(trajectory: Trajectory) -> None:
    Command(trajectory, "true").run()
    Command(trajectory, "false").run(exit_code=1)
    assert [turn.title for turn in window(trajectory)["turns"]] == ["Start", "Turn 1", "Turn 2"]


def test_an_approved_command_tells_who_asked_and_who_agreed(morning: Trajectory) -> None:
    command = commands(morning)[0]
    asked, approved = command.before
    assert text_of(asked) == "Asked by rule ask_commands of engineering v14"
    assert text_of(approved).startswith(f"Approved by {APPROVER}, once, after ")
    assert text_of(approved).endswith(": “pinned now”")
    assert (command.tone, command.word, command.remark) == ("good", "exit 0", "")
    assert command.duration_ms == 48_200.5
    assert command.outputs[0].head == '<span class="ansi-fg-2"> PASS </span> cart\n'
    assert not command.outputs[0].left_out


def test_a_rejected_command_shows_the_reviewers_words(morning: Trajectory) -> None:
    command = commands(morning)[1]
    assert (command.tone, command.word, command.remark) == ("bad", "rejected", "not run")
    assert command.explanation == f"Rejected by {APPROVER}: open a pr"
    assert [text_of(line)[:5] for line in command.before] == ["Asked"]


def test_an_allowed_command_names_its_rule_and_a_failed_one_its_exit(morning: Trajectory) -> None:
    command = commands(morning)[2]
    assert (command.tone, command.word) == ("bad", "exit 2")
    assert " ".join(phrase.text for phrase in command.footer) == (
        "Allowed by rule allow_commands of engineering v14"
    )


def test_a_denied_command_says_why(morning: Trajectory) -> None:
    command = commands(morning)[3]
    assert (command.word, command.remark) == ("denied", "not run")
    assert command.explanation == "Denied by deny_commands: Not here."


@pytest.mark.parametrize(
    ("story_so_far", "expected"),
    [
        (lambda it: it.asked(), ("waiting", "not run yet")),
        (lambda it: it.asked().decided(), ("queued", "not run yet")),
        (lambda it: it.asked().decided().started(), ("running", "")),
        (lambda it: it.asked().decided().started().ended(exit_code=None, state="unknown"),
         ("may have run", "")),
        (lambda it: it.asked().decided().started().ended(exit_code=None, state="timed_out"),
         ("timed out", "")),
        (lambda it: it.asked().decided().ended(exit_code=None, state="cancelled"),
         ("cancelled", "not run")),
    ],
)  # fmt: skip
def test_a_command_under_way_says_how_it_stands(
    trajectory: Trajectory, story_so_far: object, expected: tuple[str, str]
) -> None:
    story_so_far(Command(trajectory, "sleep 9", "ask"))  # type: ignore[operator]  # a lambda above
    [command] = commands(trajectory)
    assert (command.word, command.remark) == expected


def test_every_step_can_be_linked_to_once(morning: Trajectory) -> None:
    html = drawn(morning)
    for step in morning.steps.all():
        assert html.count(f'id="s{step.seq}"') == 1, step


def test_parallel_commands_stay_whole(trajectory: Trajectory) -> None:
    first, second = Command(trajectory, "first"), Command(trajectory, "second")
    first.started(), second.started()
    second.ended(b"two\n"), first.ended(b"one\n")
    shown = commands(trajectory)
    assert [command.command for command in shown] == ["first", "second"]
    assert [command.outputs[0].head for command in shown] == ["one\n", "two\n"]


def test_a_manifest_request_is_told_in_lines(trajectory: Trajectory) -> None:
    about = {"request": "req_1", "subject": "0199a3c4-0000-7000-8000-000000000001"}
    append(trajectory, StepKind.REQUEST_OPENED, sentence="Open a sandbox with network", **about)
    append(
        trajectory, StepKind.VOTE, APPROVER, verdict="approve", scope="run", voter=APPROVER, **about
    )
    append(trajectory, StepKind.REQUEST_DECIDED, outcome="approved", by=APPROVER, **about)
    lines = [item for item in items(trajectory) if isinstance(item, Line)]
    assert [text_of(line)[:15] for line in lines[1:]] == ["People are aske", "Approved by app"]
    assert "for this run, after" in text_of(lines[2])
    assert lines[2].also == [4]


def test_a_long_output_shows_its_beginning_and_its_end(trajectory: Trajectory) -> None:
    Command(trajectory, "yes").run("é".encode() * 20_000 + b"the end")
    [output] = commands(trajectory)[0].outputs
    assert output.head.startswith("éé")
    assert output.tail.endswith("the end")
    assert "\ufffd" not in output.head + output.tail
    assert output.left_out == 40_007 - HEAD_BYTES - TAIL_BYTES


def test_nothing_an_agent_wrote_is_interpreted(trajectory: Trajectory) -> None:
    bad = '<img src=x onerror=alert(1)>\u202e\x1b[2J"'
    said(trajectory, bad)
    Command(trajectory, bad).run(bad.encode())
    append(trajectory, StepKind.FILE_WRITTEN, path=bad)
    append(trajectory, StepKind.NOTE, text=bad)
    html = drawn(trajectory)
    assert "<img" not in html
    assert "\u202e" not in html
    assert "\x1b" not in html
    assert html.count(r"\u202e") >= 4


def test_every_kind_of_step_can_be_drawn(trajectory: Trajectory) -> None:
    append(trajectory, StepKind.MODEL_CALL, model="m", input_tokens=1200, output_tokens=3,
           cost_usd=0.01, duration_ms=2100)  # fmt: skip
    append(trajectory, StepKind.TOOL_CALL, tool="search", outcome="success")
    append(trajectory, StepKind.GRANT_USED, grant="gra_1", scope="run")
    append(trajectory, StepKind.SANDBOX_STATE, sandbox="sbx_1", state="ready", provider="docker")
    append(trajectory, StepKind.FILE_READ, path="out/fix.patch", size=812)
    append(trajectory, StepKind.BUDGET, act="reserved", amount=0.5, unit="USD")
    append(trajectory, StepKind.GUARDRAIL, guardrail="injection", outcome="flagged")
    append(trajectory, StepKind.IMPORTED, format="atif", data={"x": 1})
    append(trajectory, StepKind.ANNOTATION, "auditor@example.org", text="Look here", seq=2)
    html = drawn(trajectory)
    for words in ("1,200 tokens in, 3 out, $0.0100, 2.1 s", "by an earlier yes, for this run",
                  "812 bytes", "reserved 0.5 USD", "auditor@example.org", "on step 2"):  # fmt: skip
        assert words in html


@pytest.mark.parametrize(
    ("verdict", "words"),
    [
        ("proven", "isolation proven"),
        ("unchecked", "isolation not checked"),
        ("promised", "isolation not tried"),
        ("reached", "it reached the network"),
    ],
)
def test_what_was_seen_of_a_sandboxs_isolation_is_said(
    trajectory: Trajectory, verdict: str, words: str
) -> None:
    append(trajectory, StepKind.SANDBOX_STATE, sandbox="sbx_1", state="ready",
           evidence={"verdict": verdict})  # fmt: skip
    assert words in drawn(trajectory)


def test_a_sealed_record_opens_at_its_beginning_and_a_growing_one_at_its_end(
    trajectory: Trajectory,
) -> None:
    notes(trajectory, [str(number) for number in range(2 * WINDOW)])
    end = window(trajectory)
    assert (end["first"], end["earlier"], end["later"]) == (201, 200, None)
    assert end["is_live"]
    assert not window(trajectory, at=1)["is_live"]
    trajectory_seal(trajectory=trajectory)
    beginning = window(trajectory)
    assert (beginning["first"], beginning["earlier"], beginning["later"]) == (1, None, 101)
    assert not beginning["is_live"]


@pytest.mark.parametrize(("at", "first"), [(0, 1), (100, 1), (101, 101), (10**8, 201)])
def test_a_window_holds_the_step_it_is_asked_for(
    trajectory: Trajectory, at: int, first: int
) -> None:
    notes(trajectory, [str(number) for number in range(2 * WINDOW)])
    assert window(trajectory, at=at)["first"] == first


def test_a_command_across_windows_is_shown_where_it_was_asked_for(trajectory: Trajectory) -> None:
    command = Command(trajectory, "sleep 9").started()
    said(trajectory, "Meanwhile")
    notes(trajectory, [str(number) for number in range(WINDOW)])
    assert window(trajectory, at=1)["is_live"], "a command in it has not ended"
    command.ended(b"done\n")
    ended = trajectory.head_seq
    found = window(trajectory, at=ended)
    assert found["first"] == 1
    assert [c.word for c in commands_of(found)] == ["exit 0"]
    second = window(trajectory, start=WINDOW + 1)
    assert commands_of(second) == []
    assert second["turns"][0].title == "Turn 2, continued"


def test_the_way_on_never_leads_back(trajectory: Trajectory) -> None:
    notes(trajectory, [str(number) for number in range(WINDOW - 3)])
    Command(trajectory, "sleep 9").started().ended(b"done\n")
    said(trajectory, "Next")
    first = window(trajectory, at=1)
    assert (first["later"], first["later_at"]) == (WINDOW + 1, WINDOW + 3)
    assert window(trajectory, at=first["later_at"])["first"] == WINDOW + 1


def commands_of(context: dict[str, object]) -> list[ExecutionView]:
    turns = context["turns"]
    assert isinstance(turns, list)
    return [item for turn in turns for item in turn.items if isinstance(item, ExecutionView)]


def test_a_window_takes_as_many_queries_for_many_commands_as_for_one(
    trajectory: Trajectory, django_assert_max_num_queries: object
) -> None:
    for number in range(30):
        Command(trajectory, f"echo {number}").run(f"{number}\n".encode())
    with django_assert_max_num_queries(5):  # type: ignore[operator]  # a fixture of pytest-django
        window(trajectory, at=1)


def test_the_story_is_one_sentence(morning: Trajectory, team: Team) -> None:
    assert story(morning) == (
        "4 commands, 1 failed; 1 approval by approver@example.org, waited 4 min 28 s;"
        " 1 denied; 1 rejected."
    )
    assert story(record(team)) == "No command was asked for."


def test_the_minimap_never_has_more_than_its_bars(trajectory: Trajectory) -> None:
    tally = Tally()
    for number in range(1, 100_001):
        bad = number == 77_777
        tally.add("run_ended" if bad else "note", {"state": "failed"} if bad else {})
    assert MAX_BARS // 2 <= len(tally.strip) <= MAX_BARS
    trajectory.totals, trajectory.head_seq = tally.to_dict(), 100_000
    bars = strip_of(trajectory).bars
    assert bars[-1].last == 100_000
    [bad_bar] = [bar for bar in bars if bar.flag is Flag.BAD]
    assert bad_bar.first <= 77_777 <= bad_bar.last


def test_a_short_minimap_has_a_bar_per_step(morning: Trajectory) -> None:
    strip = strip_of(morning)
    assert [bar.first for bar in strip.bars] == list(range(1, morning.head_seq + 1))
    html = render_to_string("trajectories/strip.html", {"strip": strip, "trajectory": morning})
    assert "style=" not in html
    assert 'href="?at=2#s2"' in html
    assert 'class="bad"' in html
