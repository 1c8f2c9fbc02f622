"""Variables that change what a program or the shell runs, besides what a line names."""

from __future__ import annotations

import re

# Set to text that is run, to a program that is started, or to where programs are looked for.
_DANGEROUS = re.compile(
    r"""PATH|IFS|ENV|SHELL|SHELLFLAGS|SHELLOPTS|BASHOPTS|BASH_\w*|PS[0-4]|PROMPT_COMMAND|CDPATH|FPATH|ZDOTDIR
    |FCEDIT|EDITOR|VISUAL|\w*PAGER|BROWSER|LESS(?:OPEN|CLOSE|EDIT|KEY\w*)?|MORE|MANOPT|LD_\w+|DYLD_\w+
    |GCONV_PATH|GIT_\w+|SSH_ASKPASS|SUDO_ASKPASS|RSYNC_RSH|CVS_RSH|TAR_OPTIONS|TAPE|RSH
    |PYTHON(?:PATH|HOME|STARTUP|INSPECT|BREAKPOINT|WARNINGS|USERBASE)|NODE_(?:OPTIONS|PATH)
    |PERL5?(?:OPT|LIB|DB|5OPT|5LIB|5DB)|RUBY(?:OPT|LIB)|AWKPATH|AWKLIBPATH|PHPRC|PHP_INI_SCAN_DIR
    |JAVA_TOOL_OPTIONS|_JAVA_OPTIONS|JDK_JAVA_OPTIONS|CLASSPATH|LUA_\w+|R_PROFILE\w*|R_ENVIRON\w*
    |MAKEFLAGS|MAKEFILES|GNUMAKEFLAGS|CC|CXX|LD|AR|RUSTC\w*|CARGO_\w+|GOFLAGS|NPM_CONFIG_\w+
    |npm_config_\w+|PIP_\w+|UV_\w+|EX_?INIT|VIMINIT|GVIMINIT|MYVIMRC|INPUTRC|TERMINFO|OPENSSL_CONF
    |CURL_HOME|WGETRC|XDG_CONFIG_\w+|HOME|DOCKER_HOST|KUBECONFIG|SYSTEMD_EDITOR""",
    re.X,
)


def changes_what_runs(name: str) -> bool:
    """Tell whether setting a variable of this name can make something else run."""
    return _DANGEROUS.fullmatch(name) is not None
