"""Labelling queues: what is asked of whom, places that reviewers hold, and what came of each decision or episode."""

from __future__ import annotations

import uuid
from typing import Any

from django.db import models
from django.db.models import F, Q

from decisions.models.feedback import ONE_SUBJECT
from workspaces.models import WorkspaceOwned
from workspaces.storage.ids import uuid7

MAX_OVERLAP = 5


class QueueSubject(models.TextChoices):
    """What a queue asks about. The value is also the name of the column that holds it: of items and labels."""

    DECISION = "decision", "Decisions"
    EPISODE = "episode", "Episodes"


class QueueStrategy(models.TextChoices):
    """In which order a queue asks. `decisions.labelling.ranking` defines each."""

    SEQUENTIAL = "sequential", "Oldest first"
    RANDOM = "random", "Random"
    UNCERTAINTY = "uncertainty", "Most uncertain first"
    VALUE = "value", "Most valuable first"
    DIVERSITY = "diversity", "Most diverse first"


class SkipPolicy(models.TextChoices):
    ASK_OTHERS = "ask_others", "Ask other reviewers"
    DROP = "drop", "Leave it out"


class QueueState(models.TextChoices):
    OPEN = "open", "Open"
    CLOSED = "closed", "Closed"


class ItemState(models.TextChoices):
    """`waiting` for labels; `disputed` until somebody adjudicates; `dropped` by a skip or by an erasure. `gold` items
    have a known answer, and stay gold."""

    WAITING = "waiting", "Waiting for labels"
    DISPUTED = "disputed", "To adjudicate"
    RESOLVED = "resolved", "Resolved"
    DROPPED = "dropped", "Left out"
    GOLD = "gold", "Gold"


class LabelQueue(WorkspaceOwned):
    """`filters` are parameters of the list of the queue's `subject`; without a verdict they mean what has none.

    `overlap` reviewers label each decision or episode. `reviewers` may label; where nobody is named, everybody who may
    label in the workspace. `adjudicators` resolve disputes, beside admins; where the queue is `blind`, they do not see
    who gave which label. `newest` and `oldest` say which ids the queue has looked at, `filled_at` when it last did. Of
    what arrived with an id between them, it has looked at everything up to `late_at`, the server's time of arrival, and
    in that moment up to `late_id`.
    """

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    slug = models.SlugField(max_length=63)
    name = models.CharField(max_length=200)
    subject = models.CharField(
        max_length=8,
        choices=QueueSubject.choices,
        default=QueueSubject.DECISION,
        db_default=QueueSubject.DECISION,
        help_text="What reviewers label",
    )
    filters = models.JSONField(default=dict, blank=True)
    strategy = models.CharField(max_length=16, choices=QueueStrategy.choices, default=QueueStrategy.UNCERTAINTY)
    overlap = models.PositiveSmallIntegerField(default=1)
    guidelines = models.TextField(blank=True)
    gold_share = models.FloatField(default=0.0)
    skip_policy = models.CharField(max_length=16, choices=SkipPolicy.choices, default=SkipPolicy.ASK_OTHERS)
    hold_seconds = models.PositiveIntegerField(default=900, help_text="How long a reviewer holds a place")
    blind = models.BooleanField(default=True)
    state = models.CharField(max_length=8, choices=QueueState.choices, default=QueueState.OPEN)
    reviewers: Any = models.ManyToManyField("workspaces.User", related_name="+", blank=True)
    adjudicators: Any = models.ManyToManyField("workspaces.User", related_name="+", blank=True)
    newest = models.UUIDField(null=True, editable=False)
    oldest = models.UUIDField(null=True, editable=False)
    late_at = models.DateTimeField(null=True, editable=False)
    late_id = models.UUIDField(null=True, editable=False)
    filled_at = models.DateTimeField(null=True, editable=False)
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        ordering = ["-id"]
        constraints = [
            models.UniqueConstraint(fields=["workspace", "slug"], name="label_queue_slug_once"),
            models.CheckConstraint(
                condition=Q(overlap__gte=1, overlap__lte=MAX_OVERLAP, gold_share__gte=0, gold_share__lte=0.5)
                & Q(hold_seconds__gte=1, hold_seconds__lte=86_400),
                name="label_queue_ranges",
            ),
            models.CheckConstraint(
                condition=Q(strategy__in=QueueStrategy.values)
                & Q(skip_policy__in=SkipPolicy.values)
                & Q(state__in=QueueState.values),
                name="label_queue_choices_known",
            ),
            models.CheckConstraint(condition=Q(subject__in=QueueSubject.values), name="label_queue_subject_known"),
        ]

    def __str__(self) -> str:
        return self.name


