"""Checks of files: written, read, listed, and kept inside the working directory."""

from __future__ import annotations

from omniweb.core.errors import InvalidInput, NotFound, ProviderError, TooLarge
from sandboxes.capabilities import Ability
from sandboxes.providers.conformance.bench import Bench
from sandboxes.providers.conformance.check import Topic, raises, same
from sandboxes.providers.limits import MIB

FILES = Topic("Files")
LISTING = Topic("Listing files")
WALLS = Topic("Paths and links")

ODD_NAMES = (
    "a b",
    "ü-名😀",
    "-rf",
    "new\nline",
    "end\n",
    "quote'\"",
    "$(id)",
    "`id`",
    "*",
    "\\n",
    "a;b|c&d",
    "#?%20+",
    "~",
    "...",
)


@FILES.check("A file comes back byte for byte")
def file_comes_back(bench: Bench) -> None:
    data, name = bytes(range(256)) * 400, bench.name("bytes")
    bench.live.write_file(name, data)
    same("file", bench.live.read_file(name), data)


@FILES.check("The directories a file is in are made")
def directories_are_made(bench: Bench) -> None:
    name = f"{bench.name('deep')}/er/and/deeper/file"
    bench.live.write_file(name, b"found")
    same("stdout", bench.run("cat", name).text, "found")


@FILES.check("An empty file is a file")
def empty_file_is_a_file(bench: Bench) -> None:
    name = bench.name("empty")
    bench.live.write_file(name, b"")
    same("file", bench.live.read_file(name), b"")
    same("exit code of test -f", bench.run("test", "-f", name).code, 0)


@FILES.check("A file of 16 MB fits through, both ways")
def big_file_fits(bench: Bench) -> None:
    data, name = b"0123456789abcdef" * MIB, bench.name("big")
    bench.live.write_file(name, data)
    same("size inside", bench.sh(f"wc -c < {name}").text.strip(), str(len(data)))
    same("file", bench.live.read_file(name) == data, True)
    bench.run("rm", name)


@FILES.check("Writing again replaces all of a file")
def writing_replaces(bench: Bench) -> None:
    name = bench.name("again")
    bench.live.write_file(name, b"long and longer")
    bench.live.write_file(name, b"short")
    same("file", bench.live.read_file(name), b"short")


@FILES.check("A file that is replaced keeps its mode")
def mode_is_kept(bench: Bench) -> None:
    name = bench.name("script")
    bench.live.write_file(name, b"#!/bin/sh\necho one\n")
    same("exit code of chmod", bench.run("chmod", "755", name).code, 0)
    bench.live.write_file(name, b"#!/bin/sh\necho two\n")
    same("stdout", bench.run(f"./{name}").text, "two")


@FILES.check("A file that a command has made can be read and replaced")
def commands_files_are_ours(bench: Bench) -> None:
    name = bench.name("theirs")
    bench.sh(f"printf theirs > {name}")
    same("file", bench.live.read_file(name), b"theirs")
    bench.live.write_file(name, b"ours")
    same("stdout", bench.run("cat", name).text, "ours")


@FILES.check("A file that was written can be changed by commands")
def our_files_are_the_commands(bench: Bench) -> None:
    name = bench.name("ours")
    bench.live.write_file(f"{name}/file", b"one")
    ran = bench.sh(f"printf ' two' >> {name}/file && mv {name}/file {name}/moved")
    same("exit code", ran.code, 0)
    same("file", bench.live.read_file(f"{name}/moved"), b"one two")


@FILES.check("Odd names are names")
def odd_names_are_names(bench: Bench) -> None:
    folder = bench.name("odd")
    for name in ODD_NAMES:
        bench.live.write_file(f"{folder}/{name}", name.encode())
        same(f"file {name!r}", bench.live.read_file(f"{folder}/{name}"), name.encode())
    ran = bench.sh('for name in * .[!.]* ...; do [ -f "$name" ] && echo; done | wc -l', cwd=folder)
    same("files inside, seen by name", int(ran.text) >= len(ODD_NAMES), True)


