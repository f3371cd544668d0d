"""/api/v1/agents/{slug}/solve, its batch, and /action-quality."""

from __future__ import annotations

from typing import Any

from django.utils import timezone
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from decisions.api.batches import struct_schema
from decisions.api.editing import get_agent
from decisions.ingest.decoding import BodyDecoder, ItemError
from decisions.queries.reward_sample import DEFAULT_RANGE, RANGES, parse_range
from training.environments.solving.acting import Solution
from training.environments.solving.problems import SolveIn
from training.environments.solving.quality import measure_quality
from training.environments.solving.serializers import (
    ActionQualitySerializer,
    SolutionSerializer,
    SolvedBatchSerializer,
    as_failure,
    as_plain,
)
from training.environments.solving.services import MOST_PROBLEMS, Failure, solve
from workspaces.errors import FieldFault, InvalidInput
from workspaces.http.openapi import ErrorSerializer
from workspaces.http.parsing import RawBatchParser, raw_body, text_parameter
from workspaces.http.permissions import acting
from workspaces.http.queries import refuse_unknown_names
from workspaces.http.rendering import FastJSONRenderer
from workspaces.models import Scope

PROBLEMS = BodyDecoder(SolveIn)
ONE, MANY = struct_schema(SolveIn, MOST_PROBLEMS)["oneOf"]
ANEW = OpenApiParameter(
    "Cache-Control", str, OpenApiParameter.HEADER, description="`no-cache`: do not answer with a cached episode."
)


class SolveView(APIView):
    """What both endpoints share."""

    scopes = {"POST": Scope.ROUTE_READ}
    parser_classes = [RawBatchParser]
    renderer_classes = [FastJSONRenderer]
    calls_out = True  # no transaction is open while the model server answers (workspaces.http.idempotency)

    def solve(self, request: Request, slug: str, items: dict[int, SolveIn]) -> dict[int, Solution | Failure]:
        return solve(
            by=acting(request),
            agent=slug,
            items=items,
            claim=getattr(request._request, "idempotency_claim", None),
            anew="no-cache" in request.headers.get("Cache-Control", "").lower(),
        )


class Solve(SolveView):
    """Lets an agent act in an environment until the episode ends. Each step is recorded as a decision."""

    @extend_schema(
        operation_id="solve",
        parameters=[ANEW],
        request={"application/json": ONE},
        responses={"201": SolutionSerializer, "410": ErrorSerializer},
    )
    def post(self, request: Request, slug: str) -> Response:
        """What the steps earned is recorded as feedback on the decisions, and `solved`, `score` and `finished` as
        feedback on their episode. An environment that fails is an error, `environment_failed`, and never a score. Where
        it is interrupted, the decisions made until then stay, and the error names their episode."""
        batch = PROBLEMS.decode(raw_body(request))
        if not batch.single:
            fault = FieldFault("", "is a list", "one object; a list goes to /solve/batch")
            raise InvalidInput("The body is not one problem.", faults=[fault])
        found = self.solve(request, slug, dict(batch.items))[0]
        if isinstance(found, Failure):
            found.error.message = found.message
            raise found.error
        headers = {"X-Reckoner-Cached": "true"} if found.cached else {}
        return Response(as_plain(found), status=201, headers=headers)


class SolveBatch(SolveView):
    """Lets an agent act on up to 32 problems at the same time, step by step together."""

    @extend_schema(
        operation_id="solve_batch",
        parameters=[ANEW],
        request={"application/json": MANY},
        responses={"201": SolvedBatchSerializer, "207": SolvedBatchSerializer, "410": ErrorSerializer},
    )
    def post(self, request: Request, slug: str) -> Response:
        """Each problem is solved or fails by itself: 201 where all have a solution, 207 where some failed.
        Where all fail for one reason that is not their own, such as a model server that is away, the answer is that
        error."""
        batch = PROBLEMS.decode(raw_body(request))
        count = len(batch.items) + len(batch.errors)
        if batch.single or count > MOST_PROBLEMS:
            reason = "is one object" if batch.single else f"has {count} problems"
            fault = FieldFault("", reason, f"a list of 1 to {MOST_PROBLEMS} problems")
            raise InvalidInput("The body is not a batch of problems.", faults=[fault])
        found: dict[int, Solution | Failure] = {error.index: _unread(error) for error in batch.errors}
        found |= self.solve(request, slug, dict(batch.items))
        _refuse_what_failed_for_all(list(found.values()))
        answers = [_as_item(index, found[index]) for index in sorted(found)]
        return Response({"answers": answers}, status=207 if any(one["error"] for one in answers) else 201)


def _unread(error: ItemError) -> Failure:
    return Failure(InvalidInput("Some fields are invalid.", faults=error.faults))


def _refuse_what_failed_for_all(found: list[Solution | Failure]) -> None:
    errors = [one.error for one in found if isinstance(one, Failure) and one.episode_id is None]
    if len(errors) == len(found) and len({error.code for error in errors}) == 1 and errors[0].status >= 409:
        raise errors[0]


def _as_item(index: int, found: Solution | Failure) -> dict[str, Any]:
    if isinstance(found, Failure):
        return {"index": index, "solution": None, "error": as_failure(found)}
    return {"index": index, "solution": as_plain(found), "error": None}


class ActionQuality(APIView):
    """Tells how well an agent's episodes went over time, by model version, and what people said of them."""

    scopes = {"GET": Scope.EXPORT_READ}

    @extend_schema(
        operation_id="action_quality",
        parameters=[
            OpenApiParameter(
                "since", str, enum=list(RANGES), default=DEFAULT_RANGE, description="How far it goes back from now"
            )
        ],
        responses={"200": ActionQualitySerializer},
    )
    def get(self, request: Request, slug: str) -> Response:
        """By hour for 24 hours, by week for a year, else by day."""
        refuse_unknown_names(request, ["since"])
        time = parse_range(text_parameter(request, "since") or "")
        found = measure_quality(get_agent(request, slug), time, now=timezone.now())
        return Response(ActionQualitySerializer(found).data)
