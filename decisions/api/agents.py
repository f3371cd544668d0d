"""/api/v1/agents: create, list, read and change agents, and ask one to decide."""

from __future__ import annotations

import dataclasses
from typing import Any

import msgspec
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework import generics
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from decisions.agents.caching import change_cache
from decisions.agents.current import find_current_version
from decisions.agents.revising import revise_agent, switch_agent
from decisions.agents.services import create_agent, kind_unit, make_setup
from decisions.api.batches import body_of
from decisions.api.editing import STATED_ETAG, get_agent, read_expected
from decisions.api.serializers.agents import (
    ONE_OR_MORE_ANSWERS,
    AgentCacheSerializer,
    AgentCreateSerializer,
    AgentDetailSerializer,
    AgentPatchSerializer,
    AgentSerializer,
    PartialAnswersSerializer,
)
from decisions.errors import Erased, IdConflict
from decisions.gateway.answers import as_plain
from decisions.gateway.decide import decide
from decisions.gateway.each import decide_each
from decisions.ingest.decoding import BodyDecoder, ItemError
from decisions.ingest.schemas import DecideItem
from decisions.models import Agent
from decisions.queries.agents import find_champion
from workspaces.errors import InvalidInput, ReckonerError
from workspaces.http.idempotency import made_id
from workspaces.http.openapi import ErrorSerializer
from workspaces.http.parsing import RawBatchParser, raw_body
from workspaces.http.permissions import acting
from workspaces.models import Scope

DECIDE = BodyDecoder(DecideItem)
MAX_DECIDE = 256


class AgentList(generics.ListCreateAPIView[Agent]):
    """Lists the workspace's agents."""

    scopes = {"GET": Scope.EXPORT_READ, "POST": Scope.ADMIN}
    serializer_class = AgentSerializer

    def get_queryset(self) -> Any:
        return Agent.objects.for_workspace(acting(self.request).workspace).prefetch_related("versions")

    @extend_schema(request=AgentCreateSerializer, responses={"201": AgentSerializer})
    def post(self, request: Request) -> Response:
        """Creates an agent with its first version, its model and its first reward spec."""
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
            setup=make_setup(kind, fields),
        )
        return Response(AgentSerializer(agent).data, status=201)


class AgentDetail(APIView):
    """Reads one agent with its current version in full. The version's number is the ETag."""

    scopes = {"GET": Scope.EXPORT_READ, "PATCH": Scope.ADMIN}

    @extend_schema(operation_id="agents_retrieve", responses={"200": AgentDetailSerializer})
    def get(self, request: Request, slug: str) -> Response:
        agent = get_agent(request, slug)
        return _answer(agent)

    @extend_schema(
        operation_id="revise_agent",
        parameters=[
            OpenApiParameter(
                "If-Match",
                str,
                OpenApiParameter.HEADER,
                description='The ETag that GET answered, such as "3", in place of expected_version.',
                pattern=STATED_ETAG,
            )
        ],
        request=AgentPatchSerializer,
        responses={"200": AgentDetailSerializer, "409": ErrorSerializer},
    )
    def patch(self, request: Request, slug: str) -> Response:
        """Makes the next version of the agent: the current one with the given fields. Versions themselves never change.

        `expected_version` or `If-Match` names the version that the change is based on. Where that is no longer the
        current one, the answer is 409 `outdated_version`. A change of nothing makes no version. With `acts: false` the
        version is not used: an experiment can try it.
        """
        agent = get_agent(request, slug)
        given = AgentPatchSerializer(data=request.data)
        given.is_valid(raise_exception=True)
        changes = dict(given.validated_data)
        expected = read_expected(request, changes.pop("expected_version", None), field="expected_version")
        acts = changes.pop("acts")
        revise_agent(by=acting(request), agent=agent, expected=expected, changes=changes, acts=acts)
        return _answer(agent)