@FILES.check("A name of 255 bytes is a name")
def long_name_is_a_name(bench: Bench) -> None:
    folder, name = bench.name("long"), "x" * 255
    bench.live.write_file(f"{folder}/{name}", b"found")
    same("file", bench.live.read_file(f"{folder}/{name}"), b"found")


@FILES.check("A relative path and a full one lead to the same file")
def full_paths_work(bench: Bench) -> None:
    name = bench.name("full")
    full = f"{bench.manifest.working_dir.rstrip('/')}/{name}"
    bench.live.write_file(full, b"found")
    same("file", bench.live.read_file(f"./x/../{name}"), b"found")


@FILES.check("A file over the limit is not read, one at the limit is")
def read_limit_holds(bench: Bench) -> None:
    name = bench.name("over")
    bench.live.write_file(name, b"123456")
    raises(
        "reading 6 bytes with a limit of 5", TooLarge, lambda: bench.live.read_file(name, limit=5)
    )
    same("file", bench.live.read_file(name, limit=6), b"123456")


@FILES.check("A missing file is told as missing")
def missing_file_is_missing(bench: Bench) -> None:
    raises("reading it", NotFound, lambda: bench.live.read_file(bench.name("missing")))


@FILES.check("A directory is not read as a file, and not replaced by one")
def directory_is_no_file(bench: Bench) -> None:
    folder = bench.name("folder")
    bench.live.write_file(f"{folder}/file", b"")
    raises("reading it", InvalidInput, lambda: bench.live.read_file(folder))
    raises("writing it", InvalidInput, lambda: bench.live.write_file(folder, b""))


@FILES.check("A pipe is not read as a file, and waits for nobody", tools=("mkfifo",))
def pipe_is_no_file(bench: Bench) -> None:
    name = bench.name("pipe")
    bench.run("mkfifo", name)
    raises("reading it", InvalidInput, lambda: bench.live.read_file(name))


@LISTING.check(
    "A listing tells files, directories, links and others apart", Ability.FILES, tools=("mkfifo",)
)
def listing_tells_kinds(bench: Bench) -> None:
    folder = bench.name("kinds")
    bench.live.write_file(f"{folder}/file", b"12345")
    bench.live.write_file(f"{folder}/.hidden/x", b"")
    bench.sh("ln -s file link; mkfifo pipe", cwd=folder)
    found = {entry.path.rpartition("/")[2]: entry for entry in bench.live.list_files(folder)}
    kinds = {".hidden": "directory", "file": "file", "link": "link", "pipe": "other"}
    same("kinds", {name: entry.kind for name, entry in found.items()}, kinds)
    same("size of the file", found["file"].size, 5)


@LISTING.check("It is sorted by name, with full paths", Ability.FILES)
def listing_is_sorted(bench: Bench) -> None:
    folder = bench.name("sorted")
    for name in ("b", "a", "B", "_", "10", "9"):
        bench.live.write_file(f"{folder}/{name}", b"")
    paths = [entry.path for entry in bench.live.list_files(folder)]
    root = f"{bench.manifest.working_dir.rstrip('/')}/{folder}"
    same("paths", paths, [f"{root}/{name}" for name in ("10", "9", "B", "_", "a", "b")])


@LISTING.check("It has odd names as they are", Ability.FILES)
def listing_has_odd_names(bench: Bench) -> None:
    folder = bench.name("oddly")
    for name in ODD_NAMES:
        bench.live.write_file(f"{folder}/{name}", b"")
    found = [entry.path.rpartition(f"{folder}/")[2] for entry in bench.live.list_files(folder)]
    same("names", sorted(found), sorted(ODD_NAMES))


@LISTING.check("Hundreds of files are listed", Ability.FILES)
def listing_can_be_long(bench: Bench) -> None:
    folder = bench.name("many")
    bench.live.write_file(f"{folder}/0", b"")
    bench.sh("i=1; while [ $i -lt 300 ]; do : > $i; i=$((i+1)); done", cwd=folder)
    same("count", len(bench.live.list_files(folder)), 300)


