"""Settings, from the environment alone; REDIS_URL and DATABASE_URL decide the mode.

Every variable is described in docs/settings.md, and a test keeps that page
complete. A variable named `NAME_FILE` holds the path of a file with the value.
"""

from __future__ import annotations

import secrets
import sys
from pathlib import Path

import environ
from django.utils.csp import CSP

from omniweb.core.keys import secret_kept

BASE_DIR = Path(__file__).resolve().parent.parent
env = environ.FileAwareEnv()

# Where things are

DATA_DIR = Path(env.str("OMNIWEB_DATA", default=str(BASE_DIR / ".data"))).resolve()
DATA_DIR.mkdir(parents=True, exist_ok=True)
PORT = env.int("OMNIWEB_PORT", default=8000)
HOST = env.str("OMNIWEB_HOST", default="127.0.0.1")
HTTPS = env.bool("OMNIWEB_HTTPS", default=False)
PUBLIC_URL = env.str("OMNIWEB_PUBLIC_URL", default=f"http://localhost:{PORT}").rstrip("/")
DEBUG = env.bool("OMNIWEB_DEBUG", default=False)

# Made once and kept in the data folder where none is given.
SECRET_KEY = env.str("OMNIWEB_SECRET_KEY", default="") or secret_kept(
    DATA_DIR / "secret_key", lambda: secrets.token_urlsafe(64)
)
# The seed of the Ed25519 key that signs where records end, in hex; likewise.
LEDGER_KEY = env.str("OMNIWEB_LEDGER_KEY", default="")
ALLOWED_HOSTS = env.list("OMNIWEB_ALLOWED_HOSTS", default=["localhost", "127.0.0.1", "[::1]"])
CSRF_TRUSTED_ORIGINS = [PUBLIC_URL]

# What the product does

DOCKER_IMAGE = env.str("OMNIWEB_DOCKER_IMAGE", default="python:3.12-slim")
DOCKER_RUNTIME = env.str("OMNIWEB_DOCKER_RUNTIME", default="")
SANDBOX_PROVIDERS = env.list("OMNIWEB_SANDBOX_PROVIDERS", default=[])
HTTP_WAIT_SECONDS = env.float("OMNIWEB_HTTP_WAIT_SECONDS", default=100)
REQUEST_EXPIRES_SECONDS = env.int("OMNIWEB_REQUEST_EXPIRES_SECONDS", default=24 * 3600)
RUN_IDLE_SECONDS = env.int("OMNIWEB_RUN_IDLE_SECONDS", default=3600)
LEASE_SECONDS = env.int("OMNIWEB_LEASE_SECONDS", default=30)
PROVIDER_PATIENCE_SECONDS = env.int("OMNIWEB_PROVIDER_PATIENCE_SECONDS", default=300)
RECONCILE_SECONDS = env.float("OMNIWEB_RECONCILE_SECONDS", default=5)
API_REQUESTS_PER_MINUTE = env.int("OMNIWEB_API_REQUESTS_PER_MINUTE", default=6000)
WORKER_THREADS = env.int("OMNIWEB_WORKER_THREADS", default=32)
LOG_LEVEL = env.str("OMNIWEB_LOG_LEVEL", default="INFO")

# Applications

INSTALLED_APPS = [
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
    "django.contrib.staticfiles",
    "channels",
    "django_htmx",
    "allauth",
    "allauth.account",
    "omniweb.core",
    "omniweb.accounts",
    "trajectories",
    "approvals",
    "sandboxes",
    "omniweb.web",
    "omniweb",
]

# Every middleware here is async-capable: one that is not would hold a thread for as long as an
# agent waits for a person.
MIDDLEWARE = [
    "omniweb.core.middleware.Security",
    "servestatic.middleware.ServeStaticMiddleware",
    "omniweb.core.middleware.NotKept",
    "omniweb.core.middleware.ContentSecurityPolicy",
    "omniweb.core.middleware.Sessions",
    "omniweb.core.middleware.Common",
    "omniweb.core.middleware.Csrf",
    "omniweb.core.middleware.Authentication",
    "omniweb.core.middleware.Messages",
    "omniweb.core.middleware.XFrameOptions",
    "django_htmx.middleware.HtmxMiddleware",
    "allauth.account.middleware.AccountMiddleware",
    "omniweb.accounts.middleware.ActorMiddleware",
    "omniweb.core.middleware.ProblemMiddleware",
]

