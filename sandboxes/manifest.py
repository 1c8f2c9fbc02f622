"""What a sandbox is, whichever provider makes it: one schema, checked as a whole and at once.

Serialised manifests live in rows and digests: new fields go to the end and have defaults.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Mapping
from decimal import Decimal, InvalidOperation
from enum import StrEnum
from typing import Annotated, Any, Self
from urllib.parse import unquote, urlsplit

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from omniweb.core.canonical import digest
from omniweb.core.errors import InvalidInput, Problem
from sandboxes.providers.limits import GIB, KIB, MAX_ARGUMENT_BYTES, MAX_NAME_LENGTH, MIB
from sandboxes.providers.names import ENVIRONMENT_NAME

_HOST_LABEL = r"[a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9_])?"
_HOST = re.compile(rf"(\*\.)?{_HOST_LABEL}(\.{_HOST_LABEL})*\.?")
_MEMORY = re.compile(r"(\d+(?:\.\d+)?)([kmg])?b?", re.IGNORECASE)
_UNITS = {"": 1, "k": KIB, "m": MIB, "g": GIB}

# Accepted elsewhere, kept by nobody: refused here so that nothing is promised and then ignored.
_NEVER_KEPT = {
    "filesystem_policy": "no provider keeps path lists; limit what is in the sandbox instead",
    "lifecycle": "a sandbox always ends with its run",
    "provider": "the provider belongs to the environment",
    "sandbox_id": "each run opens its own sandbox",
}


def sandbox_path(text: str) -> str:
    """Return an absolute, normalised POSIX path; raises ValueError when it is none."""
    path = unquote(text).replace("\\", "/")
    if "\0" in path:
        raise ValueError("sandbox path must not contain a null byte")
    if not path.startswith("/"):
        raise ValueError(f"sandbox path must be absolute: {text}")
    if ".." in path.split("/"):
        raise ValueError(f"sandbox path escapes allowed scope: {text}")
    # POSIX keeps a leading double slash as something special; here it is not.
    return "/" + posixpath.normpath(path).lstrip("/")


def host_pattern(text: str) -> str:
    """Return a host name in lower case, perhaps with a leading `*.`; raises ValueError."""
    host = text.strip().lower()
    if re.fullmatch(r"[^/@\s]+:\d*", host):
        raise ValueError(f"network host pattern must not include a port: {text}")
    if len(host) > MAX_NAME_LENGTH or not _HOST.fullmatch(host):
        raise ValueError(f"invalid network host pattern: {text}")
    return host.removesuffix(".")


def memory_bytes(text: str) -> int:
    """Return the bytes that `512m`, `2g`, `1.5GB` or a plain number stand for; raises ValueError."""
    match = _MEMORY.fullmatch(text.strip())
    size = int(Decimal(match[1]) * _UNITS[(match[2] or "").lower()]) if match else 0
    if not 0 < size < 2**63:
        raise ValueError(
            f"'{text}' is not a size: write a number with k, m or g, such as 512m or 2g"
        )
    return size


def cpu_count(text: str) -> Decimal:
    """Return how many processors `2`, `0.5` or `500m` (thousandths) stand for; raises ValueError."""
    number = text.strip()
    try:
        count = Decimal(number[:-1]) / 1000 if number.endswith("m") else Decimal(number)
    except InvalidOperation:
        count = Decimal(0)
    if not (count.is_finite() and Decimal("0.001") <= count <= 1024):
        raise ValueError(f"'{text}' is not a number of processors: write one such as 2 or 0.5")
    return count


def _environment_name(name: str) -> str:
    if not ENVIRONMENT_NAME.fullmatch(name) or len(name) > MAX_NAME_LENGTH:
        raise ValueError(f"invalid sandbox environment variable name: {name}")
    return name


def _environment_value(value: str) -> str:
    if "\0" in value or len(value.encode("utf-8", "surrogatepass")) > MAX_ARGUMENT_BYTES:
        raise ValueError("the value is over 128 KiB or contains a null byte")
    return value


def _secret_ref(ref: str) -> str:
    if not ref or re.search(r"\s|\0", ref) or ".." in ref:
        raise ValueError("a secret reference has no spaces, no null byte and no '..'")
    return ref


def _image(name: str) -> str:
    if not name or re.search(r"[\s\0]", name) or name.startswith("-"):
        raise ValueError(f"'{name}' is not the name of an image")
    return name


def _mount_source(source: str) -> str:
    if "://" not in source:
        return sandbox_path(source)
    address = urlsplit(source)
    if not address.hostname or "@" in address.netloc or not address.path.strip("/"):
        raise ValueError(
            "a mount source is an absolute path, or scheme://host/path without credentials"
        )
    return source


def _network_default(value: Any) -> Any:
    if value not in set(NetworkDefault):
        raise ValueError(f"'{value}' is not a valid SandboxNetworkDefault")
    return value


def _text(value: Any) -> Any:
    """Let numbers and booleans stand for their text, as they do in YAML."""
    if isinstance(value, bool):
        return str(value).lower()
    return str(value) if isinstance(value, (int, float)) else value


def _checked(check: Any) -> AfterValidator:
    """Return a validator that runs a check and keeps the text as it was written."""

    def keep(text: str) -> str:
        check(text)
        return text

    return AfterValidator(keep)


SandboxPath = Annotated[str, AfterValidator(sandbox_path)]
HostPattern = Annotated[str, AfterValidator(host_pattern)]
Size = Annotated[str, BeforeValidator(_text), _checked(memory_bytes)]


class NetworkDefault(StrEnum):
    """What happens to a connection that no host list names."""

    DENY = "deny"
    ALLOW = "allow"


class MountMode(StrEnum):
    """Whether a command may change what is mounted."""

    READ_ONLY = "read_only"
    READ_WRITE = "read_write"


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class NetworkPolicy(_Part):
    """What a sandbox may reach."""

    default: Annotated[NetworkDefault, BeforeValidator(_network_default)] = NetworkDefault.DENY
    allowed_hosts: tuple[HostPattern, ...] = ()
    denied_hosts: tuple[HostPattern, ...] = ()


class Environment(_Part):
    """The variables every command sees, and the secrets it is to be given by reference."""

    plain: dict[
        Annotated[str, AfterValidator(_environment_name)],
        Annotated[str, BeforeValidator(_text), AfterValidator(_environment_value)],
    ] = Field(default_factory=dict)
    secret_refs: tuple[Annotated[str, AfterValidator(_secret_ref)], ...] = ()


class Resources(_Part):
    """How much of the machine a sandbox gets, and for how long (seconds)."""

    cpu: Annotated[str, BeforeValidator(_text), _checked(cpu_count)] | None = None
    memory: Size | None = None
    gpu: bool = False
    timeout_seconds: Annotated[int, Field(strict=True, ge=1)] | None = None


class WorkspaceMount(_Part):
    """A folder of the provider's machine inside the sandbox."""

    source: Annotated[str, AfterValidator(_mount_source)]
    target: SandboxPath
    mode: MountMode = MountMode.READ_ONLY


