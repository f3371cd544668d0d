"""Where versions are served, and what was asked of them: backends, deployments, calls (docs/adr/0030)."""

from __future__ import annotations

from django.contrib.postgres.fields import ArrayField
from django.db import models
from django.db.models import Q

from workspaces.models import WorkspaceOwned
from workspaces.storage.ids import uuid7

# Other variables hold secrets of the instance, which no admin may have sent anywhere.
KEY_VARIABLE = r"^[A-Z][A-Z0-9_]{0,90}_API_KEY$"


class BackendKind(models.TextChoices):
    MODEL_SERVER = "model_server", "Reckoner's model server"
    OPENAI = "openai", "OpenAI-compatible server"
    VLLM = "vllm", "vLLM"


class Capability(models.TextChoices):
    """What a backend can do beyond answering a chat."""

    SCORE = "score", "Probabilities of given options"
    STREAM = "stream", "Streams"
    TOOLS = "tools", "Tool calls"
    JSON_SCHEMA = "json_schema", "Answers that fit a JSON schema"
    CHOICE = "choice", "Answers that are one of given options"
    LOGPROBS = "logprobs", "Log-probabilities of tokens"
    ADAPTERS = "adapters", "Loads adapters over its API"
    GRAMMAR = "grammar", "Models trained here, asked as in training"


class BackendState(models.TextChoices):
    UNKNOWN = "unknown", "Not asked yet"
    UP = "up", "Answers"
    DOWN = "down", "Does not answer"


class Backend(WorkspaceOwned):
    """A server of models. The instance's own model server serves every stored version without a row here.

    `key_variable` names the environment variable that holds its key: a secret is never a row. `connect_seconds` is more
    than a second, after which a kernel knocks again where a server's queue was full. `timeout_seconds` is for
    a whole answer, of a stream for the wait between two parts. Prices are for a million tokens. `artifacts_path` is
    where the server sees the store of artifacts, from which it loads adapters; empty: where this instance has it.
    `state` is the prober's.
    """

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    name = models.SlugField(max_length=63)
    kind = models.CharField(max_length=16, choices=BackendKind.choices)
    url = models.CharField(max_length=500, help_text="Up to and with /v1, where the server has it")
    key_variable = models.CharField(max_length=100, blank=True)
    capabilities = ArrayField(models.CharField(max_length=16, choices=Capability.choices), default=list, blank=True)
    connect_seconds = models.FloatField(default=5.0)
    timeout_seconds = models.FloatField(default=20.0)
    retries = models.PositiveSmallIntegerField(default=1)
    price_in = models.DecimalField(max_digits=12, decimal_places=6, default=0)
    price_out = models.DecimalField(max_digits=12, decimal_places=6, default=0)
    artifacts_path = models.CharField(max_length=500, blank=True, default="", db_default="")
    enabled = models.BooleanField(default=True)
    state = models.CharField(max_length=16, choices=BackendState.choices, default=BackendState.UNKNOWN)
    error = models.CharField(max_length=500, blank=True)
    checked_at = models.DateTimeField(null=True, blank=True)
    state_since = models.DateTimeField(null=True, blank=True)
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["workspace", "name"], name="backend_once"),
            models.CheckConstraint(condition=Q(kind__in=BackendKind.values), name="backend_kind_known"),
            models.CheckConstraint(condition=Q(state__in=BackendState.values), name="backend_state_known"),
            models.CheckConstraint(
                condition=Q(capabilities__contained_by=list(Capability.values)), name="backend_capabilities_known"
            ),
            models.CheckConstraint(
                condition=Q(key_variable="") | Q(key_variable__regex=KEY_VARIABLE), name="backend_key_is_a_variable"
            ),
            models.CheckConstraint(
                condition=Q(
                    connect_seconds__gt=0, timeout_seconds__gt=0, retries__lte=5, price_in__gte=0, price_out__gte=0
                ),
                name="backend_limits_make_sense",
            ),
        ]

    def __str__(self) -> str:
        return self.name


class Deployment(WorkspaceOwned):
    """A version on a backend. Those of one version are asked from the lowest `priority` up.

    `remote_name` is what the backend calls it; empty: the version's own name there (the digest of a stored version, a
    remote version's `remote_name`). `export` is the artifact that was brought there, where it is not the version's own.
    `error` says why the backend has not loaded an adapter; it is asked last then.
    """

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    version = models.ForeignKey("models_registry.ModelVersion", on_delete=models.CASCADE, related_name="deployments")
    backend = models.ForeignKey(Backend, on_delete=models.PROTECT, related_name="deployments")
    remote_name = models.CharField(max_length=200, blank=True)
    export = models.ForeignKey(
        "models_registry.Artifact", on_delete=models.PROTECT, null=True, blank=True, related_name="deployments"
    )
    priority = models.PositiveSmallIntegerField(default=0)
    enabled = models.BooleanField(default=True)
    error = models.CharField(max_length=500, blank=True, default="", db_default="")
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        ordering = ["priority", "id"]
        constraints = [
            models.UniqueConstraint(fields=["version", "backend", "remote_name"], name="deployment_once"),
        ]

    def __str__(self) -> str:
        return f"{self.version} on {self.backend}"