# They look for Django's own names of what core/middleware.py has under another.
SILENCED_SYSTEM_CHECKS = ["security.W001", "security.W002", "security.W003"]

ROOT_URLCONF = "omniweb.urls"
ASGI_APPLICATION = "omniweb.asgi.application"
APPEND_SLASH = False

TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "DIRS": [BASE_DIR / "templates"],
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
                "omniweb.web.context.frame",
            ],
            "builtins": ["omniweb.core.templatetags.ui"],
        },
    }
]

# Database, broker, channel layer, cache

DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
DATABASES = {"default": env.db("DATABASE_URL", default=f"sqlite:///{DATA_DIR / 'omniweb.sqlite3'}")}
if DATABASES["default"]["ENGINE"] == "django.db.backends.sqlite3":
    DATABASES["default"]["ENGINE"] = "omniweb.core.sqlite"
    # IMMEDIATE takes the write lock when a transaction begins, so that two writers wait for each
    # other instead of failing half-way; WAL lets readers go on meanwhile.
    DATABASES["default"]["OPTIONS"] = {
        "transaction_mode": "IMMEDIATE",
        "timeout": 30,
        "init_command": (
            "PRAGMA journal_mode=WAL;PRAGMA synchronous=NORMAL;PRAGMA foreign_keys=ON;"
            "PRAGMA mmap_size=134217728;PRAGMA cache_size=-16000;"
        ),
    }
    DATABASES["default"]["TEST"] = {"NAME": str(DATA_DIR / "test.sqlite3")}
else:
    DATABASES["default"]["CONN_HEALTH_CHECKS"] = True
# Connections live as long as the threads that have them, which are lent from request to request
# (core/asynchronous.py): opening one costs more than most questions that are asked through it.
DATABASES["default"]["CONN_MAX_AGE"] = 60

REDIS_URL = env.str("REDIS_URL", default="")
if REDIS_URL:
    CHANNEL_LAYERS = {
        "default": {
            "BACKEND": "channels_redis.core.RedisChannelLayer",
            # Without socket_timeout None, redis-py 8 ends every socket that is silent for 5 s
            # (django/channels_redis issue 422); beyond `capacity` the layer drops in silence.
            "CONFIG": {
                "hosts": [{"address": REDIS_URL, "socket_timeout": None}],
                "capacity": 2000,
                "prefix": "omniweb",
            },
        }
    }
    CACHES = {
        "default": {"BACKEND": "django.core.cache.backends.redis.RedisCache", "LOCATION": REDIS_URL}
    }
else:
    CHANNEL_LAYERS = {"default": {"BACKEND": "omniweb.core.layers.InProcessLayer"}}
    CACHES = {"default": {"BACKEND": "django.core.cache.backends.locmem.LocMemCache"}}

CELERY_BROKER_URL = REDIS_URL or "memory://localhost/"
if not REDIS_URL:
    CELERY_BROKER_TRANSPORT = "omniweb.core.broker:Transport"
    # Its messages are in this process either way; taken a few at a time, each few would wait for
    # the loop to come round.
    CELERY_WORKER_PREFETCH_MULTIPLIER = 0
else:
    CELERY_WORKER_PREFETCH_MULTIPLIER = 1
CELERY_BROKER_CONNECTION_RETRY_ON_STARTUP = True
CELERY_TASK_IGNORE_RESULT = True
CELERY_TASK_DEFAULT_QUEUE = "omniweb"
# Some provider SDKs hang after a fork, and a waiting command needs no process of its own.
CELERY_WORKER_POOL = "threads"
CELERY_WORKER_CONCURRENCY = WORKER_THREADS
CELERY_WORKER_HIJACK_ROOT_LOGGER = False
CELERY_TIMEZONE = "UTC"
# Celery would close a thread's connection after each task; here it lives as long as requests' do.
CELERY_DB_REUSE_MAX = sys.maxsize

# People

