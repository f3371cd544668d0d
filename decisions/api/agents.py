"""/api/v1/agents: making and listing them, and asking one to decide."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import msgspec
from drf_spectacular.utils import extend_schema
from rest_framework import generics
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from decisions.agents.services import AgentSetup, create_agent, kind_setup, kind_unit
from decisions.api.batches import body_of
from decisions.api.serializers.agents import ONE_OR_MORE_ANSWERS, AgentCreateSerializer, AgentSerializer
from decisions.gateway.decide import as_plain, decide
from decisions.ingest.decoding import BodyDecoder
from decisions.ingest.schemas import DecideItem
from decisions.models import Agent
from workspaces.errors import FieldFault, InvalidInput
from workspaces.idempotency import made_id
from workspaces.models import Scope
from workspaces.openapi import ErrorSerializer
from workspaces.parsing import RawBatchParser, raw_body
from workspaces.permissions import acting

DECIDE = BodyDecoder(DecideItem)
MAX_DECIDE = 256


def _setup(kind: str, fields: dict[str, Any]) -> AgentSetup:
    """As given; what was left out is the kind's own where no prompt template was given."""
    return AgentSetup(**fields) if "prompt_template" in fields else replace(kind_setup(kind), **fields)


class AgentList(generics.ListCreateAPIView[Agent]):
    """Agents of the workspace; making one also makes its model and its first reward spec."""

    scopes = {"GET": Scope.EXPORT_READ, "POST": Scope.ADMIN}
    serializer_class = AgentSerializer

    def get_queryset(self) -> Any:
        return Agent.objects.for_workspace(acting(self.request).workspace).prefetch_related("versions")

    @extend_schema(request=AgentCreateSerializer, responses={"201": AgentSerializer})
    def post(self, request: Request) -> Response:
        given = AgentCreateSerializer(data=request.data)
        given.is_valid(raise_exception=True)
        fields = dict(given.validated_data)
        kind = fields.pop("kind")
        agent = create_agent(
            by=acting(request),
            slug=fields.pop("slug"),
            name=fields.pop("name"),
            kind=kind,
            unit=fields.pop("unit", None) or kind_unit(kind),
            setup=_setup(kind, fields),
        )
        return Response(AgentSerializer(agent).data, status=201)


class Decide(APIView):
    """Ask an agent to decide on one input or up to 256. Every answer is recorded as a decision before it is sent."""

    scopes = {"POST": Scope.ROUTE_READ}
    parser_classes = [RawBatchParser]
    calls_out = True  # no transaction is open while the model server answers (workspaces.idempotency)

    @extend_schema(
        operation_id="decide",
        request=body_of(DecideItem, most=MAX_DECIDE),
        responses={"201": ONE_OR_MORE_ANSWERS, "410": ErrorSerializer},
    )
    def post(self, request: Request, slug: str) -> Response:
        batch = DECIDE.decode(raw_body(request))
        if batch.errors:
            raise InvalidInput(
                "Some items are not usable.",
                faults=[
                    FieldFault(f"items[{error.index}].{fault.field}", fault.reason, fault.expected)
                    for error in batch.errors
                    for fault in error.faults
                ],
            )
        if len(batch.items) > MAX_DECIDE:
            raise InvalidInput(f"{len(batch.items)} items in one call; at most {MAX_DECIDE} are decided at once.")
        items = [item for _, item in batch.items]
        claim = getattr(request._request, "idempotency_claim", None)
        if claim is not None:
            items = [
                msgspec.structs.replace(item, id=made_id(claim, number)) if item.id is msgspec.UNSET else item
                for number, item in enumerate(items)
            ]
        answers = decide(by=acting(request), agent=slug, items=items)
        plain = [as_plain(answer) for answer in answers]
        return Response(plain[0] if batch.single else {"answers": plain}, status=201)