class QueueItem(WorkspaceOwned):
    """A decision or an episode in a queue. `resolution` is the label that counts. `gold` is the
    known answer, {verdict, corrected_action}."""

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    workspace = models.ForeignKey("workspaces.Workspace", on_delete=models.CASCADE, db_index=False, related_name="+")
    queue = models.ForeignKey(LabelQueue, on_delete=models.CASCADE, db_index=False, related_name="items")
    decision = models.ForeignKey(
        "decisions.Decision",
        on_delete=models.DO_NOTHING,
        db_constraint=False,
        db_index=False,
        null=True,
        related_name="+",
    )
    episode = models.ForeignKey(
        "decisions.Episode", on_delete=models.CASCADE, db_index=False, null=True, related_name="+"
    )
    state = models.CharField(max_length=8, choices=ItemState.choices, default=ItemState.WAITING)
    gold = models.JSONField(null=True)
    resolution = models.ForeignKey("decisions.Label", on_delete=models.SET_NULL, null=True, related_name="+")

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["queue", "decision"], name="queue_item_once"),
            models.UniqueConstraint(
                fields=["queue", "episode"], condition=Q(episode__isnull=False), name="queue_item_episode_once"
            ),
            models.CheckConstraint(condition=ONE_SUBJECT, name="queue_item_one_subject"),
            models.CheckConstraint(condition=Q(state__in=ItemState.values), name="queue_item_state_known"),
            models.CheckConstraint(
                condition=Q(state="resolved") | Q(resolution__isnull=True), name="queue_item_resolved_by_a_label"
            ),
        ]
        indexes = [
            models.Index(fields=["queue", "state"], name="queue_item_state"),
            models.Index(fields=["decision"], name="queue_item_decision"),
            models.Index(fields=["episode"], condition=Q(episode__isnull=False), name="queue_item_episode"),
        ]

    def __str__(self) -> str:
        return f"{self.subject_id} in {self.queue}"

    @property
    def subject_id(self) -> uuid.UUID:
        """The decision's or the episode's."""
        found = self.decision_id or self.episode_id
        assert found is not None  # the constraint queue_item_one_subject
        return found


class Reservation(WorkspaceOwned):
    """A place for one reviewer's label of an item: an item has `overlap` places from the start, so that no more
    reviewers than that can hold or have labelled it.

    `subject` is the id of the item's decision or episode. `holder` is a person's id or a key's name, empty while the
    place is free; it may be taken over from `expires_at` on. The lowest `rank` is asked first. Once the place has a
    `label`, the label's reviewer keeps it. A row without a `place` takes none: a skip, or one reviewer's turn at a gold
    item.
    """

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    workspace = models.ForeignKey("workspaces.Workspace", on_delete=models.CASCADE, db_index=False, related_name="+")
    queue = models.ForeignKey(LabelQueue, on_delete=models.CASCADE, db_index=False, related_name="reservations")
    item = models.ForeignKey(QueueItem, on_delete=models.CASCADE, db_index=False, related_name="reservations")
    subject = models.UUIDField()
    place = models.PositiveSmallIntegerField(null=True)
    rank = models.FloatField(default=0.0, db_default=0.0)
    holder = models.CharField(max_length=64, blank=True)
    expires_at = models.DateTimeField(null=True)
    draft = models.JSONField(null=True)
    label = models.OneToOneField("decisions.Label", on_delete=models.SET_NULL, null=True, related_name="reservation")
    skipped_at = models.DateTimeField(null=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["item", "place"], name="reservation_place_once"),
            models.UniqueConstraint(
                fields=["queue", "subject", "holder"], condition=~Q(holder=""), name="reservation_reviewer_once"
            ),
            models.CheckConstraint(
                condition=Q(place__isnull=True) | Q(place__gte=1, place__lte=MAX_OVERLAP),
                name="reservation_place_range",
            ),
            models.CheckConstraint(
                condition=Q(holder="", expires_at__isnull=True, draft__isnull=True) | ~Q(holder=""),
                name="reservation_free_place_is_empty",
            ),
        ]
        indexes = [
            models.Index(
                fields=["queue", "rank", "subject", "place"],
                condition=Q(place__isnull=False, label__isnull=True),
                name="reservation_next",
            ),
            models.Index(F("queue"), F("holder"), condition=~Q(holder=""), name="reservation_held"),
            # What a reviewer holds now, beside the thousands that they have labelled.
            models.Index(
                F("queue"),
                F("holder"),
                condition=~Q(holder="") & Q(label__isnull=True, skipped_at__isnull=True),
                name="reservation_open",
            ),
            models.Index(fields=["subject"], name="reservation_subject"),
        ]

    def __str__(self) -> str:
        return f"{self.holder or 'free'}: {self.subject}"
