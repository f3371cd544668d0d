# ruff: noqa: E402 - settings first
"""What most would write first, for benchmarks.ingest alone: a ModelSerializer and a CreateAPIView on the same table.

Server, middleware, authentication and permission are those of the product's endpoint; served by
`granian --interface wsgi benchmarks.plain_endpoint:application`.
"""

from __future__ import annotations

import hashlib
import os
from typing import Any

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "project.settings")

from django.conf import settings

settings.ROOT_URLCONF = "benchmarks.plain_endpoint"

from django.core.wsgi import get_wsgi_application

application = get_wsgi_application()

from django.contrib.auth.decorators import login_not_required
from django.urls import path
from django.utils import timezone
from rest_framework import generics, parsers, serializers

from decisions.models import Decision
from workspaces.models import Scope
from workspaces.permissions import acting


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
    parser_classes = [parsers.JSONParser]

    def perform_create(self, serializer: Any) -> None:
        serializer.save(
            workspace=acting(self.request).workspace,
            recorded_at=timezone.now(),
            content_hash=hashlib.sha256(repr(serializer.validated_data).encode()).digest(),
        )


urlpatterns = [path("plain/decisions", login_not_required(PlainDecisions.as_view()))]
