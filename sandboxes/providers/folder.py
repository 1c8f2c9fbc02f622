"""Files of a directory of this machine, opened so that no link can lead out of it."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path, PurePosixPath

from omniweb.core.errors import InvalidInput, NotFound, ProviderError, TooLarge
from sandboxes.providers.base import FileEntry, FileKind
from sandboxes.providers.limits import MAX_FILE_BYTES, MAX_LISTED_FILES
from sandboxes.providers.paths import confined, outside

_KINDS: dict[int, FileKind] = {
    stat.S_IFREG: "file",
    stat.S_IFDIR: "directory",
    stat.S_IFLNK: "link",
}
_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


class Folder:
    """A working directory: links inside it are followed, links out of it refused."""

    def __init__(self, root: str) -> None:
        self._root = root

    def read(self, path: str, limit: int) -> bytes:
        """Return a file's bytes; raises NotFound, InvalidInput and TooLarge."""
        with (
            self._opened(path, os.O_RDONLY) as number,
            os.fdopen(number, "rb", closefd=False) as file,
        ):
            size = os.fstat(number).st_size
            if size > limit:
                raise TooLarge(f"{path} is {size} bytes; at most {limit} can be read")
            # A file that grows while it is read must not get past the limit either.
            data = file.read(limit + 1)
        if len(data) > limit:
            raise TooLarge(f"{path} is over {limit} bytes")
        return data

    def write(self, path: str, data: bytes) -> None:
        """Write a file and its parents; new ones are the owner's only. Raises InvalidInput, TooLarge."""
        if len(data) > MAX_FILE_BYTES:
            raise TooLarge(f"{path} is {len(data)} bytes; at most {MAX_FILE_BYTES} can be written")
        flags = os.O_WRONLY | os.O_CREAT
        with self._opened(path, flags) as number, os.fdopen(number, "wb", closefd=False) as file:
            file.truncate(0)
            file.write(data)

    def list(self, path: str) -> list[FileEntry]:
        """Return what a directory holds, by name; raises NotFound and InvalidInput."""
        directory = confined(self._root, path)
        with (
            self._beneath(path) as (parent, name),
            _closing(os.open(name, _DIRECTORY, dir_fd=parent)) as number,
        ):
            entries = []
            for found in sorted(os.listdir(number))[:MAX_LISTED_FILES]:  # noqa: PTH208 -- only this reads an open directory
                with suppress(FileNotFoundError):
                    entries.append(
                        _entry(
                            directory, found, os.stat(found, dir_fd=number, follow_symlinks=False)
                        )
                    )
        return entries

    @contextmanager
    def _opened(self, path: str, flags: int) -> Iterator[int]:
        """Give a regular file, opened; with O_CREAT its parents are made as well."""
        # Without O_NONBLOCK opening a pipe would wait for somebody at its other end.
        flags |= os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        create = bool(flags & os.O_CREAT)
        with (
            self._beneath(path, create=create) as (parent, name),
            _closing(os.open(name, flags, 0o600, dir_fd=parent)) as number,
        ):
            mode = os.fstat(number).st_mode
            if not stat.S_ISREG(mode):
                what = "is a directory" if stat.S_ISDIR(mode) else "is not a file"
                raise InvalidInput(f"{path} {what}")
            yield number

    @contextmanager
    def _beneath(self, path: str, *, create: bool = False) -> Iterator[tuple[int, str]]:
        """Give the directory a path is in, opened step by step, and its name there.

        Links are resolved first and the result is walked without following any, so one that
        is put there in between is refused instead of followed.
        """
        root = os.path.realpath(self._root)
        target = os.path.realpath(confined(self._root, path))
        steps = PurePosixPath(os.path.relpath(target, root)).parts
        if ".." in steps:
            raise outside(path)
        *parents, name = steps or (".",)
        try:
            with ExitStack() as opened:
                number = opened.enter_context(_closing(os.open(root, _DIRECTORY)))
                for step in parents:
                    number = opened.enter_context(_closing(_step(number, step, create=create)))
                yield number, name
        except OSError as error:
            raise _explained(error, path) from error


@contextmanager
def _closing(number: int) -> Iterator[int]:
    try:
        yield number
    finally:
        os.close(number)


def _step(number: int, name: str, *, create: bool) -> int:
    """Return the opened directory of a name below an opened one."""
    if create:
        with suppress(FileExistsError):
            os.mkdir(name, 0o700, dir_fd=number)
    return os.open(name, _DIRECTORY, dir_fd=number)


def _entry(directory: str, name: str, status: os.stat_result) -> FileEntry:
    kind = _KINDS.get(stat.S_IFMT(status.st_mode), "other")
    return FileEntry(path=str(Path(directory, name)), kind=kind, size=status.st_size)


def _explained(error: OSError, path: str) -> Exception:
    if error.errno == errno.ELOOP:
        return outside(path)
    # A pipe that nobody reads from cannot be opened for writing.
    if error.errno == errno.ENXIO:
        return InvalidInput(f"{path} is not a file")
    if error.errno == errno.ENAMETOOLONG:
        return InvalidInput(f"{path[:100]}… has a part that is too long for a name")
    if isinstance(error, FileNotFoundError):
        return NotFound(f"{path} does not exist")
    if isinstance(error, IsADirectoryError):
        return InvalidInput(f"{path} is a directory")
    if isinstance(error, NotADirectoryError):
        return InvalidInput(f"{path} goes through something that is no directory")
    if isinstance(error, PermissionError):
        return InvalidInput(f"{path} may not be opened by the user commands run as")
    return ProviderError(f"{path}: {os.strerror(error.errno or 0)}")
