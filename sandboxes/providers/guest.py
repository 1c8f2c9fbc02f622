"""What is run inside a sandbox to start, stop and look after things: POSIX sh and common tools.

Values reach the scripts as arguments ($0, $1, ...), never as part of their text.
"""

from __future__ import annotations

import posixpath
from collections.abc import Sequence
from dataclasses import dataclass

from omniweb.core.errors import InvalidInput, NotFound, OmniWebError, ProviderError, TooLarge
from sandboxes.providers.base import FileEntry, FileKind
from sandboxes.providers.limits import MAX_LISTED_FILES
from sandboxes.providers.paths import outside

MARK = "OMNIWEB_COMMAND"
NOTHING = ["sh", "-c", ":"]
# Followed by a path: keeps stdin there, for its user to read and nobody else.
KEEP_SECRET = ["sh", "-c", 'umask 077; cat > "$0" && chmod 400 "$0"']
# In place of a file: the command has the stdin that its shell was given.
INHERITED = "-"

# $1: working directory; the rest: the command. The codes are those a shell gives.
_RUN = """
cd -- "$1" 2>/dev/null || { printf 'Working directory %s does not exist\\n' "$1" >&2; exit 127; }
shift
exec "$@"
"""

# $1: a mark; $2: a file to be stdin, removed once it is open, "-" for the stdin there is, or
# nothing; $3: whether stdout has an end of its own; the rest: the command. Its end is told on stderr
# by the mark and the exit code, and, if asked, on stdout too. The shell's own words about a command
# that a signal ended are nobody's output.
_WATCHED = """
mark=$1 input=$2 both=$3
shift 3
case $input in
  -) ;;
  ?*) exec < "$input"; rm -f -- "$input" ;;
  *) exec < /dev/null ;;
esac
exec 3>&2 2> /dev/null
( exec "$@" ) 2>&3 3>&-
code=$?
[ ! "$both" ] || printf '%s %s\\n' "$mark" "$code"
printf '%s %s\\n' "$mark" "$code" >&3
exit "$code"
"""

# $1: a file to be stdin, removed once it is open, "-" for the stdin there is, or nothing; $2: a new folder for pipes; the rest:
# the command. Its output comes as lines of Base64 after a colon, and a dot at the end of each
# stream, for logs that keep text by lines. What it leaves running is not waited for, and does not
# end with the session that is removed after it.
_SPELT = """
input=$1 pipes=$2
shift 2
case $input in
  -) ;;
  ?*) exec < "$input"; rm -f -- "$input" ;;
  *) exec < /dev/null ;;
esac
mkdir -m 700 -- "$pipes" && mkfifo -- "$pipes/out" "$pipes/err" || exit 126
exec 3>&2 2> /dev/null
spell() {
  while line=$(dd bs=32768 count=1 | base64 | tr -d '\\n') && [ "$line" ]; do
    printf ':%s\\n' "$line"
  done
  echo .
}
spell < "$pipes/out" 3>&- & out=$!
spell < "$pipes/err" >&3 3>&- & err=$!
(
  exec 3>&-; rm -rf -- "$pipes"
  command -v setsid > /dev/null && exec setsid "$@"
  exec "$@"
) > "$pipes/out" 2> "$pipes/err"
code=$?
trap : USR1
( sleep 0.5; kill -USR1 $$ ) < /dev/null > /dev/null 3>&- & late=$!
wait "$out" && wait "$err"
kill "$late"
exit "$code"
"""

