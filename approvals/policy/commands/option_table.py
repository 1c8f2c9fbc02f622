"""The table of known programs whose options run, load or write something."""

from __future__ import annotations

from approvals.policy.commands.line import Kind
from approvals.policy.commands.options import (
    FROM_INPUT,
    Options,
    as_words,
    code,
    flags,
    interpreter,
    loads,
    runs,
    writes,
)

_IN_PLACE = "changes files in place"
_ANY = "can start any program from inside"
_DELETES = "deletes what it finds"
_EDITOR = Options(
    code("-c", "--cmd", "-S", "-s", "-u", "-U", "-i", "-w", "-W", "--listen", "--startuptime", "+")
    | flags(_ANY, "-e", "-E"),
    always=_ANY,
)

# `valued` holds only letters that take the next word in every version of a program: where one of
# them has it as a flag, or takes a value only in the same word, another option could hide behind it.
OPTIONS: dict[str, Options] = {
    "sort": Options(runs("--compress-program") | writes("-o", "--output"), "kStT"),
    "shuf": Options(writes("-o", "--output"), "in"),
    "rg": Options(runs("--pre", "--hostname-bin"), "ABCEMTefgjmrt"),
    "ag": Options(runs("--pager")),
    "ack": Options(runs("--pager")),
    "bat": Options(runs("--pager")),
    "man": Options(runs("-P", "--pager", "-H", "--html") | loads("-C", "--config-file"), "LMRSemprsE", joined="T"),
    "zip": Options(runs("-TT", "--unzip-command"), "bnitx"),
    "less": Options(writes("-o", "-O", "--log-file", "--LOG-FILE") | loads("-k", "--lesskey-file", "--lesskey-src", "+"), "bhjpPtTxyz"),
    "more": Options(loads("+"), "n"),
    "rsync": Options(runs("-e", "--rsh", "--rsync-path") | writes("--log-file", "--write-batch", "--only-write-batch") | code("-M", "--remote-option"), "fBT@"),
    "scp": Options(runs("-S") | code("-o", "-D") | loads("-F"), "cilPJX"),
    "sftp": Options(runs("-S") | code("-o", "-D", "-s") | loads("-F", "-b"), "BcilPRJX"),
    "ssh": Options(code("-o") | loads("-F", "-I") | writes("-E"), "BbcDeiJLlmOpQRSWw"),
    "curl": Options(
        writes("-o", "--output", "-D", "--dump-header", "-c", "--cookie-jar", "--trace", "--trace-ascii", "--stderr",
               "--libcurl", "--hsts", "--alt-svc", "--etag-save", "--output-dir")
        | flags("writes a file named by the server or the address", "-O", "-J", "--remote-name", "--remote-name-all",
                "--remote-header-name", kind=Kind.WRITE)
        | loads("-K", "--config", "--engine"),
        "AbCdeEFhHmPQrtTuUwxXYyz",
        whole=frozenset({"--cookie", "--trace-time"}),
    ),
    "wget": Options(
        writes("-O", "--output-document", "-o", "--output-file", "-a", "--append-output", "-P", "--directory-prefix",
               "--save-cookies", "--warc-file", "--rejected-log")
        | runs("--use-askpass") | code("-e", "--execute") | loads("--config"),
        "ABDiIlQRtTUwX",
    ),
    "split": Options(runs("--filter"), "abClnt"),
    "tee": Options({}),
    "tar": Options(
        runs("--to-command", "-I", "--use-compress-program", "-F", "--info-script", "--new-volume-script", "--rsh-command", "--rmt-command")
        | code("--checkpoint-action") | writes("--index-file") | loads("-T", "--files-from"),
        "bCfgKLNVXH",
        whole=frozenset({"--checkpoint"}),
    ),
    "cpio": Options(runs("--rsh-command") | writes("-O"), "CEFHIMR"),
    "diff": Options(flags("starts the program pr", "-l", "--paginate"), "CDFILSUWXx"),
    "time": Options(writes("-o", "--output"), "f", first=True),
    "sdiff": Options(writes("-o", "--output") | runs("--diff-program"), "Iw"),
    "diff3": Options(runs("--diff-program"), "L"),
    "patch": Options(writes("-o", "--output", "-r", "--reject-file") | flags("can run an ed script", "-e", "--ed"), "BdDFgipVYz"),
    "install": Options(runs("--strip-program"), "gmotS"),
    "date": Options(flags("sets the clock", "-s", "--set", kind=Kind.WRITE), "dfr", joined="I"),
    "tree": Options(writes("-o"), "LPIHT"),
    "file": Options(flags("writes a compiled file", "-C", "--compile", kind=Kind.WRITE) | loads("-m", "--magic-file") | flags("starts decompressing programs", "-z", "-Z"), "efFP"),
    "yq": Options(flags(_IN_PLACE, "-i", "--inplace", "--in-place", kind=Kind.WRITE) | loads("--from-file") | writes("-s", "--split-exp")),
    "openssl": as_words(Options(writes("-out", "-keyout", "-writerand") | loads("-config", "-engine", "-provider", "-provider-path"))),
    "gpg": Options(writes("-o", "--output", "--log-file", "--status-file") | runs("--photo-viewer", "--agent-program", "--dirmngr-program") | loads("--options", "--homedir"), "ruN"),
    "pandoc": Options(runs("--filter", "-F", "--pdf-engine") | loads("--lua-filter", "-L", "--defaults", "-d") | writes("-o", "--output"), "ftVM"),
    "tcpdump": Options(runs("-z") | writes("-w"), "BcCEFGijmMrsTVWy"),
    "nmap": Options(code("--script") | writes("-oN", "-oX", "-oG", "-oA", "-oS") | loads("--datadir")),
    "strace": Options(writes("-o", "--output")),
    "ltrace": Options(writes("-o", "--output") | loads("-F", "--config")),
    "nc": Options(runs("-e", "-c", "--exec", "--sh-exec", "--lua-exec") | writes("-o", "--output"), "gGimpqsVwXI"),
    "ncat": Options(runs("-e", "-c", "--exec", "--sh-exec", "--lua-exec") | writes("-o", "--output"), "gGimpqswxd"),
    "uniq": Options({}, "fsw"),
    "xxd": Options({}, "cglos"),
    "ctags": Options(writes("-f", "-o") | loads("--options"), "L"),
    "make": Options(code("--eval", "--assume-new") | loads("-f", "--file", "--makefile", "-I", "--include-dir"), "CoW"),
    "cmake": Options(loads("-P", "-C"), "BDGSTU"),
    "go": as_words(Options(runs("-toolexec", "-exec", "-vettool", "--toolexec", "--exec") | loads("-overlay", "-modfile") | writes("-o"))),
    "cargo": Options(code("--config") | loads("--manifest-path"), "jpFZ"),
    "gcc": as_words(Options(runs("-wrapper") | loads("-specs", "--specs", "-fplugin", "-B"))),
    "docker": Options(loads("-H", "--host", "--config", "-c", "--context")),
    "npm": Options(runs("--script-shell", "--editor", "--viewer", "--shell")),
    "crontab": Options({}, "u", always="changes what runs at set times"),
    "at": Options(loads("-f"), "qt", always=FROM_INPUT),
    "ed": Options({}, "p", always=_ANY),
    "bc": Options({}),
    "dc": interpreter(code("-e", "--expression") | loads("-f", "--file")),
    "m4": interpreter(loads("-I", "-R") | code("-D")),
    "gnuplot": interpreter(code("-e")),
    "sqlite3": Options(code("-cmd") | loads("-init"), words=True),
    "psql": Options(code("-c", "--command", "-v", "--set") | loads("-f", "--file") | writes("-o", "--output", "-L", "--log-file"), "dhpUFPRT", always=FROM_INPUT),
    "mysql": Options(code("-e", "--execute", "--init-command") | runs("--pager") | writes("--tee"), "DhPSu", always=FROM_INPUT),
    "gdb": Options(code("-ex", "-iex", "--eval-command", "--init-eval-command", "-eval-command") | loads("-x", "-ix", "--command"), words=True, always=_ANY),
    "expect": interpreter(code("-c") | loads("-f")),
    "screen": Options({}, always=_ANY),
    "tmux": Options({}, always=_ANY),
    "fd": Options(runs("-x", "--exec", "-X", "--exec-batch"), "deEtSjc"),
    "find": Options(
        flags("starts a program for what it finds", "-exec", "-execdir", "-ok", "-okdir")
        | flags(_DELETES, "-delete", kind=Kind.WRITE)
        | writes("-fprint", "-fprint0", "-fprintf", "-fls"),
        words=True,
    ),
    "xargs": Options({}),
    "python": interpreter(code("-c"), "mWXQ", named="m"),
    "node": interpreter(code("-e", "--eval", "-p", "--print", "-pe") | loads("-r", "--require", "--import", "--loader", "--experimental-loader", "--env-file"), "C"),
    "deno": Options({}),
    "bun": Options(code("-e", "--eval", "-p", "--print") | loads("-r", "--preload")),
    "perl": interpreter(code("-e", "-E", "-M", "-m", "-d") | loads("-I") | flags(_IN_PLACE, "-i", kind=Kind.WRITE)),
    "ruby": interpreter(code("-e") | loads("-r", "-I", "-S") | flags(_IN_PLACE, "-i", kind=Kind.WRITE), "CE"),
    "php": interpreter(code("-r", "-R", "-B", "-E", "-d", "-a") | loads("-c", "-z", "-F"), "ftS"),
    "lua": interpreter(code("-e") | loads("-l")),
    "Rscript": interpreter(code("-e")),
    "R": interpreter(code("-e") | loads("-f", "--file")),
    "julia": interpreter(code("-e", "-E", "--eval", "--print") | loads("-L", "--load", "-J"), "Cp"),
    "osascript": interpreter(code("-e"), "ls"),
    "pwsh": Options(code("-c", "-Command", "-command", "-e", "-EncodedCommand", "-ec", "-enc"), words=True, input=FROM_INPUT),
    "tclsh": interpreter({}),
    "octave": interpreter(code("--eval")),
    "groovy": interpreter(code("-e")),
    "elixir": interpreter(code("-e", "--eval", "--rpc-eval")),
    "erl": Options(code("-eval", "-run", "-s"), words=True, input=FROM_INPUT),
    "vim": _EDITOR,
    "emacs": Options(code("--eval", "--execute", "-f", "--funcall", "-eval", "-execute") | loads("-l", "--load", "--script"), always=_ANY),
    "awk": Options(code("-W", "-e", "--source", "-i", "--include", "-l", "--load") | loads("-f", "--file", "-E", "--exec") | writes("-o", "-p", "-d", "--pretty-print", "--profile", "--dump-variables"), "vF", first=True),
    "sed": Options(loads("-f", "--file") | flags(_IN_PLACE, "-i", "--in-place", kind=Kind.WRITE), "e"),
}  # fmt: skip

# Other names of the same programs.
ALIASES = {
    "gsort": "sort", "gtar": "tar", "bsdtar": "tar", "gfind": "find", "bfs": "find", "nodejs": "node",
    "gawk": "awk", "mawk": "awk", "nawk": "awk", "original-awk": "awk", "gsed": "sed", "pypy": "python",
    "ipython": "python", "pythonw": "python", "vi": "vim", "nvim": "vim", "view": "vim", "ex": "vim",
    "vimdiff": "vim", "rvim": "vim", "gvim": "vim", "nano": "vim", "pico": "vim", "red": "ed",
    "netcat": "nc", "fdfind": "fd", "batcat": "bat", "gmake": "make", "luajit": "lua", "jruby": "ruby",
    "g++": "gcc", "cc": "gcc", "c++": "gcc", "clang": "gcc", "clang++": "gcc", "powershell": "pwsh",
    "mariadb": "mysql", "gpg2": "gpg", "podman": "docker", "emacsclient": "emacs", "wish": "tclsh",
    "batch": "at", "pnpm": "npm", "yarn": "npm", "egrep": "grep", "fgrep": "grep",
}  # fmt: skip
