"""Serializers of backends, deployments, aliases and calls."""

from __future__ import annotations

from typing import Any

from rest_framework import serializers

from models_registry.backends.services import LONGEST_SECONDS, MOST_PRIORITY, MOST_RETRIES, NAME
from models_registry.models import AliasMove, Backend, BackendKind, Call, Capability, Deployment
from models_registry.models.serving import KEY_VARIABLE
from models_registry.models.version import ALIAS_NAME
from workspaces.http.bodies import StrictBody

SECONDS = {"exclusiveMinimum": 0, "maximum": LONGEST_SECONDS}
PRICE = {"pattern": r"^\d{1,6}(\.\d{1,6})?$"}
PRIORITY = {"minimum": 0, "maximum": MOST_PRIORITY}
ALIAS = {"pattern": ALIAS_NAME}


class BackendSerializer(serializers.ModelSerializer[Backend]):
    class Meta:
        model = Backend
        fields = [
            "id", "name", "kind", "url", "key_variable", "capabilities", "connect_seconds", "timeout_seconds",
            "retries", "price_in", "price_out", "artifacts_path", "enabled", "state", "error", "checked_at",
            "state_since", "created_at",
        ]  # fmt: skip


class BackendChangeSerializer(StrictBody):
    """What is left out stays as it is."""

    stated = {
        "name": {"pattern": f"^(?:{NAME})$"},
        "url": {"pattern": r"^https?://(\[[0-9a-fA-F:]+\]|[A-Za-z0-9.-]+)(:[0-9]{1,5})?(/[!-\"$->@-~]*)?$"},
        "key_variable": {"pattern": f"^$|{KEY_VARIABLE}"},
        "connect_seconds": SECONDS,
        "timeout_seconds": SECONDS,
        "retries": {"minimum": 0, "maximum": MOST_RETRIES},
        "price_in": PRICE,
        "price_out": PRICE,
        "artifacts_path": {"pattern": r"^(?:/[^\x00]*)?$", "maxLength": 499},
    }
    url = serializers.CharField(
        required=False, max_length=500, help_text="Address up to and including /v1, if the server has it"
    )
    key_variable = serializers.CharField(
        required=False, allow_blank=True, max_length=100, help_text="The environment variable that holds its key"
    )
    capabilities = serializers.ListField(child=serializers.ChoiceField(choices=Capability.choices), required=False)
    connect_seconds = serializers.FloatField(required=False)
    timeout_seconds = serializers.FloatField(required=False)
    retries = serializers.IntegerField(required=False)
    price_in = serializers.DecimalField(
        required=False, max_digits=12, decimal_places=6, help_text="Price per million prompt tokens"
    )
    price_out = serializers.DecimalField(
        required=False, max_digits=12, decimal_places=6, help_text="Price per million answer tokens"
    )
    artifacts_path = serializers.CharField(
        required=False,
        allow_blank=True,
        max_length=500,
        help_text="Path of the artifact store on the server, to load adapters from; empty: the same as here",
    )
    enabled = serializers.BooleanField(required=False)

    def validate_capabilities(self, value: list[str]) -> tuple[str, ...]:
        return tuple(value)


class BackendCreateSerializer(BackendChangeSerializer):
    name = serializers.CharField(max_length=63)
    url = serializers.CharField(max_length=500, help_text="Address up to and including /v1, if the server has it")
    kind = serializers.ChoiceField(choices=BackendKind.choices, default=BackendKind.OPENAI)


class RemoteVersionSerializer(StrictBody):
    model = serializers.CharField(max_length=63, help_text="The registered model's name")
    remote_name = serializers.CharField(max_length=200, help_text="What the backend calls it")
    backend = serializers.UUIDField()
    description = serializers.CharField(max_length=500, required=False, default="", allow_blank=True)


