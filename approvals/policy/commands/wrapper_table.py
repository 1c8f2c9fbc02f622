"""The table of programs that run another program, and of their own options before it."""

from __future__ import annotations

from approvals.policy.commands.wrapper import Wrapper, long_options

_TIME = Wrapper(
    "fo",
    long_options("format", "output"),
    flags="apqv",
    flags_long=long_options("append", "portability", "quiet", "verbose"),
)

WRAPPERS: dict[str, Wrapper] = {
    "env": Wrapper(
        "uCSa",
        long_options("unset", "chdir", "split-string", "argv0"),
        assignments=True,
        flags="i0v",
        flags_long=long_options(
            "ignore-environment", "null", "debug", "block-signal", "default-signal",
            "ignore-signal", "list-signal-handling",
        ),
    ),
    "sudo": Wrapper(
        "aCcDghpRrTtUu",
        long_options(
            "user", "group", "host", "prompt", "chdir", "chroot", "role", "type", "close-from",
            "other-user", "command-timeout", "auth-type", "login-class",
        ),
        assignments=True,
        flags="AbBEeHiKklNnPSsVv",
        flags_long=long_options(
            "askpass", "background", "bell", "preserve-env", "edit", "set-home", "login",
            "remove-timestamp", "reset-timestamp", "list", "no-update", "non-interactive",
            "preserve-groups", "stdin", "shell", "version", "validate",
        ),
    ),
    "doas": Wrapper("aCu", flags="Lns"),
    "nice": Wrapper("n", long_options("adjustment"), flags="0123456789"),
    "ionice": Wrapper(
        "cnpPu", long_options("class", "classdata", "pid", "pgid", "uid"), flags="t",
        flags_long=long_options("ignore"),
    ),
    "chrt": Wrapper(
        "TPD", long_options("sched-runtime", "sched-period", "sched-deadline"), operands=1,
        flags="abdfimoprRv",
        flags_long=long_options(
            "all-tasks", "batch", "deadline", "fifo", "idle", "max", "other", "pid", "rr",
            "reset-on-fork", "verbose",
        ),
    ),
    "taskset": Wrapper(operands=1, flags="apc", flags_long=long_options("all-tasks", "pid", "cpu-list")),
    "nohup": Wrapper(),
    "setsid": Wrapper(flags="cfw", flags_long=long_options("ctty", "fork", "wait")),
    "timeout": Wrapper(
        "ks", long_options("kill-after", "signal"), operands=1, flags="fpv",
        flags_long=long_options("foreground", "preserve-status", "verbose"),
    ),
    "stdbuf": Wrapper("ioe", long_options("input", "output", "error")),
    "unbuffer": Wrapper(flags="p"),
    "time": _TIME,
    "xargs": Wrapper(
        "adEILnPs",
        long_options("arg-file", "delimiter", "max-args", "max-procs", "max-chars", "process-slot-var"),
        flags="0rtxpoeil",
        flags_long=long_options(
            "null", "no-run-if-empty", "verbose", "exit", "interactive", "open-tty", "show-limits",
            "eof", "replace", "max-lines",
        ),
    ),
    "parallel": Wrapper(
        "jPaSnNLIdCM",
        long_options(
            "jobs", "arg-file", "sshlogin", "max-args", "max-replace-args", "delimiter", "colsep",
            "joblog", "delay", "halt", "timeout", "retries", "tmpdir", "results", "workdir", "load",
            "memfree", "nice", "env", "tagstring", "sshloginfile", "basefile", "block", "recstart",
            "recend", "rpl", "shuf-seed",
        ),
        flags="kqvXmtpu0rx",
        flags_long=long_options(
            "keep-order", "quote", "verbose", "xargs", "dry-run", "bar", "eta", "progress", "tag",
            "will-cite", "line-buffer", "ungroup", "group", "null", "no-run-if-empty", "resume",
            "resume-failed", "shuf", "pipe", "pipepart", "link", "plus", "silent",
        ),
    ),
    "chroot": Wrapper(
        "", long_options("userspec", "groups"), operands=1, flags_long=long_options("skip-chdir")
    ),
    "unshare": Wrapper(
        "RwSG",
        long_options(
            "root", "wd", "setuid", "setgid", "map-user", "map-group", "map-users", "map-groups",
            "propagation", "setgroups", "monotonic", "boottime",
        ),
        flags="mnpuiUCTrfc",
        flags_long=long_options(
            "mount", "net", "pid", "uts", "ipc", "user", "cgroup", "time", "fork", "kill-child",
            "map-root-user", "map-current-user", "map-auto", "keep-caps", "mount-proc",
        ),
    ),
    "nsenter": Wrapper(
        "tSG",
        long_options("target", "setuid", "setgid"),
        flags="amuinpCUTrwFZe",
        flags_long=long_options(
            "all", "mount", "uts", "ipc", "net", "pid", "cgroup", "user", "time", "root", "wd",
            "no-fork", "follow-context", "preserve-credentials", "env", "keep-caps",
        ),
    ),
    "setpriv": Wrapper(
        "",
        long_options(
            "reuid", "regid", "ruid", "euid", "rgid", "egid", "groups", "inh-caps", "ambient-caps",
            "bounding-set", "securebits", "selinux-label", "apparmor-profile", "pdeathsig",
        ),
        flags_long=long_options("clear-groups", "keep-groups", "init-groups", "no-new-privs", "nnp", "reset-env"),
    ),
    "setarch": Wrapper(operands=1, flags="RvFZLXBITS3"),
    "flock": Wrapper(
        "wE", long_options("timeout", "wait", "conflict-exit-code"), operands=1, flags="sxneuoFv",
        flags_long=long_options(
            "shared", "exclusive", "unlock", "nonblock", "nb", "close", "no-fork", "verbose"
        ),
    ),
    "strace": Wrapper("abeEIoOpPsSuUX", flags="fFcCdDhiknqrtTvVxyYzZwA"),
    "ltrace": Wrapper("aADeFlnopsuwx", flags="bcCfiLrStTV"),
    "watch": Wrapper(
        "nq", long_options("interval", "equexit"), flags="bcCdegprtwx",
        flags_long=long_options(
            "beep", "color", "no-color", "differences", "errexit", "chgexit", "precise", "no-rerun",
            "no-title", "no-wrap", "exec",
        ),
    ),
    "busybox": Wrapper(),
    "toybox": Wrapper(),
    "command": Wrapper(flags="pvV"),
    "builtin": Wrapper(),
    "exec": Wrapper("a", flags="cl"),
    "coproc": Wrapper(),
    "fakeroot": Wrapper("lsbi", flags="u"),
    "systemd-run": Wrapper(
        "pMuHE",
        long_options(
            "unit", "property", "setenv", "uid", "gid", "slice", "host", "machine", "description",
            "working-directory", "nice", "service-type", "on-active", "on-boot", "on-startup",
            "on-unit-active", "on-unit-inactive", "on-calendar", "timer-property", "path-property",
            "socket-property",
        ),
        flags="dGPqrtS",
        flags_long=long_options(
            "scope", "user", "system", "wait", "pty", "pipe", "collect", "quiet", "same-dir", "shell",
            "remain-after-exit", "no-block", "no-ask-password", "slice-inherit", "send-sighup",
        ),
    ),
    "numactl": Wrapper(
        "NCmpi",
        long_options("cpunodebind", "physcpubind", "membind", "preferred", "interleave"),
        flags="abl",
        flags_long=long_options("localalloc", "all", "balancing"),
    ),
    "cpulimit": Wrapper("lpe", long_options("limit", "pid", "exe"), flags="imrvz"),
    "firejail": Wrapper(joined=True),
    "xvfb-run": Wrapper(
        "nsefpw",
        long_options("server-num", "server-args", "error-file", "auth-file", "xauth-protocol", "wait"),
        flags="al",
        flags_long=long_options("auto-servernum", "listen-tcp"),
    ),
    "rlwrap": Wrapper("bCDefFgHlMOPqsStVwz", flags="achiImnNopaRrTvWX"),
    "torsocks": Wrapper("aPpu", flags="diq", flags_long=long_options("isolate", "quiet", "shell")),
    "proxychains": Wrapper("f", flags="q"),
    "proxychains4": Wrapper("f", flags="q"),
    "ssh-agent": Wrapper("aEtPO", flags="cDds"),
    "dbus-run-session": Wrapper("", long_options("config-file", "dbus-daemon")),
    "valgrind": Wrapper(flags="vqd", joined=True),
    "gtime": _TIME,
    "caffeinate": Wrapper("tw", flags="dimsu"),
    "runcon": Wrapper("tulr", long_options("type", "user", "role", "range"), flags="c", flags_long=long_options("compute")),
    "npx": Wrapper(
        "pc", long_options("package", "call", "cache", "userconfig", "shell", "node-arg", "workspace"),
        flags="nqy",
        flags_long=long_options("yes", "no", "quiet", "no-install", "ignore-existing", "workspaces"),
    ),
    "bunx": Wrapper("p", long_options("package"), flags_long=long_options("bun", "silent", "verbose")),
    "uvx": Wrapper(
        "pwc",
        long_options(
            "from", "with", "python", "with-editable", "with-requirements", "index", "index-url",
            "extra-index-url", "default-index", "constraints", "env-file",
        ),
        flags="nqUv",
        flags_long=long_options("isolated", "refresh", "upgrade", "offline", "no-cache", "quiet", "verbose"),
    ),
    "pipx": Wrapper(operands=1),
    "catchsegv": Wrapper(),
    "entr": Wrapper(flags="acdnprsz"),
    "dotenv": Wrapper("f", flags="q"),
}  # fmt: skip

