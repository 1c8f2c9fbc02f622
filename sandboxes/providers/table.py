"""The built-in providers: what each promises, takes and needs (requirement document 1)."""

from __future__ import annotations

from sandboxes.capabilities import Ability, Setting
from sandboxes.providers import gateway
from sandboxes.providers.delivery import Delivery
from sandboxes.providers.limits import MAX_OUTPUT_BYTES
from sandboxes.providers.spec import Kind, NetworkPromise, Option, ProviderSpec

OUTPUT = Option(
    name="max_output_bytes",
    kind=Kind.POSITIVE,
    default=MAX_OUTPUT_BYTES,
    help="Bytes kept of each output stream of a command; what comes after is counted and dropped.",
)
VERIFY = Option(
    name="verify_network_isolation",
    kind=Kind.SWITCH,
    default=True,
    help="Try to reach the internet from inside a new sandbox that must not, and refuse it if that works.",
)


def _lifetime(what: str) -> Option:
    return Option(name="timeout_seconds", kind=Kind.POSITIVE, default=600, help=what)


def _image(default: str | None, what: str) -> Option:
    return Option(name="image", default=default, help=f"{what} An image in the manifest wins.")


HOSTED = frozenset({Setting.IMAGE, Setting.NETWORK_OFF})
SIZED = frozenset({Setting.CPU, Setting.MEMORY})

DOCKER = ProviderSpec(
    name="docker",
    label="Docker",
    summary="A container with nothing but what the manifest gives it. Start here.",
    extra="docker",
    sdk="docker",
    missing="The Docker sandbox needs the Docker SDK: pip install omniweb[docker]",
    credentials_note="a running Docker",
    runs_where="a container on this machine or a Docker host",
    runs_as="user 65534 (nobody)",
    network=NetworkPromise(
        deny='Yes, network_mode="none"',
        allow="Yes, bridge",
        allowed_hosts="Yes (ours), by an egress gateway",
        checked_inside="Not needed: Docker enforces it",
    ),
    options=(
        _image("python:3.12-slim", "The image containers are made of."),
        Option(
            name="user",
            kind=Kind.USER,
            default="65534:65534",
            help="Who commands run as, by number: uid or uid:gid.",
        ),
        Option(
            name="workdir_size",
            kind=Kind.SIZE,
            default="1g",
            help="Room in the working directory, which is kept in memory.",
        ),
        Option(
            name="pids_limit",
            kind=Kind.POSITIVE,
            default=256,
            help="Processes a sandbox may have at one time.",
        ),
        Option(
            name="pull",
            default="if_missing",
            choices=("if_missing", "never"),
            help='Whether to fetch an image that is not there; with "never" it must be.',
        ),
        Option(
            name="runtime",
            help='The container runtime, such as "runsc" for gVisor; Docker\'s own default if not set.',
        ),
        Option(
            name="gateway_image",
            default="omniweb-gateway:1",
            help="The egress gateway's image, for host lists; made from deploy/gateway.",
        ),
        Option(
            name="gateway_network",
            default="bridge",
            help="The Docker network by which the gateway goes out.",
        ),
        Option(
            name="gateway_name_servers",
            kind=Kind.SERVERS,
            default=(),
            help="The name servers the gateway asks, by IPv4 address; Docker's own if not set.",
        ),
        VERIFY,
        OUTPUT,
    ),
    enforces=HOSTED
    | SIZED
    | {Setting.ALLOWED_HOSTS, Setting.DENIED_HOSTS, Setting.WORKSPACE_MOUNT, Setting.SECRETS},
    refuses=gateway.problems,
    delivers=Delivery.FILE,
    can=frozenset(Ability),
    adapter="sandboxes.adapters.docker.DockerProvider",
)

E2B = ProviderSpec(
    name="e2b",
    label="E2B",
    summary="A hosted sandbox of E2B.",
    extra="e2b",
    sdk="e2b",
    missing="the E2B sandbox requires optional dependency 'e2b'. Install it with: pip install 'omniweb[e2b]'",
    credentials=("E2B_API_KEY",),
    runs_where="an E2B sandbox",
    runs_as="user 1000",
    network=NetworkPromise(
        deny="Asked of E2B",
        allow="Yes",
        allowed_hosts="Yes (ours), E2B's allow_out",
        checked_inside="Yes",
    ),
    options=(
        Option(name="template", help="The E2B template. An image in the manifest wins."),
        Option(
            name="api_key",
            kind=Kind.SECRET,
            help="The key, where it is not in E2B_API_KEY.",
        ),
        _lifetime("Seconds after which E2B stops the sandbox."),
        VERIFY,
        OUTPUT,
    ),
    enforces=HOSTED | {Setting.ALLOWED_HOSTS, Setting.SECRETS},
    delivers=Delivery.HEADER,
    can=frozenset(Ability),
    adapter="sandboxes.adapters.e2b.E2bProvider",
)