class DeploymentSerializer(serializers.ModelSerializer[Deployment]):
    version = serializers.CharField(source="version.__str__")
    backend = serializers.CharField(source="backend.name")
    backend_state = serializers.CharField(source="backend.state")

    class Meta:
        model = Deployment
        fields = [
            "id", "version", "backend", "backend_state", "remote_name", "priority", "enabled", "error", "created_at",
        ]  # fmt: skip


class DeploymentCreateSerializer(StrictBody):
    stated = {"priority": PRIORITY}
    backend = serializers.UUIDField()
    remote_name = serializers.CharField(
        max_length=200,
        required=False,
        default="",
        allow_blank=True,
        help_text="Its name on the backend; empty: the version's own name",
    )
    priority = serializers.IntegerField(required=False, default=0, help_text="The lowest is asked first")


class DeploymentChangeSerializer(StrictBody):
    """What is left out stays as it is."""

    stated = {"priority": PRIORITY}
    priority = serializers.IntegerField(required=False, help_text="The lowest is asked first")
    enabled = serializers.BooleanField(required=False)


class AliasSerializer(StrictBody):
    stated = {"alias": ALIAS}
    alias = serializers.CharField(max_length=63)
    reason = serializers.CharField(max_length=500, required=False, default="", allow_blank=True)


class RevertSerializer(StrictBody):
    stated = {"alias": ALIAS}
    alias = serializers.CharField(max_length=63)
    move = serializers.UUIDField(
        required=False,
        allow_null=True,
        default=None,
        help_text="ID of the last move that you saw; refused if the alias has moved since",
    )
    reason = serializers.CharField(max_length=200, required=False, default="", allow_blank=True)


class AliasMoveSerializer(serializers.ModelSerializer[AliasMove]):
    alias = serializers.CharField(source="name")
    before = serializers.SerializerMethodField(help_text="What it pointed at; null: nothing")
    after = serializers.SerializerMethodField(help_text="What it has pointed at since; null: nothing")

    class Meta:
        model = AliasMove
        fields = ["id", "alias", "before", "after", "by", "reason", "moved_at"]

    def get_before(self, move: AliasMove) -> str | None:
        return str(move.before) if move.before is not None else None

    def get_after(self, move: AliasMove) -> str | None:
        return str(move.after) if move.after is not None else None


class CallSerializer(serializers.ModelSerializer[Call]):
    """`id` is the decision's. `served` differs from `assigned` after a fallback, and `fallback` says why."""

    model = serializers.CharField(source="registered_model.name")
    assigned = serializers.CharField(source="assigned.__str__")
    served = serializers.SerializerMethodField()
    backend = serializers.SerializerMethodField(
        help_text="The backend that answered, else the one asked last; null: the instance's own model server, or none"
    )

    class Meta:
        model = Call
        fields = [
            "id", "model", "kind", "state", "assigned", "served", "backend", "fallback", "error", "unusable_answers",
            "cached", "tokens_in", "tokens_out", "cost", "opened_at", "first_byte_at", "closed_at",
        ]  # fmt: skip

    def get_served(self, call: Any) -> str | None:
        return str(call.served) if call.served is not None else None

    def get_backend(self, call: Any) -> str | None:
        return call.backend.name if call.backend is not None else None


class KeyUseSerializer(serializers.Serializer[Any]):
    """Of a `models_registry.calls.key_limits.KeyUse`, and the requests of this minute."""

    calls = serializers.IntegerField(help_text="Since 00:00 UTC")
    spent = serializers.DecimalField(
        max_digits=20, decimal_places=8, help_text="Cost of calls since 00:00 UTC, in the unit of the backends' prices"
    )
    reserved = serializers.DecimalField(
        max_digits=20,
        decimal_places=8,
        help_text="What open calls may cost at most; 0 without a budget",
    )
    unpriced = serializers.IntegerField(
        help_text="Answered calls whose cost is not known; of a key with a budget they count at what they reserved"
    )
    requests = serializers.IntegerField(
        allow_null=True,
        help_text="Requests in this minute, at most: each process counts them in steps of a hundredth of the limit. "
        "Null if not known",
    )
