"""/api/v1/reward-components and /api/v1/agents/{slug}/reward-specs, in JSON and YAML: what decisions are worth."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django.http import Http404
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework import generics
from rest_framework.renderers import JSONRenderer
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from decisions.api.editing import STATED_ETAG, get_agent, read_expected
from decisions.api.serializers.rewards import (
    ComponentListSerializer,
    RevisedSpecSerializer,
    RewardSpecBody,
    RewardSpecDetailSerializer,
    RewardSpecSerializer,
)
from decisions.errors import InvalidRewardSpec
from decisions.models import RewardSpec
from decisions.rewards.components import COMPONENTS, Component
from decisions.rewards.revising import revise_reward_spec
from decisions.rewards.spec_content import SpecContent, can_be_signal, find_component, read_content
from workspaces.errors import FieldFault, InvalidInput
from workspaces.http.openapi import ErrorSerializer
from workspaces.http.parsing import StrictJSONParser, text_parameter
from workspaces.http.permissions import acting
from workspaces.http.queries import refuse_unknown_names
from workspaces.http.yaml_text import YamlParser, YamlRenderer
from workspaces.models import Scope

IF_MATCH = OpenApiParameter(
    "If-Match",
    str,
    OpenApiParameter.HEADER,
    description='The ETag that GET answered, such as "3", in place of expected_number.',
    pattern=STATED_ETAG,
)


class InYamlToo(APIView):
    """YAML where Content-Type or Accept says application/yaml; else JSON."""

    parser_classes = [StrictJSONParser, YamlParser]
    renderer_classes = [JSONRenderer, YamlRenderer]


class RewardComponents(InYamlToo):
    """Lists the components that a reward spec can have."""

    scopes = {"GET": Scope.EXPORT_READ}

    @extend_schema(operation_id="list_reward_components", tags=["rewards"], responses={"200": ComponentListSerializer})
    def get(self, request: Request) -> Response:
        rows = [_row(component) for name in COMPONENTS if (component := find_component(name)) is not None]
        return Response({"results": rows})


def _row(component: Component) -> dict[str, Any]:
    names = ("name", "summary", "horizon", "scope", "low", "high", "weight", "window_days", "missing", "measured")
    return {name: getattr(component, name) for name in names} | {
        "parameters": dict(component.parameters),
        "metrics": list(component.metrics),
        "reads": sorted(component.reads),
        "says_right": can_be_signal(component),
        "proxy": component.proxy,
    }


class RewardSpecList(InYamlToo, generics.ListAPIView[RewardSpec]):
    """Lists the versions of an agent's reward spec, newest first."""

    scopes = {"GET": Scope.EXPORT_READ, "POST": Scope.ADMIN}
    serializer_class = RewardSpecSerializer
    queryset = RewardSpec.objects.none()

    def get_queryset(self) -> Any:
        return get_agent(self.request, self.kwargs["slug"]).reward_specs.all()

    @extend_schema(operation_id="list_reward_specs", tags=["rewards"])
    def get(self, request: Request, *args: Any, **kwargs: Any) -> Response:
        return super().get(request, *args, **kwargs)

    @extend_schema(
        operation_id="revise_reward_spec",
        tags=["rewards"],
        parameters=[IF_MATCH],
        request=RewardSpecBody,
        responses={"200": RevisedSpecSerializer, "201": RevisedSpecSerializer, "409": ErrorSerializer},
    )
    def post(self, request: Request, slug: str) -> Response:
        """Makes the next version, which replaces the whole content, and queues a calculation of the agent's rewards.

        `expected_number` or `If-Match` names the version that the change is based on. Where that is no longer the
        newest, the answer is 409 `outdated_version`. Content that differs in nothing makes no version: the answer is
        200 with the newest.
        """
        agent = get_agent(request, slug)
        expected, content = read_body(request)
        revision = revise_reward_spec(by=acting(request), agent=agent, expected=expected, content=content)
        answer = RevisedSpecSerializer(revision.spec, context={"calculation": revision.calculation})
        status = 201 if revision.calculation is not None else 200
        return Response(answer.data, status=status, headers={"ETag": f'"{revision.spec.number}"'})


def read_body(request: Request) -> tuple[int, SpecContent]:
    """The version that the change is based on, and the content. Raises InvalidRewardSpec with every fault of both."""
    told = dict(request.data) if isinstance(request.data, Mapping) else {}
    faults: list[FieldFault] = []
    expected, content = 0, SpecContent(())
    try:
        expected = read_expected(request, told.pop("expected_number", None), field="expected_number")
    except InvalidInput as error:
        faults += error.faults
    try:
        content = read_content(told)
    except InvalidRewardSpec as error:
        faults += error.faults
    if faults:
        raise InvalidRewardSpec("The reward spec is invalid.", faults=faults)
    return expected, content


class RewardSpecDetail(InYamlToo):
    """Reads one version of an agent's reward spec. The version's number is the ETag."""

    scopes = {"GET": Scope.EXPORT_READ}

    @extend_schema(
        operation_id="read_reward_spec",
        tags=["rewards"],
        parameters=[OpenApiParameter("against", int, description="Number of a version to compare with")],
        responses={"200": RewardSpecDetailSerializer},
    )
    def get(self, request: Request, slug: str, number: int) -> Response:
        """Reads one version of an agent's reward spec; with `against` also what differs from that version. The
        version's number is the ETag."""
        agent = get_agent(request, slug)
        refuse_unknown_names(request, ["against"])
        wanted = text_parameter(request, "against")
        specs = agent.reward_specs
        found = specs.filter(number=number).first() if number < 2**31 else None
        if found is None:
            raise Http404
        against = None
        if wanted is not None:
            usable = wanted.isascii() and wanted.isdecimal() and len(wanted) < 10
            against = specs.filter(number=int(wanted)).first() if usable else None
            if against is None:
                fault = FieldFault("against", f"{wanted[:40]!r} is not a version of this reward spec", "its number")
                raise InvalidInput("The query is invalid.", faults=[fault])
        answer = RewardSpecDetailSerializer(found, context={"against": against})
        return Response(answer.data, headers={"ETag": f'"{found.number}"'})