DAYTONA = ProviderSpec(
    name="daytona",
    label="Daytona",
    summary="A hosted sandbox of Daytona, deleted with its run.",
    extra="daytona",
    sdk="daytona",
    missing=(
        "the Daytona sandbox requires optional dependency 'daytona'. "
        "Install it with: pip install 'omniweb[daytona]'"
    ),
    credentials=("DAYTONA_API_KEY",),
    runs_where="a Daytona sandbox",
    runs_as="root",
    network=NetworkPromise(
        deny="Asked of Daytona",
        allow="Yes",
        allowed_hosts="Yes (ours), Daytona's domain_allow_list",
        checked_inside="Yes",
    ),
    options=(
        _image("python:3.12-slim", "The image sandboxes are made of."),
        Option(
            name="api_key", kind=Kind.SECRET, help="The key, where it is not in DAYTONA_API_KEY."
        ),
        Option(
            name="api_url",
            is_account=True,
            help="Where Daytona listens, where it is not in DAYTONA_API_URL.",
        ),
        Option(
            name="target", is_account=True, help="The region, where it is not in DAYTONA_TARGET."
        ),
        VERIFY,
        OUTPUT,
    ),
    enforces=HOSTED | SIZED | {Setting.ALLOWED_HOSTS, Setting.SECRETS},
    delivers=Delivery.PLACEHOLDER,
    can=frozenset(Ability),
    adapter="sandboxes.adapters.daytona.DaytonaProvider",
)

MODAL = ProviderSpec(
    name="modal",
    label="Modal",
    summary="A hosted sandbox of Modal; keeps a list of allowed hosts.",
    extra="modal",
    sdk="modal",
    missing="the Modal sandbox requires optional dependency 'modal'. Install it with: pip install 'omniweb[modal]'",
    credentials=("MODAL_TOKEN_ID", "MODAL_TOKEN_SECRET"),
    credentials_note="or `modal token new`",
    runs_where="a Modal sandbox",
    runs_as="the image's user",
    network=NetworkPromise(
        deny="Yes, block_network",
        allow="Yes",
        allowed_hosts="Yes, Modal's domain allowlist",
        checked_inside="No",
    ),
    options=(
        _image("python:3.12-slim", "The registry image sandboxes are made of."),
        Option(
            name="app_name",
            default="omniweb-sandbox",
            help="The Modal app the sandboxes belong to.",
        ),
        _lifetime("Seconds after which Modal stops the sandbox."),
        OUTPUT,
    ),
    enforces=HOSTED | SIZED | {Setting.ALLOWED_HOSTS, Setting.SECRETS},
    delivers=Delivery.VARIABLE,
    can=frozenset(Ability) - {Ability.PAUSE},
    adapter="sandboxes.adapters.modal.ModalProvider",
)

VERCEL = ProviderSpec(
    name="vercel",
    label="Vercel",
    summary="A hosted sandbox of Vercel.",
    extra="vercel",
    sdk="vercel",
    missing="the Vercel sandbox requires optional dependency 'vercel'. Install it with: pip install 'omniweb[vercel]'",
    credentials=("VERCEL_TOKEN", "VERCEL_TEAM_ID", "VERCEL_PROJECT_ID"),
    runs_where="a Vercel Sandbox",
    runs_as="the image's user",
    network=NetworkPromise(
        deny="Yes, deny-all",
        allow="Yes, allow-all",
        allowed_hosts="Yes (ours), a custom policy",
        checked_inside="No",
    ),
    options=(
        _image(None, "The image; Vercel's own if not set."),
        Option(
            name="project_id",
            is_account=True,
            help="The project, where it is not in VERCEL_PROJECT_ID.",
        ),
        _lifetime("Seconds the sandbox may run."),
        OUTPUT,
    ),
    enforces=HOSTED | SIZED | {Setting.ALLOWED_HOSTS, Setting.SECRETS},
    delivers=Delivery.HEADER,
    # A snapshot there ends the session it is taken of.
    can=frozenset(Ability) - {Ability.PAUSE, Ability.SNAPSHOT},
    adapter="sandboxes.adapters.vercel.VercelProvider",
)

