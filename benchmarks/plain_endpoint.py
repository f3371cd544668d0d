# ruff: noqa: E402 - settings first
"""What most would write first, for benchmarks.ingest alone: a ModelSerializer and a CreateAPIView on the same table.

It runs under the product's server and middleware, and takes the same keys, read by the ORM.
Served by `gunicorn benchmarks.plain_endpoint:application`.
"""

from __future__ import annotations

import hashlib
import hmac
import os
from typing import Any

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "project.settings")

from django.conf import settings

settings.ROOT_URLCONF = "benchmarks.plain_endpoint"
settings.MIDDLEWARE = [
    name for name in settings.MIDDLEWARE if name != "workspaces.http.idempotency.IdempotencyMiddleware"
]

from django.core.wsgi import get_wsgi_application

application = get_wsgi_application()

from django.contrib.auth.decorators import login_not_required
from django.urls import path
from django.utils import timezone
from rest_framework import authentication, exceptions, generics, parsers, renderers, serializers

from decisions.models import Decision
from workspaces.access import actors
from workspaces.access.services import secret_hmac
from workspaces.http.permissions import acting
from workspaces.models import ApiKey, Scope


class PlainKey(authentication.BaseAuthentication):
    def authenticate(self, request: Any) -> Any:
        prefix, _, secret = request.headers.get("Authorization", "").removeprefix("Bearer ").partition(".")
        key = ApiKey.objects.select_related("workspace").filter(prefix=prefix, revoked_at=None).first()
        if key is None or not hmac.compare_digest(bytes(key.secret_hmac), secret_hmac(secret)):
            raise exceptions.AuthenticationFailed
        return actors.program(key), key


class PlainSerializer(serializers.ModelSerializer[Decision]):
    class Meta:
        model = Decision
        fields = (
            "id", "agent", "agent_version", "unit", "state", "options", "action", "policy_name", "propensity",
            "confidence", "latency_ms", "tokens_in", "tokens_out", "observed_at",
        )  # fmt: skip


class PlainDecisions(generics.CreateAPIView[Decision]):
    scopes = {"POST": Scope.DECISIONS_WRITE}
    serializer_class = PlainSerializer
    authentication_classes = [PlainKey]
    parser_classes = [parsers.JSONParser]
    renderer_classes = [renderers.JSONRenderer]

    def perform_create(self, serializer: Any) -> None:
        serializer.save(
            workspace=acting(self.request).workspace,
            recorded_at=timezone.now(),
            content_hash=hashlib.sha256(repr(serializer.validated_data).encode()).digest(),
        )


urlpatterns = [path("plain/decisions", login_not_required(PlainDecisions.as_view()))]
