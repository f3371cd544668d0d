"""/api/v1: agents, decide, decisions, feedback, labels. Views parse, call one service, answer."""

from __future__ import annotations

import uuid
from dataclasses import replace
from typing import Any, TypeVar

import msgspec
from django.db.models import Model
from django.http import HttpResponse
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework import generics
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from decisions.agents.services import AgentSetup, create_agent, kind_setup, kind_unit
from decisions.api.serializers import (
    ONE_OR_MORE_ANSWERS,
    AgentCreateSerializer,
    AgentSerializer,
    DecisionDetailSerializer,
    DecisionSerializer,
    LabelSerializer,
    OutcomeSerializer,
)
from decisions.errors import Erased, IdConflict
from decisions.gateway.decide import as_plain, decide
from decisions.ingest.batches import Outcome
from decisions.ingest.decisions import record_decisions
from decisions.ingest.decoding import BodyDecoder
from decisions.ingest.feedback import record_feedback
from decisions.ingest.schemas import MAX_ITEMS, DecideItem, DecisionIn, FeedbackIn
from decisions.labelling.labels import label_decision
from decisions.models import Agent, Decision
from decisions.queries.by_name import find_page_of_unit
from workspaces.errors import FieldFault, InvalidInput
from workspaces.models import Scope
from workspaces.openapi import ErrorSerializer
from workspaces.pagination import NewestFirst
from workspaces.parsing import RawBatchParser, raw_body, text_parameter
from workspaces.permissions import acting
from workspaces.rendering import FastJSONRenderer

DECIDE = BodyDecoder(DecideItem)
DECISIONS = BodyDecoder(DecisionIn)
FEEDBACK = BodyDecoder(FeedbackIn)
MAX_DECIDE = 256
T = TypeVar("T", bound=Model)


def struct_schema(struct: type[msgspec.Struct], most: int) -> dict[str, Any]:
    """OpenAPI for a body of one msgspec item or a list of up to `most` of them, inlined."""
    schemas, components = msgspec.json.schema_components([struct], ref_template="#/$defs/{name}")

    def inline(node: Any) -> Any:
        if isinstance(node, dict):
            if "$ref" in node:
                return inline(components[node["$ref"].rsplit("/", 1)[-1]])
            return {key: inline(value) for key, value in node.items()}
        return [inline(value) for value in node] if isinstance(node, list) else node

    one = inline(schemas[0])
    return {"oneOf": [one, {"type": "array", "items": one, "minItems": 1, "maxItems": most}]}


def body_of(struct: type[msgspec.Struct], *, most: int = MAX_ITEMS) -> dict[str, Any]:
    return {"application/json": struct_schema(struct, most)}


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
        answers = decide(by=acting(request), agent=slug, items=[item for _, item in batch.items])
        plain = [as_plain(answer) for answer in answers]
        return Response(plain[0] if batch.single else {"answers": plain}, status=201)


class IngestView(APIView):
    """Takes one item or up to 1,000. 201 when all were kept, 207 with reasons when some were not."""

    renderer_classes = [FastJSONRenderer]
    parser_classes = [RawBatchParser]

    def answer(self, outcome: Outcome, batch: Any) -> HttpResponse:
        errors = sorted([*batch.errors, *outcome.errors], key=lambda error: error.index)
        if batch.single and errors:
            error = errors[0]
            kind = {IdConflict.code: IdConflict, Erased.code: Erased}.get(error.code, InvalidInput)
            raise kind("The item was not kept.", faults=error.faults)
        body = {
            "kept": outcome.kept,
            "errors": [
                {
                    "index": error.index,
                    "code": error.code,
                    "fields": [{"field": f.field, "reason": f.reason, "expected": f.expected} for f in error.faults],
                }
                for error in errors
            ],
        }
        # Not by DRF's response, which refers to itself: each batch would wait for the collector of cycles.
        content = msgspec.json.encode(body)
        return HttpResponse(content, status=207 if errors else 201, content_type="application/json")


class IngestListView(IngestView, generics.ListAPIView[T]):
    """One that lists as well."""

    def head(self, request: Request, *args: Any, **kwargs: Any) -> Response:
        """Written out, since Django would hang a method on each view that refers back to it."""
        return self.get(request, *args, **kwargs)