# $0: a mark; $1: whether to end orphans. Kills every process that carries the mark and all their
# descendants; and, if asked, what a command has cut loose with an empty environment: without any
# mark, and a child of the init process. The shell reads /proc by itself, so that it needs no new
# process where none may be left.
_KILL = f"""
marks() {{
  seen=
  while IFS= read -r text || [ "$text" ]; do
    case $text in *"{MARK}=$1"*) return 0;; *{MARK}=*) seen=1;; esac
  done
  [ ! "$seen" ] && [ "$2" = 1 ] && [ "$orphans" ]
}}
round=0 orphans=$1
while [ "$round" -lt 60 ]; do
  round=$((round + 1)) found=' ' more=1
  while [ "$more" ]; do
    more=
    for entry in /proc/[0-9]*; do
      pid=${{entry#/proc/}}
      case " 1 $$ $found" in *" $pid "*) continue;; esac
      {{ IFS= read -r stat < "$entry/stat"; }} 2>/dev/null || continue
      stat=${{stat##*) }} state=${{stat%% *}} stat=${{stat#* }} parent=${{stat%% *}}
      [ "$state" = Z ] && continue
      case $found in
        *" $parent "*) ;;
        *) {{ marks "$0" "$parent" < "$entry/environ"; }} 2>/dev/null || continue;;
      esac
      found="$found$pid " more=1
    done
  done
  [ "$found" = ' ' ] && exit 0
  kill -KILL $found 2>/dev/null
  [ "$round" -gt 3 ] && sleep 0.1
done
exit 1
"""

# Resolves $1 into $path and refuses what leads out of $0. Names may end in a line break, which
# a command substitution would cut, hence the x.
_RESOLVE = """
root=$(readlink -nf -- "$0" && printf x) || exit 41
within() {
  path=$(readlink -nf -- "$1" && printf x) || return 1
  path=${path%x}
  case $path/ in "${root%/}"/*) return 0;; *) exit 40;; esac
}
root=${root%x}
"""
_FILE = (
    _RESOLVE
    + """
within "$1" && [ -e "$path" ] || exit 41
[ -d "$path" ] && exit 42
[ -f "$path" ] || exit 43
[ -r "$path" ] || exit 45
[ "$(wc -c < "$path")" -le "$2" ] || exit 44
"""
)
_FIND = _FILE + """printf '%s' "$path" """
_READ = f'{_FILE}exec cat -- "$path"'
_WRITE = (
    _RESOLVE
    + """
[ "$1" != "$0" ] || exit 42
parent=${1%/*} there=${1%/*}
while [ "$there" ] && [ ! -e "$there" ] && [ ! -L "$there" ]; do there=${there%/*}; done
within "${there:-/}" || exit 40
mkdir -p -- "${parent:-/}" || exit 46
within "$1" || exit 40
[ ! -d "$path" ] || exit 42
[ ! -e "$path" ] || [ -f "$path" ] || exit 43
cat > "$path" || exit 46
[ "$(wc -c < "$path")" -eq "$2" ] || exit 46
"""
)
_LIST = (
    _RESOLVE
    + """
within "$1" && [ -e "$path" ] || exit 41
[ -d "$path" ] || exit 47
cd -- "$path" || exit 45
find . -mindepth 1 -maxdepth 1 -exec sh -c "$2" sh {} +
"""
)
# For the names it is given: how many, then mode and size of each, then the names. The second way
# is slow and is for systems whose stat fails, as some gVisor versions do on a tmpfs.
_DESCRIBE = """
slowly() {
  for name do
    if [ -L "$name" ]; then echo a1ff 0
    elif [ -d "$name" ]; then echo 41ed 0
    elif [ -f "$name" ]; then echo "81a4 $(wc -c < "$name" || echo 0)"
    else echo 0 0; fi
  done
}
lines=$(stat -c '%f %s' -- "$@") || lines=$(slowly "$@")
printf '%s\\n' "$#" "$lines"
printf '%s\\0' "$@"
"""
# Where a snapshot keeps the files of the working directory, which is mounted over in a sandbox.
KEPT = "/.omniweb-files"
# The tables are printed in passing: starting one more command would cost more than reading them.
_READY = f"""
cd -- "$0" && [ -w . ] && {{ [ ! -d {KEPT} ] || cp -a {KEPT}/. .; }} || exit
cat /proc/net/dev /proc/net/route /proc/net/ipv6_route 2>/dev/null || :
"""
_KEEP = 'exec tar -C "$0" -cf - .'