# Programs that start another one behind a subcommand of their own.
SUBCOMMANDS = {
    ("ip", "netns"): Wrapper(operands=2),
    ("uv", "run"): Wrapper(
        "pP",
        long_options(
            "python",
            "with",
            "with-editable",
            "with-requirements",
            "extra",
            "group",
            "project",
            "directory",
            "env-file",
            "index",
            "index-url",
            "package",
            "no-extra",
            "no-group",
            "only-group",
            "cache-dir",
            "config-file",
        ),
        flags="mnqsv",
        flags_long=long_options(
            "frozen",
            "locked",
            "no-sync",
            "isolated",
            "no-project",
            "all-extras",
            "no-dev",
            "dev",
            "exact",
            "active",
            "offline",
            "no-cache",
            "quiet",
            "verbose",
            "only-dev",
            "all-groups",
            "no-default-groups",
            "no-env-file",
            "module",
            "script",
        ),
    ),
    ("poetry", "run"): Wrapper(),
    ("pipenv", "run"): Wrapper(),
    ("pdm", "run"): Wrapper(),
    ("rye", "run"): Wrapper(),
    ("hatch", "run"): Wrapper(),
    ("conda", "run"): Wrapper(
        "np",
        long_options("name", "prefix", "cwd"),
        flags="v",
        flags_long=long_options("no-capture-output", "live-stream", "debug-wrapper-scripts"),
    ),
    ("bundle", "exec"): Wrapper(),
    ("npm", "exec"): Wrapper(
        "pcw",
        long_options("package", "call", "workspace"),
        flags="y",
        flags_long=long_options("yes", "no", "workspaces"),
    ),
    ("pnpm", "exec"): Wrapper(),
    ("yarn", "exec"): Wrapper(),
    ("direnv", "exec"): Wrapper(operands=1),
    ("perf", "stat"): Wrapper("eo"),
    ("perf", "record"): Wrapper("eo"),
    ("rustup", "run"): Wrapper(operands=1),
    ("cargo", "watch"): Wrapper(),
}

# Programs whose command stands behind words of their own, by the name of those that have any.
STARTS_OTHERS = frozenset(program for program, _ in SUBCOMMANDS)
