"""/api/v1/agents/…/rewards/summary: an agent's rewards over time, as its page of rewards shows them."""

from __future__ import annotations

from django.utils import timezone
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from decisions.api.serializers.reward_summary import RewardSummarySerializer
from decisions.errors import UnknownAgent
from decisions.models import Agent
from decisions.queries.reward_sample import DEFAULT_RANGE, RANGES, parse_range
from decisions.queries.reward_summary import summarise_rewards
from workspaces.errors import NotFound
from workspaces.http.parsing import text_parameter
from workspaces.http.permissions import acting
from workspaces.http.queries import refuse_unknown_names
from workspaces.models import Scope


class RewardSummaryDetail(APIView):
    """Tells an agent's rewards over time, by component, what is open or failed, and how long verdicts take.

    By its newest reward spec. Of each hour, day or week the newest decisions are looked at, 8,000 in all.
    """

    scopes = {"GET": Scope.EXPORT_READ}

    @extend_schema(
        operation_id="reward_summary",
        parameters=[
            OpenApiParameter(
                "since", str, enum=list(RANGES), default=DEFAULT_RANGE, description="How far it goes back from now"
            )
        ],
        responses={"200": RewardSummarySerializer},
    )
    def get(self, request: Request, slug: str) -> Response:
        refuse_unknown_names(request, ["since"])
        time = parse_range(text_parameter(request, "since") or "")
        agent = Agent.objects.for_workspace(acting(request).workspace).filter(slug=slug).first()
        if agent is None:
            raise UnknownAgent(f"There is no agent {slug!r} in this workspace.")
        spec = agent.reward_specs.order_by("-number").first()
        if spec is None:
            raise NotFound(f"The agent {slug!r} has no reward spec.")
        return Response(RewardSummarySerializer(summarise_rewards(agent, spec, time, now=timezone.now())).data)
