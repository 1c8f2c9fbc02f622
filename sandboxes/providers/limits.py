"""Every limit of the sandbox layer, in bytes and seconds unless the name says otherwise."""

from __future__ import annotations

KIB = 1024
MIB = 1024 * KIB
GIB = 1024 * MIB

# Output kept of each stream of one command; a provider option may say less or more.
MAX_OUTPUT_BYTES = 1_000_000

# One file read from or written to a sandbox.
MAX_FILE_BYTES = 128 * MIB
MAX_PATH_BYTES = 4096
MAX_LISTED_FILES = 10_000

# Linux takes at most 128 KiB in one argument or NAME=value string, and about 2 MiB in all.
MAX_ARGUMENT_BYTES = 128 * KIB - 1
MAX_ARGUMENTS_BYTES = 1 * MIB
MAX_STDIN_BYTES = 64 * MIB
MAX_NAME_LENGTH = 255
MAX_TIME_LIMIT_SECONDS = 24 * 60 * 60

# How often a silent command is looked at, and how often its caller is asked whether to go on.
LOOK_EVERY_SECONDS = 0.1
ASK_EVERY_SECONDS = 0.5

# After a command's own process is gone, others may hold its output open: how long to listen on,
# in all and in silence.
DRAIN_SECONDS = 5.0
QUIET_SECONDS = 0.3
