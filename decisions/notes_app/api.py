"""Views of the notes app's paths: /api/training/*, and feedback on decisions and status changes.

They parse, call the same services as /api/v1, and answer in camelCase (docs/notes-app.md).
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from typing import Any

import msgspec
from django.http import StreamingHttpResponse
from drf_spectacular.utils import OpenApiParameter, OpenApiTypes, extend_schema
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from decisions.agents.kinds import FIVE
from decisions.answer_ids import read_decision_id
from decisions.api.export import LEFT_OUT_HEADER, NDJSON, stream_export
from decisions.ingest.decoding import fault_of
from decisions.ingest.item_ends import AppliedOutcomes, apply_item_outcomes, count_waiting
from decisions.labelling.items import record_status_change_verdict
from decisions.labelling.labels import record_verdict
from decisions.models import AgentKind, Decision, Verdict
from decisions.notes_app import bodies, ledger
from decisions.notes_app.versions import compare_versions
from decisions.queries.export import ExportChoice
from decisions.queries.readiness import add_up, as_plain, count_training_stats
from decisions.rewards.pending import Calculated, calculate_pending, count_all_pending
from decisions.rewards.specs import find_specs
from workspaces.errors import FieldFault, InvalidInput, NotFound
from workspaces.http.authentication import (
    ApiKeyAuthentication,
    InternalKeyAuthentication,
    WorkspaceSessionAuthentication,
)
from workspaces.http.openapi import ErrorSerializer
from workspaces.http.parsing import text_parameter
from workspaces.http.permissions import acting
from workspaces.http.rendering import OneFormat
from workspaces.models import Scope

LIST_LIMIT, EXPORT_LIMIT = 10_000, 10_000_000
DEFAULT_LIMIT = 1000
MOST_IDS = 1000
LOWEST, HIGHEST = -2.0, 2.0
JSON = OpenApiTypes.OBJECT
LIST = {"type": "array", "items": {"type": "object", "additionalProperties": {}}}
TAGS = ["notes app"]


class NotesView(APIView):
    """By key, by the internal key, or by session."""

    authentication_classes = [ApiKeyAuthentication, InternalKeyAuthentication, WorkspaceSessionAuthentication]


class Query:
    """Reads parameters of the query string and gathers every fault."""

    def __init__(self, request: Request) -> None:
        self.request = request
        self.faults: list[FieldFault] = []

    def _text(self, name: str) -> str | None:
        return text_parameter(self.request, name)

    def number(self, name: str, default: float) -> float:
        try:
            value = float(self._text(name) or default)
        except ValueError:
            value = float("nan")
        if not -1e9 <= value <= 1e9:
            self.faults.append(FieldFault(name, f"{self._text(name)!r} is invalid", "a number"))
        return value

    def flag(self, name: str, default: bool = False) -> bool:
        text = self._text(name)
        if text is not None and text not in {"true", "false", "1", "0"}:
            self.faults.append(FieldFault(name, f"{text[:100]!r} is invalid", "true or false"))
        return default if text is None else text in {"true", "1"}

    def limit(self, most: int, default: int | None = DEFAULT_LIMIT) -> int | None:
        text = self._text("limit")
        if text is None:
            return default
        if not (text.isascii() and text.isdecimal() and len(text) <= 10 and 1 <= int(text) <= most):
            self.faults.append(FieldFault("limit", f"{text[:100]!r} is invalid", f"1 to {most}"))
            return default
        return int(text)

    def kind(self, *, required: bool = False) -> str | None:
        text = self._text("agentType")
        if (required and text is None) or (text is not None and text not in AgentKind.values):
            reason = "is missing" if text is None else f"{text[:100]!r} is unknown"
            self.faults.append(FieldFault("agentType", reason, "one of " + ", ".join(FIVE)))
        return text

    def check(self) -> None:
        """Raises InvalidInput with every fault."""
        if self.faults:
            raise InvalidInput("The query is invalid.", faults=self.faults)


def read_choice(request: Request, *, most: int, need_kind: bool = False, need_reward: bool = False) -> ExportChoice:
    query = Query(request)
    choice = ExportChoice(
        kind=query.kind(required=need_kind),
        min_reward=query.number("minReward", LOWEST),
        max_reward=query.number("maxReward", HIGHEST) if most == LIST_LIMIT else None,
        require_reward=query.flag("requireReward", need_reward),
        require_feedback=query.flag("requireFeedback"),
        limit=query.limit(most),
    )
    query.check()
    return choice


REWARD = {"type": "number", "minimum": -1e9, "maximum": 1e9}
LIMIT = {"type": "integer", "minimum": 1, "maximum": 2**31 - 1}
KIND = OpenApiParameter("agentType", str, enum=FIVE, description="Only agents of this kind")
CHOICE = [
    KIND,
    OpenApiParameter("minReward", REWARD, default=LOWEST, description="Smallest raw reward, if there is one"),
    OpenApiParameter("requireFeedback", bool, default=False, description="Only decisions with a verdict"),
    OpenApiParameter("limit", {"type": "integer", "minimum": 1, "maximum": LIST_LIMIT}, default=DEFAULT_LIMIT),
]


def body_of(request: Request) -> Mapping[str, Any]:
    """An object; nothing at all counts as an empty one. Raises InvalidInput."""
    data = request.data
    if not isinstance(data, Mapping):
        raise InvalidInput("The body must be a JSON object.")
    return data


class Record(NotesView):
    """Records one decision of an agent of the notes app. Action and state must fit the agent's schemas."""

    scopes = {"POST": Scope.DECISIONS_WRITE}

    @extend_schema(
        operation_id="notes_record_decision",
        tags=TAGS,
        request=bodies.RECORDED,
        responses={201: JSON, 404: ErrorSerializer},
    )
    def post(self, request: Request) -> Response:
        try:
            given = msgspec.convert(body_of(request), ledger.NotesDecision)
        except msgspec.ValidationError as error:
            raise InvalidInput("The decision is invalid.", faults=[fault_of(error)]) from error
        if given.agent_type not in AgentKind.values:
            fault = FieldFault("agentType", f"{given.agent_type[:100]!r} is unknown", "one of " + ", ".join(FIVE))
            raise InvalidInput("The kind of agent is unknown.", faults=[fault])
        decision = ledger.record_notes_decision(by=acting(request), given=given)
        return Response(ledger.describe_decisions(decision.workspace, [decision.id])[0], status=201)


