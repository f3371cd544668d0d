"""Labelling queues, their items and the places that reviewers hold; labels that wait for others are pending."""

import django.db.models.deletion
from django.conf import settings
from django.db import migrations, models

import workspaces.storage.ids


class Migration(migrations.Migration):
    dependencies = [
        ("decisions", "0023_suggested_labels"),
        ("workspaces", "0009_invitations_and_deactivated_members"),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.AddField(
            model_name="label",
            name="pending",
            field=models.BooleanField(db_default=False, default=False),
        ),
        migrations.CreateModel(
            name="LabelQueue",
            fields=[
                (
                    "id",
                    models.UUIDField(
                        default=workspaces.storage.ids.uuid7, editable=False, primary_key=True, serialize=False
                    ),
                ),
                ("slug", models.SlugField(max_length=63)),
                ("name", models.CharField(max_length=200)),
                ("filters", models.JSONField(blank=True, default=dict)),
                (
                    "strategy",
                    models.CharField(
                        choices=[
                            ("sequential", "Oldest first"),
                            ("random", "Random"),
                            ("uncertainty", "Most uncertain first"),
                            ("value", "Most valuable first"),
                        ],
                        default="uncertainty",
                        max_length=16,
                    ),
                ),
                ("overlap", models.PositiveSmallIntegerField(default=1)),
                ("guidelines", models.TextField(blank=True)),
                ("gold_share", models.FloatField(default=0.0)),
                (
                    "skip_policy",
                    models.CharField(
                        choices=[("ask_others", "Ask other reviewers"), ("drop", "Leave it out")],
                        default="ask_others",
                        max_length=16,
                    ),
                ),
                (
                    "hold_seconds",
                    models.PositiveIntegerField(default=900, help_text="How long a reviewer holds a place"),
                ),
                ("blind", models.BooleanField(default=True)),
                (
                    "state",
                    models.CharField(choices=[("open", "Open"), ("closed", "Closed")], default="open", max_length=8),
                ),
                ("newest", models.UUIDField(editable=False, null=True)),
                ("oldest", models.UUIDField(editable=False, null=True)),
                ("filled_at", models.DateTimeField(editable=False, null=True)),
                ("created_at", models.DateTimeField(auto_now_add=True)),
                ("adjudicators", models.ManyToManyField(blank=True, related_name="+", to=settings.AUTH_USER_MODEL)),
                ("reviewers", models.ManyToManyField(blank=True, related_name="+", to=settings.AUTH_USER_MODEL)),
                (
                    "workspace",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="+", to="workspaces.workspace"
                    ),
                ),
            ],
            options={
                "ordering": ["-id"],
            },
        ),
        migrations.CreateModel(
            name="QueueItem",
            fields=[
                (
                    "id",
                    models.UUIDField(
                        default=workspaces.storage.ids.uuid7, editable=False, primary_key=True, serialize=False
                    ),
                ),
                ("rank", models.FloatField()),
                (
                    "state",
                    models.CharField(
                        choices=[
                            ("waiting", "Waiting for labels"),
                            ("disputed", "To adjudicate"),
                            ("resolved", "Resolved"),
                            ("dropped", "Left out"),
                            ("gold", "Gold"),
                        ],
                        default="waiting",
                        max_length=8,
                    ),
                ),
                ("gold", models.JSONField(null=True)),
                (
                    "decision",
                    models.ForeignKey(
                        db_constraint=False,
                        db_index=False,
                        on_delete=django.db.models.deletion.DO_NOTHING,
                        related_name="+",
                        to="decisions.decision",
                    ),
                ),
                (
                    "queue",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="items",
                        to="decisions.labelqueue",
                    ),
                ),
                (
                    "resolution",
                    models.ForeignKey(
                        null=True, on_delete=django.db.models.deletion.SET_NULL, related_name="+", to="decisions.label"
                    ),
                ),
                (
                    "workspace",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="+",
                        to="workspaces.workspace",
                    ),
                ),
            ],
        ),
        migrations.CreateModel(
            name="Reservation",
            fields=[
                (
                    "id",
                    models.UUIDField(
                        default=workspaces.storage.ids.uuid7, editable=False, primary_key=True, serialize=False
                    ),
                ),
                ("place", models.PositiveSmallIntegerField(null=True)),
                ("holder", models.CharField(blank=True, max_length=64)),
                ("expires_at", models.DateTimeField(null=True)),
                ("draft", models.JSONField(null=True)),
                ("skipped_at", models.DateTimeField(null=True)),
                (
                    "decision",
                    models.ForeignKey(
                        db_constraint=False,
                        db_index=False,
                        on_delete=django.db.models.deletion.DO_NOTHING,
                        related_name="+",
                        to="decisions.decision",
                    ),
                ),
                (
                    "item",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="reservations",
                        to="decisions.queueitem",
                    ),
                ),
                (
                    "label",
                    models.OneToOneField(
                        null=True,
                        on_delete=django.db.models.deletion.SET_NULL,
                        related_name="reservation",
                        to="decisions.label",
                    ),
                ),
                (
                    "queue",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="reservations",
                        to="decisions.labelqueue",
                    ),
                ),
                (
                    "workspace",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="+",
                        to="workspaces.workspace",
                    ),
                ),
            ],
        ),
        migrations.AddConstraint(
            model_name="labelqueue",
            constraint=models.UniqueConstraint(fields=("workspace", "slug"), name="label_queue_slug_once"),
        ),
        migrations.AddConstraint(
            model_name="labelqueue",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    ("gold_share__gte", 0),
                    ("gold_share__lte", 0.5),
                    ("overlap__gte", 1),
                    ("overlap__lte", 5),
                    ("hold_seconds__gte", 1),
                    ("hold_seconds__lte", 86400),
                ),
                name="label_queue_ranges",
            ),
        ),
        migrations.AddConstraint(
            model_name="labelqueue",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    ("strategy__in", ["sequential", "random", "uncertainty", "value"]),
                    ("skip_policy__in", ["ask_others", "drop"]),
                    ("state__in", ["open", "closed"]),
                ),
                name="label_queue_choices_known",
            ),
        ),
        migrations.AddIndex(
            model_name="queueitem",
            index=models.Index(
                condition=models.Q(("state", "waiting")), fields=["queue", "rank", "decision"], name="queue_item_next"
            ),
        ),
        migrations.AddIndex(
            model_name="queueitem",
            index=models.Index(
                condition=models.Q(("state", "waiting"), _negated=True),
                fields=["queue", "state"],
                name="queue_item_state",
            ),
        ),
        migrations.AddIndex(
            model_name="queueitem",
            index=models.Index(fields=["decision"], name="queue_item_decision"),
        ),
        migrations.AddConstraint(
            model_name="queueitem",
            constraint=models.UniqueConstraint(fields=("queue", "decision"), name="queue_item_once"),
        ),
        migrations.AddConstraint(
            model_name="queueitem",
            constraint=models.CheckConstraint(
                condition=models.Q(("state__in", ["waiting", "disputed", "resolved", "dropped", "gold"])),
                name="queue_item_state_known",
            ),
        ),
        migrations.AddConstraint(
            model_name="queueitem",
            constraint=models.CheckConstraint(
                condition=models.Q(("state", "resolved"), ("resolution__isnull", True), _connector="OR"),
                name="queue_item_resolved_by_a_label",
            ),
        ),
        migrations.AddIndex(
            model_name="reservation",
            index=models.Index(
                models.F("queue"),
                models.F("holder"),
                condition=models.Q(("holder", ""), _negated=True),
                name="reservation_held",
            ),
        ),
        migrations.AddIndex(
            model_name="reservation",
            index=models.Index(fields=["decision"], name="reservation_decision"),
        ),
        migrations.AddConstraint(
            model_name="reservation",
            constraint=models.UniqueConstraint(fields=("item", "place"), name="reservation_place_once"),
        ),
        migrations.AddConstraint(
            model_name="reservation",
            constraint=models.UniqueConstraint(
                condition=models.Q(("holder", ""), _negated=True),
                fields=("queue", "decision", "holder"),
                name="reservation_reviewer_once",
            ),
        ),
        migrations.AddConstraint(
            model_name="reservation",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    ("place__isnull", True), models.Q(("place__gte", 1), ("place__lte", 5)), _connector="OR"
                ),
                name="reservation_place_range",
            ),
        ),
        migrations.AddConstraint(
            model_name="reservation",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    models.Q(("draft__isnull", True), ("expires_at__isnull", True), ("holder", "")),
                    models.Q(("holder", ""), _negated=True),
                    _connector="OR",
                ),
                name="reservation_free_place_is_empty",
            ),
        ),
    ]
