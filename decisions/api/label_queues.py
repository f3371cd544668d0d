"""/api/v1/label-queues: labelling queues, their next decisions or episodes, labels and disputes."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from typing import Any

from drf_spectacular.utils import extend_schema
from rest_framework import generics
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from decisions.api.serializers.decisions import DecisionSerializer, LabelSerializer
from decisions.api.serializers.episodes import EpisodeSerializer
from decisions.api.serializers.label_queues import (
    AgreementSerializer,
    DisputeSerializer,
    DraftSerializer,
    GoldAddedSerializer,
    GoldSerializer,
    ItemSerializer,
    LabelQueueDetailSerializer,
    LabelQueueSerializer,
    NextSerializer,
    QueueCreateSerializer,
    QueuePatchSerializer,
)
from decisions.labelling.agreement import measure_agreement
from decisions.labelling.progress import count_progress, find_disputes
from decisions.labelling.queues import QueueSetup, add_gold, change_queue, create_queue, find_queue
from decisions.labelling.reservations import discard_place, reserve_next, save_draft, skip_item
from decisions.labelling.resolution import adjudicate_item, shown_state, submit_label, undo_in_queue
from decisions.models import Decision, Episode, Label, LabelQueue, QueueItem, QueueSubject
from decisions.queries.episode_ends import fill_ends
from decisions.queries.episodes import fill_totals
from workspaces.errors import FieldFault, InvalidInput, NotFound
from workspaces.http.openapi import ErrorSerializer
from workspaces.http.permissions import acting
from workspaces.models import Scope


def _queue(request: Request, slug: str) -> LabelQueue:
    return find_queue(acting(request), slug)


def _given(serializer: Any) -> dict[str, Any]:
    serializer.is_valid(raise_exception=True)
    return dict(serializer.validated_data)


def _item(item: QueueItem, label: Label | None = None, *, status: int = 200) -> Response:
    shown = {
        "decision": item.decision_id, "episode": item.episode_id, "state": shown_state(item), "label": label
    }  # fmt: skip
    return Response(ItemSerializer(shown).data, status=status)


class LabelQueueList(generics.ListCreateAPIView[LabelQueue]):
    """Lists the labelling queues, newest first."""

    scopes = {"GET": Scope.EXPORT_READ, "POST": Scope.ADMIN}
    serializer_class = LabelQueueSerializer

    def get_queryset(self) -> Any:
        queues = LabelQueue.objects.for_workspace(acting(self.request).workspace)
        return queues.prefetch_related("reviewers", "adjudicators")

    @extend_schema(
        operation_id="create_label_queue", request=QueueCreateSerializer, responses={"201": LabelQueueSerializer}
    )
    def post(self, request: Request) -> Response:
        """Creates a labelling queue."""
        given = _given(QueueCreateSerializer(data=request.data))
        queue = create_queue(by=acting(request), slug=given.pop("slug"), setup=QueueSetup(**given))
        return Response(LabelQueueSerializer(queue).data, status=201)


class LabelQueueDetail(APIView):
    """Reads a labelling queue with its progress."""

    scopes = {"GET": Scope.EXPORT_READ, "PATCH": Scope.ADMIN}

    @extend_schema(operation_id="label_queues_retrieve", responses={"200": LabelQueueDetailSerializer})
    def get(self, request: Request, slug: str) -> Response:
        return self._answer(_queue(request, slug))

    @extend_schema(
        operation_id="change_label_queue",
        request=QueuePatchSerializer,
        responses={"200": LabelQueueDetailSerializer},
    )
    def patch(self, request: Request, slug: str) -> Response:
        """Changes a labelling queue, closes it or opens it again. Subject, filters, strategy and overlap stay as they
        are."""
        given = _given(QueuePatchSerializer(data=request.data))
        return self._answer(change_queue(by=acting(request), queue=_queue(request, slug), **given))

    def _answer(self, queue: LabelQueue) -> Response:
        queue.progress = count_progress(queue)  # type: ignore[attr-defined]
        return Response(LabelQueueDetailSerializer(queue).data)


class NextInQueue(APIView):
    """Reserves the next decision or episode of a labelling queue for the caller."""

    scopes = {"POST": Scope.FEEDBACK_WRITE}

    @extend_schema(operation_id="next_in_label_queue", request=None, responses={"200": NextSerializer})
    def post(self, request: Request, slug: str) -> Response:
        """What the caller holds already, or the next one. It is held until it is labelled, skipped or discarded, at
        most for the queue's `hold_seconds` from now."""
        queue = _queue(request, slug)
        held = reserve_next(by=acting(request), queue=queue)
        place = held.reservations[0] if held.reservations else None
        return Response(
            {
                "decision": None,
                "episode": None,
                "expires_at": place.expires_at if place is not None else None,
                "draft": place.draft if place is not None else None,
                "searching": held.searching,
            }
            | ({} if place is None else {queue.subject: SHOW[queue.subject](place.subject)})
        )


def _show_decision(pk: uuid.UUID) -> Any:
    found = Decision.objects.select_related("agent", "agent_version", "model_version__registered_model", "exposure")
    decision = found.defer("content_hash", "token_ids", "logprobs").filter(id=pk).first()
    return DecisionSerializer(decision).data if decision is not None else None


def _show_episode(pk: uuid.UUID) -> Any:
    episode = Episode.objects.select_related("agent").filter(id=pk).first()
    if episode is None:
        return None
    fill_totals([episode])
    fill_ends([episode])
    return EpisodeSerializer(episode).data