class Decisions(NotesView):
    """Lists decisions, newest first."""

    scopes = {"GET": Scope.EXPORT_READ, "POST": Scope.FEEDBACK_WRITE}

    @extend_schema(
        operation_id="notes_list_decisions",
        tags=TAGS,
        parameters=[
            *CHOICE,
            OpenApiParameter("maxReward", REWARD, default=HIGHEST),
            OpenApiParameter("requireReward", bool, default=False),
        ],
        responses={200: LIST},
    )
    def get(self, request: Request) -> Response:
        chosen = read_choice(request, most=LIST_LIMIT)
        workspace = acting(request).workspace
        return Response(ledger.list_notes_decisions(workspace=workspace, chosen=chosen))

    @extend_schema(
        operation_id="notes_reward_decisions",
        tags=TAGS,
        request=bodies.ids_body(MOST_IDS),
        responses={200: JSON},
    )
    def post(self, request: Request) -> Response:
        """Calculates the rewards of given decisions that have none yet."""
        rewarded = ledger.reward_decisions(by=acting(request), ids=_ids(body_of(request).get("decisionIds")))
        return Response(
            {
                "updated": len(rewarded),
                "decisions": [{"id": one.id, "reward": one.reward, "components": one.components} for one in rewarded],
            }
        )


def _ids(given: Any) -> list[uuid.UUID]:
    """Ids that could be ours; a text that is no uuid names no decision of the ledger. Raises InvalidInput."""
    if not isinstance(given, list) or len(given) > MOST_IDS:
        raise InvalidInput(
            "decisionIds is invalid.", faults=[FieldFault("decisionIds", "is not a list", f"up to {MOST_IDS} ids")]
        )
    faults = [
        FieldFault(f"decisionIds[{index}]", "is not text", "an id")
        for index, one in enumerate(given)
        if not isinstance(one, str)
    ]
    if faults:
        raise InvalidInput("decisionIds is invalid.", faults=faults)
    return [found for one in given if (found := _uuid(one)) is not None]


def _uuid(text: str) -> uuid.UUID | None:
    try:
        return read_decision_id(text)
    except ValueError:
        return None


class CalculatePending(NotesView):
    """Counts the decisions that wait for a reward."""

    scopes = {"GET": Scope.EXPORT_READ, "POST": Scope.FEEDBACK_WRITE}

    @extend_schema(
        operation_id="notes_count_pending",
        tags=TAGS,
        responses={200: JSON},
    )
    def get(self, request: Request) -> Response:
        count = count_all_pending(find_specs(acting(request).workspace))
        return Response({"pendingRewards": count, "message": f"{count} decisions wait for a reward."})

    @extend_schema(
        operation_id="notes_calculate_pending",
        tags=TAGS,
        request=None,
        responses={200: JSON},
    )
    def post(self, request: Request) -> Response:
        """Calculates all waiting rewards."""
        done = calculate_pending(find_specs(acting(request).workspace))
        said = f"{done.processed} rewards calculated, {done.errors} with an error."
        return Response({"success": True, "processed": done.processed, "errors": done.errors, "message": said})