AUTH_USER_MODEL = "accounts.User"
AUTHENTICATION_BACKENDS = ["allauth.account.auth_backends.AuthenticationBackend"]
AUTH_PASSWORD_VALIDATORS = [
    {
        "NAME": "django.contrib.auth.password_validation.MinimumLengthValidator",
        "OPTIONS": {"min_length": 12},
    },
    {"NAME": "django.contrib.auth.password_validation.CommonPasswordValidator"},
]
LOGIN_URL = "sign_in"
LOGIN_REDIRECT_URL = "overview"
ACCOUNT_ADAPTER = "omniweb.accounts.auth.AccountAdapter"
ACCOUNT_USER_MODEL_USERNAME_FIELD = None
ACCOUNT_LOGIN_METHODS = {"email"}
ACCOUNT_SIGNUP_FIELDS = ["email*", "password1*"]
ACCOUNT_EMAIL_VERIFICATION = "none"
# Whoever can reach the page for forgotten passwords could otherwise have mail sent to anyone.
ACCOUNT_EMAIL_UNKNOWN_ACCOUNTS = False
ACCOUNT_LOGOUT_REDIRECT_URL = "sign_in"
ACCOUNT_SESSION_REMEMBER = True
SESSION_COOKIE_AGE = 14 * 24 * 3600


def _mailer() -> dict[str, object]:
    """Return how mail leaves: shown on the console until EMAIL_URL names a server."""
    mail = env.email_url("EMAIL_URL", default="consolemail://")
    if not mail["EMAIL_HOST"]:
        return {"BACKEND": mail["EMAIL_BACKEND"]}
    return {
        "BACKEND": mail["EMAIL_BACKEND"],
        "OPTIONS": {
            "host": mail["EMAIL_HOST"],
            "port": mail["EMAIL_PORT"],
            "username": mail["EMAIL_HOST_USER"],
            "password": mail["EMAIL_HOST_PASSWORD"],
            "use_tls": mail.get("EMAIL_USE_TLS", False),
            "use_ssl": mail.get("EMAIL_USE_SSL", False),
        },
    }


MAILERS = {"default": _mailer()}

# The browser

SECURE_CSP = {
    "default-src": [CSP.NONE],
    "script-src": [CSP.SELF],
    "style-src": [CSP.SELF],
    "img-src": [CSP.SELF, "data:"],
    "font-src": [CSP.SELF],
    "connect-src": [CSP.SELF],
    "form-action": [CSP.SELF],
    "base-uri": [CSP.NONE],
    "frame-ancestors": [CSP.NONE],
}
SECURE_REFERRER_POLICY = "same-origin"
X_FRAME_OPTIONS = "DENY"
SESSION_COOKIE_NAME = "omniweb_session"
CSRF_COOKIE_NAME = "omniweb_csrf"
# Pages carry the token themselves; no script has to read the cookie.
CSRF_COOKIE_HTTPONLY = True
SESSION_COOKIE_SECURE = CSRF_COOKIE_SECURE = HTTPS
SECURE_SSL_REDIRECT = HTTPS
# Load balancers ask each process itself, in plain HTTP.
SECURE_REDIRECT_EXEMPT = [r"^health/"]
SECURE_PROXY_SSL_HEADER = ("HTTP_X_FORWARDED_PROTO", "https") if HTTPS else None
SECURE_HSTS_SECONDS = 365 * 24 * 3600 if HTTPS else 0
SECURE_HSTS_INCLUDE_SUBDOMAINS = SECURE_HSTS_PRELOAD = HTTPS
DATA_UPLOAD_MAX_MEMORY_SIZE = 8_000_000

STATIC_URL = "static/"
STATIC_ROOT = DATA_DIR / "static"
STATICFILES_DIRS = [BASE_DIR / "static"]
STORAGES = {
    "default": {"BACKEND": "django.core.files.storage.FileSystemStorage"},
    "staticfiles": {"BACKEND": "django.contrib.staticfiles.storage.StaticFilesStorage"},
}
# Served from where they are, found anew when DEBUG is on; nothing to collect on a fresh clone.
SERVESTATIC_USE_FINDERS = True
SERVESTATIC_AUTOREFRESH = DEBUG

LANGUAGE_CODE = "en"
USE_I18N = False
USE_TZ = True
TIME_ZONE = "UTC"

LOGGING = {
    "version": 1,
    "disable_existing_loggers": False,
    "formatters": {"line": {"()": "omniweb.core.logs.line_formatter"}},
    "handlers": {"stderr": {"class": "logging.StreamHandler", "formatter": "line"}},
    "root": {"handlers": ["stderr"], "level": "WARNING"},
    "loggers": {
        "omniweb": {"level": LOG_LEVEL},
        "approvals": {"level": LOG_LEVEL},
        "sandboxes": {"level": LOG_LEVEL},
        "trajectories": {"level": LOG_LEVEL},
    },
}