@dataclass(frozen=True)
class Files:
    """The commands that look after the files of one working directory."""

    working_dir: str

    def read(self, path: str, limit: int) -> list[str]:
        """Return the command that prints a file of at most `limit` bytes."""
        return _script(_READ, self.working_dir, path, str(limit))

    def find(self, path: str, limit: int) -> list[str]:
        """Return the command that prints where a file of at most `limit` bytes really is."""
        return _script(_FIND, self.working_dir, path, str(limit))

    def write(self, path: str, size: int) -> list[str]:
        """Return the command that takes `size` bytes on stdin into a file."""
        return _script(_WRITE, self.working_dir, path, str(size))

    def list(self, path: str) -> list[str]:
        """Return the command whose output `entries` reads."""
        return _script(_LIST, self.working_dir, path, _DESCRIBE)


def run(cwd: str, argv: tuple[str, ...]) -> list[str]:
    """Return a command in a shell that first goes to its directory, then becomes it."""
    return _script(_RUN, "sh", posixpath.normpath(cwd), *argv)


def watched(
    mark: str, argv: Sequence[str], stdin_file: str = "", *, both: bool = False
) -> list[str]:
    """Return a command that tells its end on stderr, or both streams, with a file as its stdin.

    Where streams come apart, one may be behind the other, so each needs an end.
    """
    return _script(_WATCHED, "sh", mark, stdin_file, "both" if both else "", *argv)


def spelt(argv: Sequence[str], pipes: str, stdin_file: str = "") -> list[str]:
    """Return a command whose output is spelt in Base64, through pipes in a folder that it makes."""
    return _script(_SPELT, "sh", stdin_file, pipes, *argv)


def kill(mark: str, *, orphans: bool = True) -> list[str]:
    """Return the command that kills what carries a mark; it fails if something is left.

    Orphans without any mark are not spared, unless the image may have some of its own.
    """
    return _script(_KILL, mark, "orphans" if orphans else "")


def ready(working_dir: str) -> list[str]:
    """Return the command that succeeds where commands can work in a directory.

    It prints the kernel's tables of network devices and routes, for `isolation.read_routes`. Where the image is a snapshot, the directory has the files of that time afterwards.
    """
    return _script(_READY, working_dir)


def keep(working_dir: str) -> list[str]:
    """Return the command that prints a directory as a tar archive."""
    return _script(_KEEP, working_dir)


def entries(directory: str, printed: bytes) -> list[FileEntry]:
    """Return what `Files.list` printed, by name; raises ValueError when files came and went."""
    found = []
    while printed:
        count, _, printed = printed.partition(b"\n")
        *lines, printed = printed.split(b"\n", int(count))
        *names, printed = printed.split(b"\0", int(count))
        for line, name in zip(lines, names, strict=True):
            mode, _, size = line.decode().partition(" ")
            path = f"{directory.rstrip('/')}/{name.decode(errors='surrogateescape').removeprefix('./')}"
            found.append(FileEntry(path=path, kind=_kind(int(mode, 16)), size=int(size)))
    return sorted(found, key=lambda entry: entry.path)[:MAX_LISTED_FILES]


def failure(code: int, path: str, stderr: str) -> OmniWebError:
    """Return what a file command's exit code means."""
    known: dict[int, OmniWebError] = {
        40: outside(path),
        41: NotFound(f"{path} does not exist"),
        42: InvalidInput(f"{path} is a directory"),
        43: InvalidInput(f"{path} is not a file"),
        44: TooLarge(f"{path} is larger than can be read"),
        45: InvalidInput(f"{path} may not be opened by the user commands run as"),
        47: InvalidInput(f"{path} is not a directory"),
    }
    if code in known:
        return known[code]
    if "No space left" in stderr:
        return TooLarge(f"{path} does not fit: the sandbox has no room left")
    return ProviderError(f"{path}: {stderr.strip() or f'the sandbox answered {code}'}")


def _script(text: str, *arguments: str) -> list[str]:
    return ["sh", "-c", text.strip(), *arguments]


def _kind(mode: int) -> FileKind:
    kinds: dict[int, FileKind] = {0o100000: "file", 0o040000: "directory", 0o120000: "link"}
    return kinds.get(mode & 0o170000, "other")