class Outcomes(NotesView):
    """Counts the decisions that wait for the outcome of their item."""

    scopes = {"GET": Scope.EXPORT_READ, "POST": Scope.FEEDBACK_WRITE}

    @extend_schema(
        operation_id="notes_count_outcomes",
        tags=TAGS,
        responses={200: JSON},
    )
    def get(self, request: Request) -> Response:
        return Response({"pendingCount": count_waiting(acting(request).workspace)})

    @extend_schema(
        operation_id="notes_process_outcomes",
        tags=TAGS,
        request=bodies.limit_body(),
        responses={200: JSON},
    )
    def post(self, request: Request) -> Response:
        """Gives the ends of items to their decisions as feedback, then calculates all waiting rewards."""
        limit = body_of(request).get("limit")
        if limit is not None and (isinstance(limit, bool) or not isinstance(limit, int) or not 1 <= limit < 2**31):
            raise InvalidInput("The limit is invalid.", faults=[FieldFault("limit", "is out of range", "1 or more")])
        return Response(_processed(*_process(request, limit)))


class TrackOutcomes(NotesView):
    """Like `outcomes`, for cron, with a message."""

    scopes = {"GET": Scope.EXPORT_READ, "POST": Scope.FEEDBACK_WRITE}

    @extend_schema(
        operation_id="notes_count_tracked_outcomes",
        tags=TAGS,
        responses={200: JSON},
    )
    def get(self, request: Request) -> Response:
        count = count_waiting(acting(request).workspace)
        message = f"{count} decisions wait for the outcome of their item."
        return Response({"pendingOutcomes": count, "message": message})

    @extend_schema(
        operation_id="notes_track_outcomes",
        tags=TAGS,
        request=None,
        parameters=[OpenApiParameter("limit", LIMIT, description="Maximum number of ended items; by default all")],
        responses={200: JSON},
    )
    def post(self, request: Request) -> Response:
        """Like `outcomes`, for cron, with the limit in the query and a message in the answer."""
        query = Query(request)
        limit = query.limit(2**31 - 1, default=None)
        query.check()
        applied, calculated = _process(request, limit)
        message = (
            f"{applied.decisions} decisions received the outcome of their item; "
            f"{calculated.processed} rewards calculated."
        )
        return Response(_processed(applied, calculated) | {"message": message})


def _process(request: Request, limit: int | None) -> tuple[AppliedOutcomes, Calculated]:
    workspace = acting(request).workspace
    applied = apply_item_outcomes(workspace=workspace, limit=limit)
    return applied, calculate_pending(find_specs(workspace))


def _processed(applied: AppliedOutcomes, calculated: Calculated) -> dict[str, Any]:
    return {
        "success": True,
        "processed": applied.changes,
        "updated": applied.decisions,
        "rewardsCalculated": calculated.processed,
        "errors": calculated.errors,
    }


class ExportView(NotesView):
    scopes = {"GET": Scope.EXPORT_READ}
    content_negotiation_class = OneFormat

    def stream(self, request: Request, chosen: ExportChoice, shape: str) -> StreamingHttpResponse:
        name = f"{(chosen.kind or 'decisions').lower()}-{shape}.jsonl"
        return stream_export(workspace=acting(request).workspace, chosen=chosen, format=shape, name=name)


class Export(ExportView):
    """Streams decisions as JSON lines of chats, newest first. The header Reckoner-Left-Out says how many decisions each
    limit left out, and how many make no line."""

    @extend_schema(
        operation_id="notes_export_chats",
        tags=TAGS,
        parameters=[*CHOICE, OpenApiParameter("requireReward", bool, default=False), LEFT_OUT_HEADER],
        responses={(200, NDJSON): OpenApiTypes.STR},
    )
    def get(self, request: Request) -> StreamingHttpResponse:
        return self.stream(request, read_choice(request, most=EXPORT_LIMIT), "chat")


