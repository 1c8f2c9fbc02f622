"""What is asked of our own adapters more strictly than the kit asks it of every provider."""

from __future__ import annotations

import hashlib

import pytest

from omniweb.core.errors import InvalidInput, NotFound
from sandboxes.providers.base import LiveSandbox
from tests.providers import unique
from tests.providers.running import run, sh


def test_bytes_of_any_value_and_number_come_through_stdin(live: LiveSandbox) -> None:
    data = bytes(range(256)) * 20_000
    line = "import hashlib, sys; print(hashlib.sha256(sys.stdin.buffer.read()).hexdigest())"
    assert run(live, "python3", "-c", line, stdin=data).text == hashlib.sha256(data).hexdigest()


def test_a_file_of_100_mb_fits_through(live: LiveSandbox) -> None:
    data, name = b"0123456789abcdef" * (100 * 65536), unique("large")
    live.write_file(name, data)
    assert live.read_file(name) == data
    sh(live, f"rm {name}")


@pytest.mark.parametrize("path", ["../x", "/etc/hosts", "a/../../x", "/", ".."])
def test_a_path_outside_the_working_directory_is_refused_in_one_sentence(
    live: LiveSandbox, path: str
) -> None:
    message = f"Path {path} is outside the sandbox working directory"
    for use in (live.read_file, live.list_files, lambda path: live.write_file(path, b"")):
        with pytest.raises(InvalidInput) as refused:
            use(path)
        assert refused.value.detail == message


def test_what_is_no_file_is_said_plainly(live: LiveSandbox) -> None:
    folder = unique("plain")
    live.write_file(f"{folder}/file", b"")
    assert sh(live, f"mkfifo {folder}/pipe").code == 0
    with pytest.raises(NotFound, match="does not exist"):
        live.read_file(f"{folder}/missing")
    with pytest.raises(NotFound, match="does not exist"):
        live.list_files(f"{folder}/missing")
    with pytest.raises(InvalidInput, match="is a directory"):
        live.read_file(folder)
    with pytest.raises(InvalidInput, match="is a directory"):
        live.write_file(folder, b"")
    with pytest.raises(InvalidInput, match="is not a file"):
        live.read_file(f"{folder}/pipe")