class CallKind(models.TextChoices):
    DECIDE = "decide", "Decision"
    CHAT = "chat", "Chat completion"
    RESPONSE = "response", "Response"
    PLAYGROUND = "playground", "Playground"


class CallState(models.TextChoices):
    OPEN = "open", "Being answered"
    ANSWERED = "answered", "Answered"
    FAILED = "failed", "Failed"
    LEFT = "left", "The client left"
    ABANDONED = "abandoned", "Abandoned"


class Call(WorkspaceOwned):
    """One question to the gateway. Its id is that of the decision that it becomes.

    Written before the first byte of the answer, closed in the decision's transaction. One that stays open belonged to a
    process that was killed, and is found as abandoned. `assigned` is the version that should have answered, `served`
    the one that did, on `backend` (null: the instance's own model server). They differ after a fallback, and `fallback`
    says why: which server failed, and how. Where nobody answered, `backend` is the one that was asked last (null: the
    instance's own model server, or none). `unusable_answers` counts those of `assigned` that did not fit
    what was asked for. `reserved`: of its key's budget, while it is open. It holds nothing of what was asked or
    answered.
    """

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    # Written with every answer: the indexes are those that queries use, as in the ledger.
    workspace = models.ForeignKey("workspaces.Workspace", on_delete=models.CASCADE, db_index=False, related_name="+")
    api_key = models.ForeignKey(
        "workspaces.ApiKey", on_delete=models.SET_NULL, null=True, blank=True, db_index=False, related_name="+"
    )
    registered_model = models.ForeignKey(
        "models_registry.RegisteredModel", on_delete=models.CASCADE, db_index=False, related_name="+"
    )
    kind = models.CharField(max_length=16, choices=CallKind.choices)
    state = models.CharField(max_length=16, choices=CallState.choices, default=CallState.OPEN)
    assigned = models.ForeignKey(
        "models_registry.ModelVersion", on_delete=models.PROTECT, db_index=False, related_name="+"
    )
    served = models.ForeignKey(
        "models_registry.ModelVersion",
        on_delete=models.PROTECT,
        null=True,
        blank=True,
        db_index=False,
        related_name="+",
    )
    backend = models.ForeignKey(
        Backend, on_delete=models.PROTECT, null=True, blank=True, db_index=False, related_name="+"
    )
    fallback = models.CharField(max_length=500, blank=True)
    error = models.CharField(max_length=500, blank=True)
    unusable_answers = models.PositiveSmallIntegerField(default=0, db_default=0)
    cached = models.BooleanField(default=False)
    tokens_in = models.PositiveIntegerField(null=True, blank=True)
    tokens_out = models.PositiveIntegerField(null=True, blank=True)
    cost = models.DecimalField(max_digits=14, decimal_places=8, null=True, blank=True)
    reserved = models.DecimalField(max_digits=14, decimal_places=8, default=0, db_default=0)
    opened_at = models.DateTimeField()
    first_byte_at = models.DateTimeField(null=True, blank=True)
    closed_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        constraints = [
            models.CheckConstraint(condition=Q(kind__in=CallKind.values), name="call_kind_known"),
            models.CheckConstraint(condition=Q(state__in=CallState.values), name="call_state_known"),
            models.CheckConstraint(
                condition=Q(state=CallState.OPEN, closed_at__isnull=True)
                | (~Q(state=CallState.OPEN) & Q(closed_at__isnull=False)),
                name="call_closed_at_exactly_when_over",
            ),
            models.CheckConstraint(
                condition=~Q(state=CallState.ANSWERED) | Q(served__isnull=False), name="call_answered_by_a_version"
            ),
            models.CheckConstraint(
                condition=~Q(state=CallState.FAILED) | ~Q(error=""), name="call_failed_for_a_reason"
            ),
            models.CheckConstraint(condition=Q(cost__isnull=True) | Q(cost__gte=0), name="call_cost_not_negative"),
            models.CheckConstraint(condition=Q(reserved__gte=0), name="call_reserved_not_negative"),
        ]
        indexes = [
            models.Index(fields=["workspace", "-id"], name="call_newest"),
            models.Index(fields=["opened_at"], condition=Q(state=CallState.OPEN), name="call_open"),
        ]

    def __str__(self) -> str:
        return f"{self.kind} {self.id} ({self.state})"


class KeySpend(WorkspaceOwned):
    """What the calls of a key have cost in one UTC day, and what the open ones have reserved, so that a budget need not
    add them up with every request.

    Made for keys with a budget by the day's first request (`models_registry.calls.budgets`), and counted up by
    whatever opens or closes a call. Calls count for the day in which they were opened.
    """

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    api_key = models.ForeignKey("workspaces.ApiKey", on_delete=models.CASCADE, db_index=False, related_name="spends")
    day = models.DateField()
    spent = models.DecimalField(max_digits=20, decimal_places=8)
    reserved = models.DecimalField(max_digits=20, decimal_places=8, default=0, db_default=0)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["api_key", "day"], name="key_spend_once_a_day"),
            models.CheckConstraint(condition=Q(spent__gte=0), name="key_spend_not_negative"),
            models.CheckConstraint(condition=Q(reserved__gte=0), name="key_spend_reserved_not_negative"),
        ]

    def __str__(self) -> str:
        return f"{self.api_key} on {self.day:%Y-%m-%d}"
