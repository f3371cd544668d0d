"""One verdict for many decisions, which its labels name."""

import django.contrib.postgres.fields
import django.db.models.deletion
from django.conf import settings
from django.db import migrations, models
from django.db.models import F, Q

import workspaces.storage.ids

VERDICTS = [
    ("confirmed", "Confirmed"),
    ("corrected", "Corrected"),
    ("overridden", "Overridden"),
    ("ignored", "Ignored"),
]


class Migration(migrations.Migration):
    dependencies = [
        ("decisions", "0028_queues_find_late_decisions"),
        ("jobs", "0002_let_a_dead_job_be_asked_again"),
        ("workspaces", "0009_invitations_and_deactivated_members"),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.CreateModel(
            name="BulkLabel",
            fields=[
                (
                    "id",
                    models.UUIDField(
                        default=workspaces.storage.ids.uuid7, editable=False, primary_key=True, serialize=False
                    ),
                ),
                ("program", models.CharField(blank=True, max_length=64)),
                ("verdict", models.CharField(choices=VERDICTS, max_length=16)),
                ("corrected_action", models.JSONField(null=True)),
                ("filters", models.JSONField(blank=True, default=dict)),
                (
                    "replaces",
                    models.BooleanField(default=False, help_text="Decisions with a person's label are labelled, too"),
                ),
                ("matching", models.PositiveIntegerField()),
                ("chosen", models.PositiveIntegerField()),
                ("done", models.PositiveIntegerField(default=0)),
                ("labelled", models.PositiveIntegerField(default=0)),
                (
                    "decisions",
                    django.contrib.postgres.fields.ArrayField(
                        base_field=models.UUIDField(), blank=True, default=list, size=None
                    ),
                ),
                ("created_at", models.DateTimeField(auto_now_add=True)),
                ("undone_at", models.DateTimeField(null=True)),
                (
                    "job",
                    models.ForeignKey(
                        null=True, on_delete=django.db.models.deletion.SET_NULL, related_name="+", to="jobs.job"
                    ),
                ),
                (
                    "reviewer",
                    models.ForeignKey(
                        null=True,
                        on_delete=django.db.models.deletion.SET_NULL,
                        related_name="+",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
                (
                    "workspace",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="+", to="workspaces.workspace"
                    ),
                ),
            ],
            options={
                "ordering": ["-id"],
                "constraints": [
                    models.CheckConstraint(
                        condition=Q(verdict__in=[value for value, _ in VERDICTS]), name="bulk_label_verdict_known"
                    ),
                    models.CheckConstraint(
                        condition=Q(chosen__lte=F("matching"), done__lte=F("chosen"), labelled__lte=F("done")),
                        name="bulk_label_counts_in_order",
                    ),
                ],
            },
        ),
        migrations.AddField(
            "label",
            "bulk",
            models.ForeignKey(
                db_index=False,
                null=True,
                on_delete=django.db.models.deletion.SET_NULL,
                related_name="labels",
                to="decisions.bulklabel",
            ),
        ),
        migrations.AddIndex("label", models.Index(condition=Q(bulk__isnull=False), fields=["bulk"], name="label_bulk")),
    ]