class AgentCache(APIView):
    """For how long greedy answers of the agent are given again: chats, and problems that it solved."""

    scopes = {"PATCH": Scope.ADMIN}

    @extend_schema(operation_id="change_cache", request=AgentCacheSerializer, responses={"200": AgentSerializer})
    def patch(self, request: Request, slug: str) -> Response:
        """Sets for how many seconds a greedy answer of a chat, or a greedy solution, is given again; 0 turns it off."""
        agent = get_agent(request, slug)
        given = AgentCacheSerializer(data=request.data)
        given.is_valid(raise_exception=True)
        changed = change_cache(by=acting(request), agent=agent, seconds=given.validated_data["seconds"])
        return Response(AgentSerializer(changed).data)


def _answer(agent: Agent) -> Response:
    current = find_current_version(agent)
    context = {"current": current, "champion": find_champion(agent)}
    headers = {"ETag": f'"{current.number}"'} if current is not None else {}
    return Response(AgentDetailSerializer(agent, context=context).data, headers=headers)


class AgentVersionUse(APIView):
    """Makes an earlier version, or one that was kept, the one that acts."""

    scopes = {"POST": Scope.ADMIN}

    @extend_schema(
        operation_id="use_agent_version",
        request=None,
        responses={"200": AgentDetailSerializer, "404": ErrorSerializer, "409": ErrorSerializer},
    )
    def post(self, request: Request, slug: str, number: int) -> Response:
        """It acts from the next decision on. Where it does already, nothing changes."""
        agent = get_agent(request, slug)
        switch_agent(by=acting(request), version=generics.get_object_or_404(agent.versions, number=number))
        return _answer(get_agent(request, slug))


class Decide(APIView):
    """Asks an agent to decide on one input or up to 256. Every answer is recorded as a decision before it is sent.
    In a list, an item at fault has an `error` in place of its answer, by a 207; a list without any other is refused."""

    scopes = {"POST": Scope.ROUTE_READ}
    parser_classes = [RawBatchParser]
    calls_out = True  # no transaction is open while the model server answers (workspaces.http.idempotency)

    @extend_schema(
        operation_id="decide",
        request=body_of(DecideItem, most=MAX_DECIDE),
        responses={"201": ONE_OR_MORE_ANSWERS, "207": PartialAnswersSerializer, "410": ErrorSerializer},
    )
    def post(self, request: Request, slug: str) -> Response:
        batch = DECIDE.decode(raw_body(request))
        count = len(batch.items) + len(batch.errors)
        if count > MAX_DECIDE:
            raise InvalidInput(f"{count} items in one call; at most {MAX_DECIDE} are decided at once.")
        items = batch.items
        claim = getattr(request._request, "idempotency_claim", None)
        if claim is not None:
            items = [
                (number, msgspec.structs.replace(item, id=made_id(claim, number)) if item.id is msgspec.UNSET else item)
                for number, item in items
            ]
        if batch.single:
            [answer] = decide(by=acting(request), agent=slug, items=[item for _, item in items])
            return Response(as_plain(answer), status=201)
        answers, errors = decide_each(by=acting(request), agent=slug, items=items)
        errors += batch.errors
        if not answers:
            raise _refusal_of(errors)
        told = {number: as_plain(answer) for number, answer in answers.items()}
        told |= {error.index: {"error": error.as_plain()} for error in errors}
        return Response({"answers": [told[number] for number in range(count)]}, status=207 if errors else 201)


def _refusal_of(errors: list[ItemError]) -> ReckonerError:
    """Returns the error for a list in which no item can be decided on."""
    codes = {error.code for error in errors}
    kind = {IdConflict.code: IdConflict, Erased.code: Erased}.get(codes.pop(), InvalidInput)
    faults = [
        dataclasses.replace(fault, field=f"items[{error.index}].{fault.field}".rstrip("."))
        for error in sorted(errors, key=lambda error: error.index)
        for fault in error.faults
    ]
    return (InvalidInput if codes else kind)("The agent cannot answer any item.", faults=faults)
