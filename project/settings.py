"""Settings. Every one is an environment variable with a default that works; docs/settings.md lists them."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import dj_database_url
from csp.constants import NONCE, NONE, SELF

from decisions import answer_ids
from project import logging as project_logging
from project.embedded.layout import find_assets, locate_var
from project.embedded.secrets import load_secret
from project.environment import InvalidSetting, env, env_flag, env_float, env_int, env_list
from project.placeholders import refuse_placeholders

refuse_placeholders(os.environ)
# Logs, runs, artifacts and exports hold what people wrote: whatever Reckoner writes is its owner's alone. The programs
# it starts inherit this, the engine among them.
os.umask(0o077)
BASE_DIR = Path(__file__).resolve().parent.parent
VAR = locate_var()


def embedded_url(name: str) -> str | None:
    """Where `manage.py up` keeps its own servers, so that other commands find them without any variable."""
    path = VAR / "run" / "services.json"
    return json.loads(path.read_text()).get(name) if path.exists() else None


DEBUG = env_flag("RECKONER_DEBUG")
HTTPS = env_flag("RECKONER_HTTPS")
SECRET_KEY = load_secret("secret_key", "RECKONER_SECRET_KEY")
API_KEY_PEPPER = load_secret("api_key_pepper", "RECKONER_API_KEY_PEPPER")
ALLOWED_HOSTS = env_list("RECKONER_ALLOWED_HOSTS", "localhost,127.0.0.1,[::1]")
CSRF_TRUSTED_ORIGINS = env_list("RECKONER_TRUSTED_ORIGINS", "")

DATABASE_URL = os.environ.get("DATABASE_URL") or embedded_url("DATABASE_URL") or "postgresql:///reckoner"
REDIS_URL = os.environ.get("REDIS_URL") or embedded_url("REDIS_URL") or "redis://127.0.0.1:6379/0"

INSTALLED_APPS = [
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.humanize",
    "django.contrib.messages",
    "django.contrib.postgres",
    "django.contrib.sessions",
    "django.contrib.staticfiles",
    "rest_framework",
    "drf_spectacular",
    "drf_spectacular_sidecar",
    "django_htmx",
    "csp",
    "allauth",
    "allauth.account",
    "allauth.mfa",
    "allauth.socialaccount",
    "allauth.usersessions",
    "workspaces",
    "jobs",
    "models_registry",
    "decisions",
    "training",
    "project",
]
MIDDLEWARE = [
    "project.middleware.RequestIdMiddleware",
    "project.middleware.RetryAfterMiddleware",
    "project.middleware.BrowserRulesMiddleware",
    "django.middleware.security.SecurityMiddleware",
    "whitenoise.middleware.WhiteNoiseMiddleware",
    "project.middleware.CompressedPagesMiddleware",
    "project.middleware.PolicyMiddleware",
    "project.middleware.DatabaseAwayMiddleware",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.common.CommonMiddleware",
    "project.middleware.ContentLengthMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "allauth.account.middleware.AccountMiddleware",
    "project.middleware.PagesNeedLogInMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
    "django_htmx.middleware.HtmxMiddleware",
    "workspaces.http.form_values.FormValuesMiddleware",
    "workspaces.http.idempotency.IdempotencyMiddleware",
]
ROOT_URLCONF = "project.urls"
WSGI_APPLICATION = "project.wsgi.application"
TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "DIRS": [find_assets("templates")],
        "APP_DIRS": False,
        "OPTIONS": {
            "loaders": [
                (
                    "django.template.loaders.cached.Loader",
                    [
                        "django.template.loaders.filesystem.Loader",
                        "django.template.loaders.app_directories.Loader",
                    ],
                )
            ],
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
                "csp.context_processors.nonce",
                "project.context.navigation",
            ],
        },
    }
]

try:
    DATABASES = {"default": dj_database_url.parse(DATABASE_URL, conn_max_age=600, conn_health_checks=True)}
except ValueError as error:
    raise InvalidSetting("DATABASE_URL: is not an address; give postgresql://…") from error
if DATABASES["default"]["ENGINE"] != "django.db.backends.postgresql":
    raise InvalidSetting("DATABASE_URL: PostgreSQL 16 or newer is the only database; give postgresql://…")
DATABASES["default"]["ENGINE"] = "project.postgresql"
# Statements of workspaces/storage/prepared.py are prepared at their fifth execution in a session.
DATABASES["default"].setdefault("OPTIONS", {}).setdefault("prepare_threshold", 5)
# For counts that all web processes share and that may be lost, such as wrong passwords; `process` while it is away.
CACHES = {
    "default": {
        "BACKEND": "workspaces.storage.cache.SharedCache",
        "LOCATION": REDIS_URL,
        "KEY_PREFIX": "reckoner",
        "OPTIONS": {
            "socket_timeout": 0.5,
            "socket_connect_timeout": 0.5,
            "serializer": "workspaces.storage.cache.JSONSerializer",
        },
    },
    "process": {"BACKEND": "django.core.cache.backends.locmem.LocMemCache", "LOCATION": "reckoner"},
}
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"

AUTH_USER_MODEL = "workspaces.User"
AUTH_PASSWORD_VALIDATORS: list[dict[str, Any]] = [
    {"NAME": "django.contrib.auth.password_validation.MinimumLengthValidator", "OPTIONS": {"min_length": 12}},
    {"NAME": "django.contrib.auth.password_validation.UserAttributeSimilarityValidator"},
    {"NAME": "workspaces.accounts.passwords.NotACommonPassword"},
    {"NAME": "workspaces.accounts.passwords.NotOnlyKnownWords"},
    {"NAME": "workspaces.accounts.passwords.NotTheSamePassword"},
]
AUTHENTICATION_BACKENDS = ["allauth.account.auth_backends.AuthenticationBackend"]
LOGIN_URL = "log-in"
# Straight in the session: the default opens a signed cookie for every request, of programs too.
MESSAGE_STORAGE = "django.contrib.messages.storage.session.SessionStorage"
LOGIN_REDIRECT_URL = "home"
LOGOUT_REDIRECT_URL = "log-in"

# workspaces/people: django-allauth logs in, asks for the second factor, lists sessions and speaks OpenID Connect.
ACCOUNT_ADAPTER = "workspaces.people.accounts.AccountAdapter"
SOCIALACCOUNT_ADAPTER = "workspaces.people.accounts.SocialAccountAdapter"
MFA_ADAPTER = "workspaces.people.accounts.MFAAdapter"
ACCOUNT_LOGIN_METHODS = {"email"}
ACCOUNT_SIGNUP_FIELDS = ["email*", "password1*", "password2*"]
ACCOUNT_USER_MODEL_USERNAME_FIELD = None
ACCOUNT_EMAIL_VERIFICATION = "none"  # an invitation's link is the proof, and no mail server is part of an instance
ACCOUNT_SESSION_REMEMBER = True  # workspaces/accounts/sessions.py says when a session ends
ACCOUNT_REAUTHENTICATION_REQUIRED = True  # before a provider is connected; the second factor's pages ask anyway
# Codes of an authenticator app: ten wrong ones in a quarter of an hour. Passwords are counted by
# workspaces/accounts/log_in.py.
ACCOUNT_RATE_LIMITS = {"login": "", "login_failed": "10/900s/key"}
MFA_ALLOW_UNVERIFIED_EMAIL = True
MFA_TOTP_ISSUER = "Reckoner"
MFA_TOTP_TOLERANCE = 1
SOCIALACCOUNT_ONLY = False
# One provider of OpenID Connect. TRUST_EMAIL: an address that it has verified logs in to the account with that address.
OIDC_ID = "sso"
OIDC_SERVER = env("RECKONER_OIDC_SERVER", "")
OIDC_NAME = env("RECKONER_OIDC_NAME", "single sign-on")
OIDC_CLIENT_ID = env("RECKONER_OIDC_CLIENT_ID", "")
OIDC_SECRET = env("RECKONER_OIDC_SECRET", "")
OIDC_TRUST_EMAIL = env_flag("RECKONER_OIDC_TRUST_EMAIL")
if OIDC_SERVER:  # it loads an HTTP client of 8 MB into every process
    INSTALLED_APPS.append("allauth.socialaccount.providers.openid_connect")
if OIDC_SERVER and not OIDC_CLIENT_ID:
    raise InvalidSetting("RECKONER_OIDC_CLIENT_ID: give the client ID that the provider at RECKONER_OIDC_SERVER knows")
if HTTPS and OIDC_SERVER and not OIDC_SERVER.startswith("https://"):
    raise InvalidSetting("RECKONER_OIDC_SERVER: with RECKONER_HTTPS=1 the provider's address begins with https://")
SOCIALACCOUNT_PROVIDERS = {
    "openid_connect": {
        "OAUTH_PKCE_ENABLED": True,
        "APPS": [
            {
                "provider_id": OIDC_ID,
                "name": OIDC_NAME,
                "client_id": OIDC_CLIENT_ID,
                "secret": OIDC_SECRET,
                "settings": {"server_url": OIDC_SERVER, "email_authentication": OIDC_TRUST_EMAIL},
            }
        ]
        if OIDC_SERVER
        else [],
    }
}

LANGUAGE_CODE = "en-gb"
TIME_ZONE = "UTC"
USE_I18N = False
USE_TZ = True

STATIC_URL = "/static/"
STATICFILES_DIRS = [find_assets("static")]
STATIC_ROOT = VAR / "static"
STATIC_ROOT.mkdir(parents=True, exist_ok=True)
# Straight from the source tree, in the image too; else as collectstatic hashed and compressed them into STATIC_ROOT.
WHITENOISE_USE_FINDERS = env_flag("RECKONER_STATIC_FINDERS", True)
STORAGES = {
    "default": {"BACKEND": "django.core.files.storage.FileSystemStorage"},
    "staticfiles": {
        "BACKEND": "django.contrib.staticfiles.storage.StaticFilesStorage"
        if WHITENOISE_USE_FINDERS
        else "whitenoise.storage.CompressedManifestStaticFilesStorage"
    },
}
WHITENOISE_AUTOREFRESH = DEBUG

# Security. RECKONER_HTTPS=1 where TLS ends in front of the web process.
SESSION_ENGINE = "workspaces.accounts.sessions"
# A session that is not used for the hours ends, and every session at the age of the days.
SESSION_IDLE_HOURS = env_float("RECKONER_SESSION_IDLE_HOURS", "12")
SESSION_DAYS = env_float("RECKONER_SESSION_DAYS", "7")
# Whoever logs in with a password sets up an authenticator app before any workspace opens.
TWO_FACTOR_REQUIRED = env_flag("RECKONER_TWO_FACTOR_REQUIRED")
SESSION_COOKIE_HTTPONLY = CSRF_COOKIE_HTTPONLY = True
SESSION_COOKIE_SAMESITE = CSRF_COOKIE_SAMESITE = "Lax"
SESSION_COOKIE_SECURE = CSRF_COOKIE_SECURE = HTTPS
# Browsers take such a name over TLS alone, and from this very host.
SESSION_COOKIE_NAME, CSRF_COOKIE_NAME = (f"{'__Host-' if HTTPS else ''}{name}" for name in ("sessionid", "csrftoken"))
SECURE_SSL_REDIRECT = HTTPS
SECURE_REDIRECT_EXEMPT = ["^(livez|readyz|metrics)$"]  # probes come from this machine: `manage.py up` asks them too
SECURE_HSTS_SECONDS = 31_536_000 if HTTPS else 0
SECURE_HSTS_INCLUDE_SUBDOMAINS = SECURE_HSTS_PRELOAD = HTTPS
SECURE_PROXY_SSL_HEADER = ("HTTP_X_FORWARDED_PROTO", "https") if HTTPS else None
SECURE_REFERRER_POLICY = "same-origin"
X_FRAME_OPTIONS = "DENY"
CONTENT_SECURITY_POLICY = {
    "DIRECTIVES": {
        "default-src": [NONE],
        "script-src": [SELF, NONCE],
        "style-src": [SELF, NONCE],
        "img-src": [SELF, "data:"],
        "font-src": [SELF],
        "connect-src": [SELF],
        # A form leads to the provider of OpenID Connect by a redirect, which browsers count as the form's.
        "form-action": [SELF, *(["{0.scheme}://{0.netloc}".format(urlsplit(OIDC_SERVER))] if OIDC_SERVER else [])],
        "base-uri": [NONE],
        "frame-ancestors": [NONE],
    }
}
# One decision may take 1 MB, a batch 10 MB (checked before parsing, see workspaces.http.parsing).
DATA_UPLOAD_MAX_MEMORY_SIZE = 10 * 1024 * 1024

# Nor does the web process read more than this: a file sent by a form, and the form around it.
LARGEST_BODY = 33 * 1024 * 1024
# A client that moves less than 1 KB/s for so long, while it owes a request or an answer waits for it, is cut off.
SLOW_CLIENT_SECONDS = env_float("RECKONER_SLOW_CLIENT_SECONDS", "30")

# How long the answer to an Idempotency-Key is kept.
# A claim that was not answered for so long was a killed process's: longer than two looks at the model server.
IDEMPOTENCY_CLAIM_SECONDS = 20.0 + 2 * env_float("RECKONER_MODEL_SERVER_TIMEOUT_SECONDS", "20")
IDEMPOTENCY_HOURS = env_float("RECKONER_IDEMPOTENCY_HOURS", "24")
# 0: no limit. Counted for all web processes together (workspaces.http.throttling).
KEY_REQUESTS_A_MINUTE = env_int("RECKONER_KEY_REQUESTS_A_MINUTE", "30000")
# Wrong passwords for an account from one address within the window; the address has five times as many. 0: no limit.
LOG_IN_FAILURES = env_int("RECKONER_LOG_IN_FAILURES", "10")
LOG_IN_WINDOW_SECONDS = env_float("RECKONER_LOG_IN_WINDOW_SECONDS", "900")
# Proxies in front, whose X-Forwarded-For is believed; 0: the connection's own address counts.
TRUSTED_PROXIES = env_int("RECKONER_TRUSTED_PROXIES", "0")

# The notes app's cron key (docs/notes-app.md). Empty: the header opens nothing.
INTERNAL_API_KEY = env("RECKONER_INTERNAL_API_KEY", "")
INTERNAL_WORKSPACE = env("RECKONER_INTERNAL_WORKSPACE", "")
if 0 < len(INTERNAL_API_KEY) < 32:
    raise InvalidSetting("RECKONER_INTERNAL_API_KEY: 32 characters or more, from a random source")
if INTERNAL_API_KEY and not INTERNAL_WORKSPACE:
    raise InvalidSetting("RECKONER_INTERNAL_WORKSPACE: name the workspace (its slug) that the internal key acts in")

REST_FRAMEWORK = {
    "DEFAULT_AUTHENTICATION_CLASSES": [
        "workspaces.http.authentication.ApiKeyAuthentication",
        "workspaces.http.authentication.WorkspaceSessionAuthentication",
    ],
    "DEFAULT_PERMISSION_CLASSES": ["workspaces.http.permissions.HasScope"],
    "DEFAULT_THROTTLE_CLASSES": ["workspaces.http.throttling.KeyThrottle"],
    "DEFAULT_CONTENT_NEGOTIATION_CLASS": "workspaces.http.rendering.Negotiation",
    "DEFAULT_RENDERER_CLASSES": ["rest_framework.renderers.JSONRenderer"],
    "DEFAULT_PARSER_CLASSES": ["workspaces.http.parsing.StrictJSONParser"],
    "DEFAULT_PAGINATION_CLASS": "workspaces.http.pagination.NewestFirst",
    "DEFAULT_SCHEMA_CLASS": "workspaces.http.openapi.EnvelopeSchema",
    "EXCEPTION_HANDLER": "workspaces.http.api_errors.envelope_handler",
    "UNAUTHENTICATED_USER": None,
}
SPECTACULAR_SETTINGS = {
    "TITLE": "Reckoner",
    "DESCRIPTION": "A ledger of the decisions AI agents make, what each was worth, and models trained on it.",
    "VERSION": "1",
    "OAS_VERSION": "3.1.0",
    "SERVE_INCLUDE_SCHEMA": False,
    "SERVE_PERMISSIONS": ["rest_framework.permissions.AllowAny"],
    "SERVE_AUTHENTICATION": [],
    "SWAGGER_UI_DIST": "SIDECAR",
    "SWAGGER_UI_FAVICON_HREF": "SIDECAR",
    "COMPONENT_SPLIT_REQUEST": True,
    # A change of ours is no partial body: what its serializer requires is required.
    "COMPONENT_SPLIT_PATCH": False,
    "ENUM_NAME_OVERRIDES": {
        "AgentKindEnum": "decisions.models.AgentKind",
        "ArtifactKindEnum": "models_registry.models.ArtifactKind",
        "BackendKindEnum": "models_registry.models.BackendKind",
        "BackendStateEnum": "models_registry.models.BackendState",
        "CallKindEnum": "models_registry.models.CallKind",
        "CallStateEnum": "models_registry.models.CallState",
        "DatasetKindEnum": "training.models.DatasetKind",
        "FeedbackSourceEnum": "decisions.models.FeedbackSource",
        "ImportFormatEnum": "training.imports.plan.FORMAT_CHOICES",
        "JudgeSourceEnum": "decisions.models.JudgeSource",
        "JudgeVerdictEnum": "decisions.models.JudgeVerdict",
        "LabelQueueStateEnum": "decisions.models.QueueState",
        "JobStateEnum": "jobs.models.JobState",
        "ExperimentStateEnum": "models_registry.models.ExperimentState",
        "ShadowStateEnum": "decisions.models.ShadowState",
        "VerdictEnum": "decisions.models.Verdict",
        "VersionStateEnum": "models_registry.models.VersionState",
        "ExportStateEnum": "training.models.export.ExportState",
        "ExportFormatEnum": "training.models.export.ExportFormat",
        "PolicyKindEnum": "training.runs.candidates.POLICY_KINDS",
        "RunStateEnum": "training.models.run.RUN_STATE_CHOICES",
    },
    "PATH_CONVERTER_OVERRIDES": {
        "subjects": {"type": "string", "enum": ["decisions", "episodes"]},
        "decision": dict(answer_ids.SCHEMA),
    },
    "SCHEMA_PATH_PREFIX": "/api/v1",
    "POSTPROCESSING_HOOKS": [
        "drf_spectacular.hooks.postprocess_schema_enums",
        "workspaces.http.openapi.allow_null",
        "workspaces.http.openapi.require_bodies",
        "project.openapi.show_examples",
        "project.openapi.show_own_paths_first",
    ],
}

# Celery carries hints only; the jobs table is the truth (docs/adr/0004). Messages are acknowledged early.
CELERY_BROKER_URL = REDIS_URL
CELERY_TASK_IGNORE_RESULT = True
CELERY_TASK_ACKS_LATE = False
CELERY_WORKER_PREFETCH_MULTIPLIER = 1
CELERY_WORKER_POOL = "jobs.pool:TaskPool"
CELERY_TASK_SERIALIZER = "json"
CELERY_ACCEPT_CONTENT = ["json"]
CELERY_TASK_DEFAULT_QUEUE = "default"
CELERY_BROKER_CONNECTION_RETRY_ON_STARTUP = True
CELERY_BROKER_TRANSPORT_OPTIONS = {"socket_timeout": 5, "socket_connect_timeout": 2, "max_retries": 1}
CELERY_WORKER_HIJACK_ROOT_LOGGER = False
CELERY_TIMEZONE = TIME_ZONE

JOB_LEASE_SECONDS = env_float("RECKONER_JOB_LEASE_SECONDS", "60")
JOB_SWEEP_SECONDS = env_float("RECKONER_JOB_SWEEP_SECONDS", "30")
# The second attempt comes after this, the third after the factor times this: 1 and 10 minutes.
JOB_RETRY_SECONDS = env_float("RECKONER_JOB_RETRY_SECONDS", "60")
JOB_RETRY_FACTOR = env_float("RECKONER_JOB_RETRY_FACTOR", "10")
# After this time without progress an attempt counts as hanging. Engines are silent for longer: while a base is fetched,
# a model compiled, an export hashed and stored.
JOB_STALL_SECONDS = env_float("RECKONER_JOB_STALL_SECONDS", "3600")
RUN_STALL_SECONDS = env_float("RECKONER_RUN_STALL_SECONDS", "21600")
OUTCOME_SECONDS = env_float("RECKONER_OUTCOME_SECONDS", "60")
# How often shadows look for new decisions, and how many a minute each of them may ask about.
SHADOW_SECONDS = env_float("RECKONER_SHADOW_SECONDS", "60")
SHADOW_PER_MINUTE = env_float("RECKONER_SHADOW_PER_MINUTE", "600")
REWARDS_HOUR_UTC = env_int("RECKONER_REWARDS_HOUR_UTC", "2")
# Whole months that the ledger keeps besides the running one; 0: everything stays.
KEEP_MONTHS = env_int("RECKONER_KEEP_MONTHS", "0")
# How many days things stay that nobody needs for ever (project/upkeep/lifetimes.py); 0: for ever all the same.
KEEP_JOB_DAYS = env_float("RECKONER_KEEP_JOB_DAYS", "14")
KEEP_DEAD_JOB_DAYS = env_float("RECKONER_KEEP_DEAD_JOB_DAYS", "90")
KEEP_HINT_DAYS = env_float("RECKONER_KEEP_HINT_DAYS", "1")
KEEP_RUN_EVENT_DAYS = env_float("RECKONER_KEEP_RUN_EVENT_DAYS", "90")
KEEP_RUN_FILE_DAYS = env_float("RECKONER_KEEP_RUN_FILE_DAYS", "7")
KEEP_DRAFT_DAYS = env_float("RECKONER_KEEP_DRAFT_DAYS", "90")
KEEP_CALL_DAYS = env_float("RECKONER_KEEP_CALL_DAYS", "90")
KEEP_ARTIFACT_DAYS = env_float("RECKONER_KEEP_ARTIFACT_DAYS", "30")
KEEP_INCOMING_DAYS = env_float("RECKONER_KEEP_INCOMING_DAYS", "1")

# A folder, or an fsspec URL such as s3://bucket/prefix, whose files are then fetched into the cache.
ARTIFACTS = env("RECKONER_ARTIFACTS", str(VAR / "artifacts"))
# Of one workspace; 0: no limit.
ARTIFACT_QUOTA_BYTES = env_int("RECKONER_ARTIFACT_QUOTA_BYTES", "0")
MACHINE_HOUR_PRICE = env_float("RECKONER_MACHINE_HOUR_PRICE", "0")
ARTIFACT_CACHE = Path(env("RECKONER_ARTIFACT_CACHE", str(VAR / "artifact-cache")))
ARTIFACT_CACHE_BYTES = env_int("RECKONER_ARTIFACT_CACHE_BYTES", "21474836480")
RUNS = Path(env("RECKONER_RUNS", str(VAR / "runs")))
TRAINING_STOP_GRACE_SECONDS = env_float("RECKONER_TRAINING_STOP_GRACE_SECONDS", "30")
# How often a run leaves a checkpoint; at most 300 s.
CHECKPOINT_SECONDS = env_float("RECKONER_CHECKPOINT_SECONDS", "30")
# Options of `accelerate launch`, by which several processes train a run; "": one process, started by itself.
ACCELERATE = env("RECKONER_ACCELERATE", "")
# Which default settings runs on real bases get: AUTO_DETECT, GPU_ENABLED, RYZEN_OPTIMIZED or CPU_ONLY.
HARDWARE_PROFILE = env("RECKONER_HARDWARE_PROFILE", "AUTO_DETECT")
MODEL_SERVER_URL = env("RECKONER_MODEL_SERVER_URL", embedded_url("MODEL_SERVER_URL") or "http://127.0.0.1:8100")
MODEL_SERVER_TOKEN = load_secret("model_server_token", "RECKONER_MODEL_SERVER_TOKEN")
MODEL_SERVER_TIMEOUT_SECONDS = env_float("RECKONER_MODEL_SERVER_TIMEOUT_SECONDS", "20")
# Where admins may point backends: origins, such as https://api.openai.com or http://vllm:8000.
BACKEND_URLS = env_list("RECKONER_BACKEND_URLS", "https://api.openai.com")
# Which environment variables hold keys for backends, and the one server that each may be sent to.
BACKEND_KEYS = env_list("RECKONER_BACKEND_KEYS", "OPENAI_API_KEY=https://api.openai.com")
for _bound in BACKEND_KEYS:
    if not re.fullmatch(r"[A-Z][A-Z0-9_]*_API_KEY=https?://[^/\s]+/?", _bound) or _bound.startswith("RECKONER_"):
        raise InvalidSetting(
            f"RECKONER_BACKEND_KEYS={_bound!r}: give variables with the origins of their servers, separated by commas, "
            "such as OPENAI_API_KEY=https://api.openai.com; no RECKONER_ variable"
        )
# A server that has another one to stand in for it is waited for no longer than this.
FALLBACK_SECONDS = env_float("RECKONER_FALLBACK_SECONDS", "1.2")
LONGEST_ANSWER_SECONDS = env_float("RECKONER_LONGEST_ANSWER_SECONDS", "840")
# Where apps reach the gateway, as the page that connects an app writes it; "": port 8020 of the host that serves it.
GATEWAY_URL = env("RECKONER_GATEWAY_URL", embedded_url("GATEWAY_URL") or "")
# How many chats the gateway answers at the same time. It refuses further ones.
GATEWAY_CHATS = env_int("RECKONER_GATEWAY_CHATS", "512")
# Processes of the gateway, each of which answers so many.
GATEWAY_PROCESSES = env_int("RECKONER_GATEWAY_PROCESSES", "2")
if not 1 <= GATEWAY_PROCESSES <= 64:
    raise InvalidSetting("RECKONER_GATEWAY_PROCESSES: 1 to 64")
# A chat may hold pictures and files: so many bytes at most, of which 1 MB without them.
CHAT_BODY_BYTES = env_int("RECKONER_CHAT_BODY_BYTES", "20971520")
# All chats of one process of the gateway together. A key may fill a fourth, so that the largest chat has room in it.
CHATS_BYTES = env_int("RECKONER_CHATS_BYTES", "536870912")
if CHATS_BYTES < 4 * CHAT_BODY_BYTES:
    raise InvalidSetting(f"RECKONER_CHATS_BYTES: at least {4 * CHAT_BODY_BYTES}, four times RECKONER_CHAT_BODY_BYTES")
# How often backends are asked whether they answer.
BACKEND_CHECK_SECONDS = env_float("RECKONER_BACKEND_CHECK_SECONDS", "15")
# Of a picture in a chat, where a key's budget reserves what the chat may cost.
PICTURE_TOKENS = env_int("RECKONER_PICTURE_TOKENS", "2500")
# A decision that is asked for again, while a budget pays for its answer, waits so long for that answer.
REPEATED_DECISION_SECONDS = env_float("RECKONER_REPEATED_DECISION_SECONDS", "30")
# A call of the gateway that is open for longer belonged to a process that was killed.
CALL_SECONDS = env_float("RECKONER_CALL_SECONDS", "900")
BASE_MODEL = env("RECKONER_BASE_MODEL", "tiny")
# What else a run may begin with: hub ids, and folders (absolute) whose subfolders are models.
BASE_MODELS = env_list("RECKONER_BASE_MODELS", "Qwen/Qwen2.5-0.5B-Instruct,HuggingFaceTB/SmolLM2-135M-Instruct")

LOGGING = project_logging.LOGGING

# The demo world: how many passages teach the base, are decided on, and meet the experiment.
DEMO_SEED = env_int("RECKONER_DEMO_SEED", "0")
DEMO_SEED_LABELS = env_int("RECKONER_DEMO_SEED_LABELS", "200")
DEMO_DECISIONS = env_int("RECKONER_DEMO_DECISIONS", "4800")
DEMO_EXPERIMENT_UNITS = env_int("RECKONER_DEMO_EXPERIMENT_UNITS", "1900")
