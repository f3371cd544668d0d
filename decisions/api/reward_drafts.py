"""/api/v1/agents/{slug}/reward-drafts: reward specs that are tried on history before they are published."""

from __future__ import annotations

import uuid
from typing import Any

from drf_spectacular.utils import extend_schema
from rest_framework import generics
from rest_framework.request import Request
from rest_framework.response import Response

from decisions.api.editing import get_agent
from decisions.api.reward_specs import IF_MATCH, InYamlToo, read_body
from decisions.api.serializers.rewards import RevisedSpecSerializer, RewardDraftSerializer, RewardSpecBody
from decisions.models import RewardDraft
from decisions.rewards.what_if import draft_reward_spec, drop_draft, publish_draft
from workspaces.errors import NotFound
from workspaces.http.openapi import ErrorSerializer
from workspaces.http.permissions import acting
from workspaces.models import Scope


class RewardDraftList(InYamlToo, generics.ListAPIView[RewardDraft]):
    """Lists the drafts of an agent's reward spec, newest first."""

    scopes = {"GET": Scope.EXPORT_READ, "POST": Scope.ADMIN}
    serializer_class = RewardDraftSerializer
    queryset = RewardDraft.objects.none()

    def get_queryset(self) -> Any:
        drafts = get_agent(self.request, self.kwargs["slug"]).reward_drafts
        return drafts.select_related("base", "job", "published")

    @extend_schema(operation_id="list_reward_drafts", tags=["rewards"])
    def get(self, request: Request, *args: Any, **kwargs: Any) -> Response:
        return super().get(request, *args, **kwargs)

    @extend_schema(
        operation_id="draft_reward_spec",
        tags=["rewards"],
        parameters=[IF_MATCH],
        request=RewardSpecBody,
        responses={"202": RewardDraftSerializer, "409": ErrorSerializer},
    )
    def post(self, request: Request, slug: str) -> Response:
        """Makes a draft and queues a job that values the agent's history by it. No reward is written.

        It values every decision that can have a reward, or a sample of 20,000 of them that a seed decides. `result`
        compares the draft with the version that it is based on.
        """
        agent = get_agent(request, slug)
        expected, content = read_body(request)
        draft = draft_reward_spec(by=acting(request), agent=agent, expected=expected, content=content)
        return Response(RewardDraftSerializer(draft).data, status=202)


class RewardDraftDetail(InYamlToo):
    """Reads a draft with the comparison, once its job has made it."""

    scopes = {"GET": Scope.EXPORT_READ}

    @extend_schema(operation_id="read_reward_draft", tags=["rewards"], responses={"200": RewardDraftSerializer})
    def get(self, request: Request, slug: str, pk: uuid.UUID) -> Response:
        return Response(RewardDraftSerializer(_get_draft(request, slug, pk)).data)


class RewardDraftPublish(InYamlToo):
    """Makes a draft the next version of the reward spec."""

    scopes = {"POST": Scope.ADMIN}

    @extend_schema(
        operation_id="publish_reward_draft",
        tags=["rewards"],
        request=None,
        responses={"201": RevisedSpecSerializer, "409": ErrorSerializer},
    )
    def post(self, request: Request, slug: str, pk: uuid.UUID) -> Response:
        """Makes a draft the next version of the reward spec, and queues a calculation of the agent's rewards.

        Where there is a newer version than the draft is based on, the answer is 409 `outdated_version`.
        """
        revision = publish_draft(by=acting(request), draft=_get_draft(request, slug, pk))
        answer = RevisedSpecSerializer(revision.spec, context={"calculation": revision.calculation})
        return Response(answer.data, status=201, headers={"ETag": f'"{revision.spec.number}"'})


class RewardDraftDrop(InYamlToo):
    """Drops a draft that is not published."""

    scopes = {"POST": Scope.ADMIN}

    @extend_schema(
        operation_id="drop_reward_draft",
        tags=["rewards"],
        request=None,
        responses={"200": RewardDraftSerializer, "409": ErrorSerializer},
    )
    def post(self, request: Request, slug: str, pk: uuid.UUID) -> Response:
        """Deletes a draft that is not published, and answers with what it was."""
        draft = _get_draft(request, slug, pk)
        answer = RewardDraftSerializer(draft).data
        drop_draft(by=acting(request), draft=draft)
        return Response(answer)


def _get_draft(request: Request, slug: str, pk: uuid.UUID) -> RewardDraft:
    drafts = get_agent(request, slug).reward_drafts.select_related("agent", "base", "job", "published")
    draft: RewardDraft | None = drafts.filter(id=pk).first()
    if draft is None:
        raise NotFound("This agent has no draft with this ID.")
    return draft