class DecisionList(IngestListView[Decision]):
    """The ledger's decisions, newest first; and recording decisions that were made elsewhere."""

    scopes = {"GET": Scope.EXPORT_READ, "POST": Scope.DECISIONS_WRITE}
    serializer_class = DecisionSerializer

    def get_queryset(self) -> Any:
        workspace = acting(self.request).workspace
        decisions = (
            Decision.objects.for_workspace(workspace)
            .select_related("agent", "agent_version", "model_version__registered_model", "exposure")
            .defer("content_hash", "token_ids", "logprobs")
        )
        agent = None
        if slug := text_parameter(self.request, "agent"):
            # By its id: joined by its slug, an agent that decided little is looked for in the whole ledger.
            agent = Agent.objects.for_workspace(workspace).filter(slug=slug).values_list("id", flat=True).first()
            if agent is None:
                return decisions.none()
            decisions = decisions.filter(agent=agent)
        if item := text_parameter(self.request, "item"):
            decisions = decisions.filter(item_ref=item)
        if unit := text_parameter(self.request, "unit"):
            decisions = decisions.filter(unit=unit)
            if not item:
                decisions = decisions.filter(id__in=find_page_of_unit(workspace, unit, agent=agent, **self.place()))
        return decisions

    def place(self) -> dict[str, Any]:
        """Where the page that is asked for lies: from which id on, in which direction, how many."""
        assert isinstance(self.paginator, NewestFirst)
        cursor = self.paginator.decode_cursor(self.request)
        return {
            "after": uuid.UUID(cursor.position) if cursor is not None and cursor.position else None,
            "newer": cursor is not None and cursor.reverse,
            "most": (self.paginator.get_page_size(self.request) or 0)
            + (cursor.offset if cursor is not None else 0)
            + 1,
        }

    @extend_schema(
        parameters=[
            OpenApiParameter("agent", str, description="Only this agent's decisions"),
            OpenApiParameter("unit", str, description="Only this unit's decisions"),
            OpenApiParameter("item", str, description="Only decisions about this item, by its item_ref"),
        ]
    )
    def get(self, request: Request, *args: Any, **kwargs: Any) -> Response:
        return super().get(request, *args, **kwargs)

    @extend_schema(
        operation_id="record_decisions",
        request=body_of(DecisionIn),
        responses={"201": OutcomeSerializer, "207": OutcomeSerializer, "410": ErrorSerializer},
    )
    def post(self, request: Request) -> HttpResponse:
        batch = DECISIONS.decode(raw_body(request))
        return self.answer(record_decisions(by=acting(request), items=batch.items), batch)


class DecisionDetail(generics.RetrieveAPIView[Decision]):
    """One decision with its feedback, labels and rewards."""

    scopes = {"GET": Scope.EXPORT_READ}
    serializer_class = DecisionDetailSerializer

    def get_queryset(self) -> Any:
        return (
            Decision.objects.for_workspace(acting(self.request).workspace)
            .select_related("agent", "agent_version", "model_version__registered_model", "exposure")
            .prefetch_related("feedback", "labels", "rewards__spec")
        )


class DecisionLabels(APIView):
    """A reviewer's verdict on a decision; it becomes feedback as well."""

    scopes = {"POST": Scope.FEEDBACK_WRITE}

    @extend_schema(
        operation_id="label_decision",
        request=LabelSerializer,
        responses={"201": LabelSerializer, "410": ErrorSerializer},
    )
    def post(self, request: Request, pk: Any) -> Response:
        decision = generics.get_object_or_404(Decision.objects.for_workspace(acting(request).workspace), pk=pk)
        given = LabelSerializer(data=request.data)
        given.is_valid(raise_exception=True)
        label = label_decision(by=acting(request), decision=decision, **given.validated_data)
        return Response(LabelSerializer(label).data, status=201)


class FeedbackCreate(IngestView):
    """Feedback on decisions, episodes or units: early, late, repeated or superseding."""

    scopes = {"POST": Scope.FEEDBACK_WRITE}

    @extend_schema(
        operation_id="record_feedback",
        request=body_of(FeedbackIn),
        responses={"201": OutcomeSerializer, "207": OutcomeSerializer, "410": ErrorSerializer},
    )
    def post(self, request: Request) -> HttpResponse:
        batch = FEEDBACK.decode(raw_body(request))
        return self.answer(record_feedback(by=acting(request), items=batch.items), batch)
