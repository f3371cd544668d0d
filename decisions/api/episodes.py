"""/api/v1: steps and episodes. Views parse, call one service, answer."""

from __future__ import annotations

from typing import Any

from django.http import HttpResponse
from drf_spectacular.utils import extend_schema
from rest_framework import generics
from rest_framework.request import Request
from rest_framework.response import Response

from decisions.agents.current import refuse_unknown_agent
from decisions.api.batches import IngestListView, body_of
from decisions.api.list_queries import EpisodeQuery, StepQuery
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
from decisions.queries.episode_ends import fill_ends
from decisions.queries.episode_list import Filters, find_episodes_named, walk_episodes
from decisions.queries.episodes import fill_totals, find_steps
from workspaces.http.openapi import ErrorSerializer
from workspaces.http.parsing import raw_body
from workspaces.http.permissions import acting
from workspaces.http.queries import list_query
from workspaces.models import Scope

STEPS = BodyDecoder(StepIn)
EPISODES = BodyDecoder(EpisodeIn)
MOST_SHOWN = 1000


class StepList(IngestListView[Step]):
    """Lists steps, newest first."""

    scopes = {"GET": Scope.EXPORT_READ, "POST": Scope.DECISIONS_WRITE}
    serializer_class = StepSerializer
    query_class = StepQuery

    def get_queryset(self) -> Any:
        query = list_query(self)
        steps = Step.objects.for_workspace(acting(self.request).workspace).defer("content_hash")
        return steps.filter(**{f"{name}_id": query[name] for name in ("episode", "decision") if name in query})

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
    query_class = EpisodeQuery

    def get_queryset(self) -> Any:
        query, workspace = list_query(self), acting(self.request).workspace
        refuse_unknown_agent(workspace, query)
        filters = Filters(**{name: query.get(name, "") for name in ("agent", "session", "unit")})
        episodes = walk_episodes(workspace, filters).select_related("agent")
        if "external_id" in query:
            episodes = episodes.filter(id__in=find_episodes_named(workspace, query["external_id"]))
        return episodes

    def paginate_queryset(self, queryset: Any) -> Any:
        page = super().paginate_queryset(queryset)
        fill_totals(page or [])
        fill_ends(page or [])
        return page

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
        decisions = list(
            Decision.objects.for_workspace(episode.workspace)
            .filter(episode=episode)
            .select_related("agent", "agent_version", "model_version__registered_model", "exposure")
            .defer("content_hash", "token_ids", "logprobs")
            .order_by("id")[:MOST_SHOWN]
        )
        if any(decision.finish_reason for decision in decisions):
            fill_ends([episode])
        found = {
            "totals": fill_totals([episode])[episode.id],
            "decisions": decisions,
            "steps": find_steps(episode, most=MOST_SHOWN),
        }
        return Response(EpisodeSerializer(episode).data | FoundSerializer(found).data)