HTTP = ProviderSpec(
    name="http",
    label="HTTP service",
    summary="A sandbox service of your own that answers the five requests of the protocol.",
    credentials_note="your service's token",
    runs_where="a service you run",
    runs_as="your service decides",
    network=NetworkPromise(
        deny="Your service must keep it or refuse",
        allow="Your service must keep it or refuse",
        allowed_hosts="Your service must keep it or refuse",
        checked_inside="Your service's job",
    ),
    options=(
        Option(
            name="base_url",
            kind=Kind.ADDRESS,
            required=True,
            help="Where the service listens.",
        ),
        Option(name="token", kind=Kind.SECRET, help="Sent as a bearer token."),
        Option(name="headers", kind=Kind.HEADERS, help="More headers for every request."),
        Option(
            name="request_timeout_seconds",
            kind=Kind.POSITIVE,
            default=120,
            help="Seconds one request may take.",
        ),
        Option(
            name="verify_tls",
            kind=Kind.SWITCH,
            default=True,
            help="Whether the service's certificate is checked.",
        ),
        OUTPUT,
    ),
    enforces=HOSTED | SIZED | {Setting.ALLOWED_HOSTS, Setting.DENIED_HOSTS, Setting.GPU},
    can=frozenset({Ability.STDIN, Ability.STDERR}),
    adapter="sandboxes.adapters.http.HttpProvider",
)

LOCAL = ProviderSpec(
    name="local",
    label="This machine",
    summary="Commands run here, as you, with nothing in between. Not isolated.",
    runs_where="this machine, not isolated",
    runs_as="your user",
    network=NetworkPromise(
        deny="Refused: it cannot", allow="Required", allowed_hosts="Refused", checked_inside="-"
    ),
    options=(
        Option(
            name="environment_passthrough",
            kind=Kind.NAMES,
            default=(),
            help="Names of variables of this machine that commands may see.",
        ),
        Option(
            name="inherit_environment",
            kind=Kind.SWITCH,
            default=False,
            help="Let commands see every variable of the server; better name the ones they need.",
        ),
        Option(
            name="create_working_dir",
            kind=Kind.SWITCH,
            default=False,
            help="Make the working directory where it is missing, instead of refusing.",
        ),
        OUTPUT,
    ),
    can=frozenset(Ability) - {Ability.PAUSE, Ability.SNAPSHOT, Ability.NETWORK_CHANGE},
    adapter="sandboxes.adapters.local.LocalProvider",
    execution_surface="host",
    supports_required_sandbox=False,
)

_NOWHERE = NetworkPromise(deny="-", allow="-", allowed_hosts="-", checked_inside="-")

NONE = ProviderSpec(
    name="none",
    label="None",
    summary="A policy without a sandbox: nothing can be executed.",
    runs_where="nowhere",
    runs_as="-",
    network=_NOWHERE,
    enforces=None,
    adapter="sandboxes.adapters.none.NoneProvider",
    execution_surface="none",
    supports_execution=False,
    supports_required_sandbox=False,
)

LOCAL_TEST = ProviderSpec(
    name="local_test",
    label="Test handlers",
    summary="Python handlers you register answer instead of commands, for tests.",
    runs_where="handlers you register, for tests",
    runs_as="-",
    network=_NOWHERE,
    options=(
        Option(
            name="allow_test_sandbox_runtime",
            kind=Kind.SWITCH,
            default=False,
            help="Let the handlers stand in for a sandbox; without it nothing is executed.",
        ),
        OUTPUT,
    ),
    enforces=None,
    can=frozenset(Ability) - {Ability.PAUSE, Ability.SNAPSHOT, Ability.NETWORK_CHANGE},
    adapter="sandboxes.adapters.local_test.LocalTestProvider",
    supports_required_sandbox=False,
    is_test=True,
)

TABLE = (DOCKER, E2B, DAYTONA, MODAL, VERCEL, HTTP, LOCAL, NONE, LOCAL_TEST)