class ExportFile(ExportView):
    """Streams an agent's decisions as JSON lines of prompt and completion, newest first. The header Reckoner-Left-Out
    says how many decisions each limit left out, and how many make no line."""

    @extend_schema(
        operation_id="notes_export_completions",
        tags=TAGS,
        parameters=[
            OpenApiParameter("agentType", str, enum=FIVE, required=True),
            *CHOICE[1:],
            OpenApiParameter("requireReward", bool, default=True),
            LEFT_OUT_HEADER,
        ],
        responses={(200, NDJSON): OpenApiTypes.STR},
    )
    def get(self, request: Request) -> StreamingHttpResponse:
        chosen = read_choice(request, most=EXPORT_LIMIT, need_kind=True, need_reward=True)
        return self.stream(request, chosen, "completion")


class Stats(NotesView):
    """Counts decisions to train on, in blocks of 100. A kind is ready with 100 decisions and 50 rewards."""

    scopes = {"GET": Scope.EXPORT_READ}

    @extend_schema(
        operation_id="notes_training_stats",
        tags=TAGS,
        parameters=[KIND],
        responses={200: JSON},
    )
    def get(self, request: Request) -> Response:
        query = Query(request)
        kind = query.kind()
        query.check()
        by_kind = count_training_stats(acting(request).workspace, kind)
        # Decisions of different kinds are not trained together, so one kind must have enough.
        ready = any(one.ready for one in by_kind.values())
        each = {name: as_plain(one) for name, one in by_kind.items()}
        return Response(as_plain(add_up(by_kind.values())) | {"byAgentType": each, "readyForTraining": ready})


class AbTest(NotesView):
    """Compares the versions that decided for a kind of agent, with intervals. Outside an experiment no chance assigned
    them, and a difference may have other causes.
    """

    scopes = {"GET": Scope.EXPORT_READ}

    @extend_schema(
        operation_id="notes_ab_test",
        tags=TAGS,
        parameters=[OpenApiParameter("agentType", str, enum=FIVE, required=True)],
        responses={200: JSON},
    )
    def get(self, request: Request) -> Response:
        query = Query(request)
        kind = query.kind(required=True)
        query.check()
        return Response(compare_versions(by=acting(request), kind=kind or ""))


class VerdictBody(msgspec.Struct, forbid_unknown_fields=True, kw_only=True, rename="camel"):
    feedback: str
    correction: Any = None
    user_id: str | None = None


def _read_verdict(request: Request) -> tuple[VerdictBody, str]:
    """The body and the verdict in our words. Raises InvalidInput."""
    try:
        given = msgspec.convert(body_of(request), VerdictBody)
    except msgspec.ValidationError as error:
        raise InvalidInput("The feedback is invalid.", faults=[fault_of(error)]) from error
    verdict = given.feedback.lower()
    if given.feedback != given.feedback.upper() or verdict not in Verdict.values:
        expected = "one of " + ", ".join(name.upper() for name in Verdict.values)
        fault = FieldFault("feedback", f"{given.feedback[:100]!r} is unknown", expected)
        raise InvalidInput("The feedback is invalid.", faults=[fault])
    return given, verdict


class DecisionFeedback(NotesView):
    """Records a person's verdict on a decision. One of another workspace, or of another `userId`, is a 404."""

    scopes = {"PATCH": Scope.FEEDBACK_WRITE}

    @extend_schema(
        operation_id="notes_decision_feedback",
        tags=TAGS,
        request=bodies.VERDICT,
        responses={200: JSON, 410: ErrorSerializer},
    )
    def patch(self, request: Request, id: str) -> Response:
        by = acting(request)
        given, verdict = _read_verdict(request)
        decisions = Decision.objects.for_workspace(by.workspace).select_related("agent_version")
        decision = decisions.filter(id=_uuid(id)).first() if _uuid(id) is not None else None
        if decision is None or (given.user_id and decision.user_ref and given.user_id != decision.user_ref):
            raise NotFound("Decision not found.")
        record_verdict(by=by, decision=decision, verdict=verdict, correction=given.correction)
        return Response(ledger.describe_decisions(by.workspace, [decision.id])[0])


class StatusChangeFeedback(NotesView):
    """Records a person's verdict on a change of status. With CORRECTED, its swimlane, priority and labels hold for the
    item.
    """

    scopes = {"PATCH": Scope.FEEDBACK_WRITE}

    @extend_schema(
        operation_id="notes_status_change_feedback",
        tags=TAGS,
        request=bodies.VERDICT,
        responses={200: JSON, 410: ErrorSerializer},
    )
    def patch(self, request: Request, id: str) -> Response:
        by = acting(request)
        given, verdict = _read_verdict(request)
        change = ledger.find_change(by.workspace, id)
        if change is None:
            raise NotFound("Status change not found.")
        changed = record_status_change_verdict(by=by, change=change, verdict=verdict, correction=given.correction)
        return Response(ledger.describe_change(changed))