class Manifest(_Part):
    """What a sandbox is; without any field: no network, and the provider's image."""

    image: Annotated[str, AfterValidator(_image)] | None = None
    working_dir: SandboxPath = "/workspace"
    workspace_mount: WorkspaceMount | None = None
    network_policy: NetworkPolicy = NetworkPolicy()
    environment: Environment = Environment()
    resources: Resources = Resources()

    @classmethod
    def parse(cls, fields: Mapping[str, Any]) -> Self:
        """Return the manifest these fields describe.

        Raises InvalidInput with a problem for each field that is unknown or wrong.
        """
        if not isinstance(fields, Mapping):
            raise InvalidInput(problems=[Problem(message="a manifest is a mapping of its fields")])
        try:
            return cls.model_validate(dict(fields))
        except ValidationError as error:
            raise InvalidInput(problems=[_problem(cls, item) for item in error.errors()]) from None

    @classmethod
    def from_wire(cls, body: Mapping[str, Any]) -> Self:
        """Return the manifest inside a `POST /sessions` body of the HTTP sandbox protocol.

        Only what the body says is set, nulls say nothing, and keys the protocol does not
        have are ignored. Raises InvalidInput.
        """
        if not isinstance(body, Mapping):
            raise InvalidInput(problems=[Problem(message="a manifest is a mapping of its fields")])
        said = {name: value for name, value in body.items() if value is not None}
        fields: dict[str, Any] = {
            name: said[name] for name in ("image", "working_dir") if name in said
        }
        if "environment" in said:
            fields["environment"] = {"plain": said["environment"]}
        for name, part, of in (
            ("network", NetworkPolicy, "network_policy"),
            ("resources", Resources, "resources"),
        ):
            if name in said:
                fields[of] = _known(part, said[name])
        return cls.parse(fields)

    def merged_with(self, session: Manifest) -> Manifest:
        """Return this manifest with what a session says for itself on top.

        A part the session does not mention stays; variables and secrets add up; network and
        mount are taken whole, because half a network policy means nothing.
        """
        said = session.model_fields_set
        whole = {"image", "working_dir", "workspace_mount", "network_policy"} & said
        changes: dict[str, Any] = {name: getattr(session, name) for name in whole}
        mine, theirs = self.environment, session.environment
        changes["environment"] = Environment(
            plain={**mine.plain, **theirs.plain},
            secret_refs=tuple(dict.fromkeys((*mine.secret_refs, *theirs.secret_refs))),
        )
        asked = {
            name: getattr(session.resources, name) for name in session.resources.model_fields_set
        }
        changes["resources"] = self.resources.model_copy(update=asked)
        return self.model_copy(update=changes)

    def without_secrets(self) -> Manifest:
        """Return this manifest with no secret given."""
        environment = self.environment.model_copy(update={"secret_refs": ()})
        return self.model_copy(update={"environment": environment})

    def to_dict(self) -> dict[str, Any]:
        """Return the manifest as JSON, every field said."""
        return self.model_dump(mode="json")

    def digest(self) -> str:
        """Return the SHA-256 of the whole manifest in canonical form."""
        return digest(self.to_dict())


def _known(part: type[_Part], fields: Any) -> Any:
    if not isinstance(fields, Mapping):
        return fields
    return {
        name: value
        for name, value in fields.items()
        if name in part.model_fields and value is not None
    }


def _problem(manifest: type[Manifest], error: Any) -> Problem:
    where = [str(step) for step in error["loc"] if step != "[key]"]
    path, name = ".".join(where), where[-1] if where else ""
    if error["type"] == "extra_forbidden":
        return _unknown_field(manifest, where[:-1], path, name)
    message = str(error["msg"]).removeprefix("Value error, ")
    if error["type"] != "value_error":
        message = f"{path}: {message}"
    return Problem(path=path, message=message)


def _unknown_field(manifest: type[Manifest], parents: list[str], path: str, name: str) -> Problem:
    owner: Any = manifest
    for parent in parents:
        annotation = owner.model_fields[parent].annotation
        owner = WorkspaceMount if parent == "workspace_mount" else annotation
    known = ", ".join(owner.model_fields)
    suggestion = _NEVER_KEPT.get(name, "") if not parents else ""
    of = ".".join(["sandbox_manifest", *parents])
    return Problem(
        path=path,
        message=f"{of} has unknown field(s) {name}; known: {known}",
        suggestion=suggestion,
    )