SHOW: dict[str, Callable[[uuid.UUID], Any]] = {
    QueueSubject.DECISION.value: _show_decision,
    QueueSubject.EPISODE.value: _show_episode,
}


class _OfItem(APIView):
    """`subjects` in the path is `decisions` or `episodes`, as the queue asks about them."""

    scopes = {"POST": Scope.FEEDBACK_WRITE}

    def known(self, request: Request, slug: str, subjects: str, pk: uuid.UUID) -> dict[str, Any]:
        queue = _queue(request, slug)
        if subjects != f"{queue.subject}s":
            raise NotFound(f"This labelling queue asks about {queue.subject}s.")
        return {"by": acting(request), "queue": queue, "subject": pk}


class LabelInQueue(_OfItem):
    """Labels a decision or an episode that the caller holds."""

    @extend_schema(
        operation_id="label_in_queue",
        request=LabelSerializer,
        responses={"201": ItemSerializer, "410": ErrorSerializer},
    )
    def post(self, request: Request, slug: str, subjects: str, pk: uuid.UUID) -> Response:
        """With an overlap of 1 the label counts at once. Otherwise it counts by the resolution: where all reviewers say
        the same, or by an adjudicator. An episode takes no `corrected_action`."""
        given = _given(LabelSerializer(data=request.data))
        return _item(*submit_label(**self.known(request, slug, subjects, pk), **given), status=201)


class DraftInQueue(_OfItem):
    """Keeps an unfinished label of what the caller holds."""

    @extend_schema(operation_id="draft_in_queue", request=DraftSerializer, responses={"200": DraftSerializer})
    def post(self, request: Request, slug: str, subjects: str, pk: uuid.UUID) -> Response:
        given = _given(DraftSerializer(data=request.data))
        return Response(save_draft(**self.known(request, slug, subjects, pk), draft=given).draft)


class DiscardInQueue(_OfItem):
    """Gives back a decision or an episode that the caller holds, without its draft."""

    @extend_schema(operation_id="discard_in_queue", request=None, responses={"200": ItemSerializer})
    def post(self, request: Request, slug: str, subjects: str, pk: uuid.UUID) -> Response:
        return _item(discard_place(**self.known(request, slug, subjects, pk)))


class SkipInQueue(_OfItem):
    """Skips a decision or an episode that the caller holds. A skip is no verdict."""

    @extend_schema(operation_id="skip_in_queue", request=None, responses={"200": ItemSerializer})
    def post(self, request: Request, slug: str, subjects: str, pk: uuid.UUID) -> Response:
        return _item(skip_item(**self.known(request, slug, subjects, pk)))


class UndoInQueue(_OfItem):
    """Takes back the caller's label, skip or resolution of a decision or an episode."""

    @extend_schema(operation_id="undo_in_queue", request=None, responses={"200": ItemSerializer})
    def post(self, request: Request, slug: str, subjects: str, pk: uuid.UUID) -> Response:
        """A label cannot be taken back once somebody else has resolved the dispute."""
        return _item(undo_in_queue(**self.known(request, slug, subjects, pk)))


class AdjudicateInQueue(_OfItem):
    """Resolves a dispute. For admins and the queue's adjudicators."""

    @extend_schema(
        operation_id="adjudicate_in_queue",
        request=LabelSerializer,
        responses={"201": ItemSerializer, "410": ErrorSerializer},
    )
    def post(self, request: Request, slug: str, subjects: str, pk: uuid.UUID) -> Response:
        given = _given(LabelSerializer(data=request.data))
        return _item(*adjudicate_item(**self.known(request, slug, subjects, pk), **given), status=201)


class DisputeList(generics.ListAPIView[QueueItem]):
    """Lists decisions or episodes whose reviewers disagree, with their labels."""

    scopes = {"GET": Scope.EXPORT_READ}
    serializer_class = DisputeSerializer

    def get_queryset(self) -> Any:
        return find_disputes(_queue(self.request, self.kwargs["slug"])).select_related("queue")


class QueueAgreement(APIView):
    """Measures how far a queue's reviewers agree, and each reviewer's accuracy and pace."""

    scopes = {"GET": Scope.ADMIN}

    @extend_schema(operation_id="label_queue_agreement", responses={"200": AgreementSerializer})
    def get(self, request: Request, slug: str) -> Response:
        return Response(AgreementSerializer(measure_agreement(_queue(request, slug))).data)


class QueueGold(APIView):
    """Adds labelled decisions or episodes to a queue as gold items, whose right answer is known."""

    scopes = {"POST": Scope.ADMIN}

    @extend_schema(operation_id="add_gold_items", request=GoldSerializer, responses={"201": GoldAddedSerializer})
    def post(self, request: Request, slug: str) -> Response:
        """Each reviewer gets each of them once, in the queue's share of turns. Their answers count for nothing else."""
        given, queue = _given(GoldSerializer(data=request.data)), _queue(request, slug)
        name = f"{queue.subject}s"
        if set(given) != {name}:
            fault = FieldFault(name, f"{', '.join(given) or 'nothing'} given", f"{name}, which the queue asks about")
            raise InvalidInput("The gold items are invalid.", faults=[fault])
        added = add_gold(by=acting(request), queue=queue, subjects=given[name])
        return Response({"added": added}, status=201)
