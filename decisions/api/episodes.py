"""/api/v1: steps and episodes. Views parse, call one service, answer."""

from __future__ import annotations

import uuid
from typing import Any

from django.http import HttpResponse
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework import generics
from rest_framework.request import Request
from rest_framework.response import Response

from decisions.answer_ids import read_decision_id
from decisions.api.batches import IngestListView, body_of
from decisions.api.serializers.batches import BatchResultSerializer
from decisions.api.serializers.episodes import (
    EpisodeDetailSerializer,
    EpisodeSerializer,
    FoundSerializer,
    StepSerializer,
)
from decisions.ingest.decoding import BodyDecoder
from decisions.ingest.episode_facts import record_episodes
from decisions.ingest.step_schemas import EpisodeIn, StepIn
from decisions.ingest.steps import record_steps
from decisions.models import Decision, Episode, Step
from decisions.queries.episode_list import Filters, walk_episodes
from decisions.queries.episodes import Totals, find_steps, find_totals
from workspaces.errors import FieldFault, InvalidInput
from workspaces.http.openapi import ErrorSerializer
from workspaces.http.parsing import raw_body, text_parameter
from workspaces.http.permissions import acting
from workspaces.models import Scope

STEPS = BodyDecoder(StepIn)
EPISODES = BodyDecoder(EpisodeIn)
MOST_SHOWN = 1000


def id_parameter(request: Request, name: str) -> uuid.UUID | None:
    """An id of the query string, a decision's in any of its forms; None where it is missing. Raises InvalidInput."""
    given = text_parameter(request, name)
    try:
        return read_decision_id(given) if given else None
    except ValueError as error:
        raise InvalidInput(
            "The query is invalid.", faults=[FieldFault(name, f"{given!r} is not an id", "a uuid")]
        ) from error


class StepList(IngestListView[Step]):
    """Lists steps, newest first."""

    scopes = {"GET": Scope.EXPORT_READ, "POST": Scope.DECISIONS_WRITE}
    serializer_class = StepSerializer

    def get_queryset(self) -> Any:
        steps = Step.objects.for_workspace(acting(self.request).workspace).defer("content_hash")
        for name in ("episode", "decision"):
            if (wanted := id_parameter(self.request, name)) is not None:
                steps = steps.filter(**{f"{name}_id": wanted})
        return steps

    @extend_schema(
        parameters=[
            OpenApiParameter("episode", uuid.UUID, description="Only this episode's steps"),
            OpenApiParameter("decision", uuid.UUID, description="Only this decision's steps"),
        ]
    )
    def get(self, request: Request, *args: Any, **kwargs: Any) -> Response:
        return super().get(request, *args, **kwargs)

    @extend_schema(
        operation_id="record_steps",
        request=body_of(StepIn),
        responses={"201": BatchResultSerializer, "207": BatchResultSerializer, "410": ErrorSerializer},
    )
    def post(self, request: Request) -> HttpResponse:
        """Records tool calls, model calls and reasoning of episodes and decisions."""
        batch = STEPS.decode(raw_body(request))
        return self.answer(record_steps(by=acting(request), items=batch.items), batch)


class EpisodeList(IngestListView[Episode]):
    """Lists episodes, newest first. Those on held-out tasks only where their session is asked for."""

    scopes = {"GET": Scope.EXPORT_READ, "POST": Scope.DECISIONS_WRITE}
    serializer_class = EpisodeSerializer

    def get_queryset(self) -> Any:
        asked = {name: text_parameter(self.request, name) or "" for name in ("agent", "session")}
        episodes = walk_episodes(acting(self.request).workspace, Filters(**asked)).select_related("agent")
        unit = text_parameter(self.request, "unit")
        return episodes.filter(unit=unit) if unit else episodes

    @extend_schema(
        parameters=[
            OpenApiParameter("agent", str, description="Only this agent's episodes"),
            OpenApiParameter("session", str, description="Only this session's episodes"),
            OpenApiParameter("unit", str, description="Only this unit's episodes"),
        ]
    )
    def get(self, request: Request, *args: Any, **kwargs: Any) -> Response:
        return super().get(request, *args, **kwargs)

    @extend_schema(
        operation_id="record_episodes",
        request=body_of(EpisodeIn),
        responses={"201": BatchResultSerializer, "207": BatchResultSerializer, "410": ErrorSerializer},
    )
    def post(self, request: Request) -> HttpResponse:
        """Records facts about episodes, all at once or step by step."""
        batch = EPISODES.decode(raw_body(request))
        return self.answer(record_episodes(by=acting(request), items=batch.items), batch)


class EpisodeDetail(generics.GenericAPIView[Episode]):
    """Reads one episode with its decisions and steps in order, and their totals."""

    scopes = {"GET": Scope.EXPORT_READ}
    serializer_class = EpisodeDetailSerializer

    def get_queryset(self) -> Any:
        return Episode.objects.for_workspace(acting(self.request).workspace).select_related("agent")

    def get(self, request: Request, pk: Any) -> Response:
        episode = self.get_object()
        decisions = (
            Decision.objects.for_workspace(episode.workspace)
            .filter(episode=episode)
            .select_related("agent", "agent_version", "model_version__registered_model", "exposure")
            .defer("content_hash", "token_ids", "logprobs")
            .order_by("id")[:MOST_SHOWN]
        )
        found = {
            "totals": find_totals([episode.id]).get(episode.id, Totals()),
            "decisions": decisions,
            "steps": find_steps(episode, most=MOST_SHOWN),
        }
        return Response(EpisodeSerializer(episode).data | FoundSerializer(found).data)