@LISTING.check("The working directory itself can be listed", Ability.FILES)
def working_directory_is_listed(bench: Bench) -> None:
    name = bench.name("top")
    bench.live.write_file(name, b"")
    for path in ("", ".", bench.manifest.working_dir):
        names = [entry.path.rpartition("/")[2] for entry in bench.live.list_files(path)]
        same(f"{name} in a listing of {path!r}", name in names, True)


@LISTING.check("An empty directory lists nothing", Ability.FILES)
def empty_directory_is_empty(bench: Bench) -> None:
    folder = bench.name("bare")
    bench.run("mkdir", folder)
    same("entries", bench.live.list_files(folder), [])


@LISTING.check("What is missing or no directory is not listed", Ability.FILES)
def only_directories_are_listed(bench: Bench) -> None:
    name = bench.name("file")
    bench.live.write_file(name, b"")
    raises("listing what is missing", NotFound, lambda: bench.live.list_files(f"{name}-missing"))
    raises("listing a file", InvalidInput, lambda: bench.live.list_files(name))


@WALLS.check("A path that leads out of the working directory is refused")
def outside_is_refused(bench: Bench) -> None:
    for path in ("../x", "/etc/hosts", "a/../../x", "/", ".."):
        raises(f"reading {path}", InvalidInput, lambda path=path: bench.live.read_file(path))  # type: ignore[misc] # a default
        raises(f"writing {path}", InvalidInput, lambda path=path: bench.live.write_file(path, b""))  # type: ignore[misc] # a default


@WALLS.check("A listing does not lead out either", Ability.FILES)
def outside_is_not_listed(bench: Bench) -> None:
    folder = bench.name("out")
    bench.run("mkdir", folder)
    bench.sh("ln -s /tmp dir", cwd=folder)
    for path in ("..", "/etc", f"{folder}/dir"):
        raises(f"listing {path}", InvalidInput, lambda path=path: bench.live.list_files(path))  # type: ignore[misc] # a default


@WALLS.check("A link that leads out is not read through")
def links_out_are_not_read(bench: Bench) -> None:
    folder = bench.name("outward")
    bench.live.write_file(f"{folder}/x", b"")
    bench.sh("ln -s /etc/hosts file; ln -s /etc dir", cwd=folder)
    for path in ("file", "dir/hosts"):
        raises(
            f"reading {path}",
            InvalidInput,
            lambda path=path: bench.live.read_file(f"{folder}/{path}"),  # type: ignore[misc] # a default
        )


@WALLS.check("A link that leads out is not written through, not even a dangling one")
def links_out_are_not_written(bench: Bench) -> None:
    folder = bench.name("through")
    bench.live.write_file(f"{folder}/x", b"")
    target = f"/tmp/{folder}"  # noqa: S108 -- where nothing may appear
    bench.sh(f"ln -s /tmp dir; ln -s {target} dangling", cwd=folder)
    for path in (f"dir/{folder}", "dangling"):
        raises(
            f"writing {path}",
            InvalidInput,
            lambda path=path: bench.live.write_file(f"{folder}/{path}", b"escaped"),  # type: ignore[misc] # a default
        )
    same("exit code of test -e outside", bench.run("test", "-e", target).code, 1)


@WALLS.check("A link inside the working directory is followed")
def links_inside_are_followed(bench: Bench) -> None:
    folder = bench.name("inward")
    bench.live.write_file(f"{folder}/real/file", b"found")
    bench.sh("ln -s real dir; ln -s real/file file", cwd=folder)
    same("through a linked directory", bench.live.read_file(f"{folder}/dir/file"), b"found")
    bench.live.write_file(f"{folder}/file", b"changed")
    same("the file itself", bench.live.read_file(f"{folder}/real/file"), b"changed")


@WALLS.check("Links that lead in a circle end in a refusal")
def circles_end(bench: Bench) -> None:
    folder = bench.name("circle")
    bench.live.write_file(f"{folder}/x", b"")
    bench.sh("ln -s b a; ln -s a b", cwd=folder)
    refusals = (InvalidInput, NotFound, ProviderError)
    raises("reading one", refusals, lambda: bench.live.read_file(f"{folder}/a"))
