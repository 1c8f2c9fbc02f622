"""Programs that run programs: what is inside them is seen."""

from __future__ import annotations

import pytest

from approvals.policy.commands.parse import read_script


@pytest.mark.parametrize(
    "script",
    [
        "env rm x",
        "env -i A=1 B=2 rm x",
        "env -u HOME rm x",
        "env -uHOME rm x",
        "env --unset HOME rm x",
        "env -S 'rm x'",
        "sudo rm x",
        "sudo -u root rm x",
        "sudo -Eu root rm x",
        "sudo --user=root -- rm x",
        "sudo env nice -n 5 rm x",
        "doas -u root rm x",
        "nice rm x",
        "nohup rm x",
        "setsid rm x",
        "stdbuf -oL rm x",
        "timeout 5 rm x",
        "timeout -k 1 5 rm x",
        "timeout --signal=KILL 5 rm x",
        "xargs rm x",
        "xargs -n1 rm x",
        "xargs -n 1 -I {} rm x",
        "xargs -0 --max-args 3 rm x",
        "chroot /mnt rm x",
        "flock /tmp/l rm x",
        "flock /tmp/l -c 'rm x'",
        "/usr/bin/time -f %e rm x",
        "watch -n 1 rm x",
        "busybox rm x",
        "strace -f -o log rm x",
        "su root -c 'rm x'",
        "find . -name a -exec rm x ';'",
        "find . -execdir rm x +",
        "command rm x",
        "xargs --max-lines rm x",
        "parallel --joblog log rm ::: x",
        "systemd-run -t rm x",
        "numactl -l rm x",
        "ls | entr -s 'rm x'",
        "timeout --unheard-of 5 rm x",
        "timeout --unheard-of word 5 rm x",
        "exec -a name rm x",
    ],
)
def test_the_command_inside_a_wrapper_is_found(script: str) -> None:
    inner = [command for command in read_script(script).commands if command.reached]
    assert any(command.program == "rm" for command in inner)


@pytest.mark.parametrize(
    "script",
    ["env", "sudo -l", "timeout 5", "nohup", "xargs", "env A=1", "command -v rm", "command -pV rm"],
)
def test_a_wrapper_may_have_nothing_inside(script: str) -> None:
    assert len(read_script(script).commands) == 1


def test_how_a_command_is_reached_is_told_outermost_first() -> None:
    *_, last = read_script("sudo timeout 5 sh -c 'rm x'").commands
    assert last.words == ("rm", "x")
    assert last.reached == ("sudo", "timeout", "sh -c")


def test_wrappers_nested_without_end_are_opaque() -> None:
    assert "commands nested too deeply" in read_script("sudo " * 50 + "ls").opaque_reasons


@pytest.mark.parametrize("wrapper", ["xargs --q", "watch -Z", "env --q a", "parallel --q"])
def test_options_nobody_knows_do_not_multiply_what_is_read(wrapper: str) -> None:
    line = read_script(f"{wrapper} " * 500 + "ls")
    assert line.opaque
    assert len(line.commands) < 50
