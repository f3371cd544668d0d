"""Jobs and the outbox of what they announce."""

import django.contrib.postgres.indexes
import django.db.models.deletion
import django.utils.timezone
from django.db import migrations, models

import workspaces.storage.ids


class Migration(migrations.Migration):
    # Their files are gone: an instance that has applied all of them records this one only.
    replaces = [
        ("jobs", "0001_jobs_and_outbox"),
        ("jobs", "0002_let_a_dead_job_be_asked_again"),
    ]
    initial = True
    dependencies = [
        ("workspaces", "0001_people_keys_and_audit"),
    ]

    operations = [
        migrations.CreateModel(
            name="Job",
            fields=[
                (
                    "id",
                    models.UUIDField(
                        default=workspaces.storage.ids.uuid7, editable=False, primary_key=True, serialize=False
                    ),
                ),
                ("kind", models.CharField(max_length=64)),
                ("queue", models.CharField(default="default", max_length=32)),
                ("dedupe_key", models.CharField(blank=True, max_length=128, null=True)),
                ("payload", models.JSONField(default=dict)),
                (
                    "state",
                    models.CharField(
                        choices=[
                            ("queued", "Queued"),
                            ("running", "Running"),
                            ("succeeded", "Succeeded"),
                            ("dead", "Dead"),
                            ("cancelled", "Cancelled"),
                        ],
                        default="queued",
                        max_length=16,
                    ),
                ),
                ("attempts", models.PositiveSmallIntegerField(default=0)),
                ("max_attempts", models.PositiveSmallIntegerField(default=3)),
                ("fence", models.BigIntegerField(default=0)),
                ("lease_until", models.DateTimeField(blank=True, null=True)),
                ("run_after", models.DateTimeField(default=django.utils.timezone.now)),
                ("progress", models.FloatField(default=0.0)),
                ("message", models.CharField(blank=True, max_length=500)),
                ("result", models.JSONField(blank=True, null=True)),
                ("error", models.TextField(blank=True)),
                ("cancel_requested", models.BooleanField(default=False)),
                ("created_at", models.DateTimeField(auto_now_add=True)),
                ("started_at", models.DateTimeField(blank=True, null=True)),
                ("finished_at", models.DateTimeField(blank=True, null=True)),
                (
                    "workspace",
                    models.ForeignKey(
                        null=True,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="+",
                        to="workspaces.workspace",
                    ),
                ),
            ],
            options={
                "indexes": [
                    models.Index(condition=models.Q(("state", "queued")), fields=["run_after"], name="job_due"),
                    models.Index(condition=models.Q(("state", "running")), fields=["lease_until"], name="job_leased"),
                    django.contrib.postgres.indexes.HashIndex(fields=["kind"], name="job_kind"),
                ],
                "constraints": [
                    models.CheckConstraint(
                        condition=models.Q(("state__in", ["queued", "running", "succeeded", "dead", "cancelled"])),
                        name="job_state_known",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            models.Q(("finished_at__isnull", False), ("state__in", ("succeeded", "dead", "cancelled"))),
                            models.Q(
                                models.Q(("state__in", ("succeeded", "dead", "cancelled")), _negated=True),
                                ("finished_at__isnull", True),
                            ),
                            _connector="OR",
                        ),
                        name="job_finished_at_exactly_when_terminal",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            models.Q(("lease_until__isnull", False), ("state", "running")),
                            models.Q(models.Q(("state", "running"), _negated=True), ("lease_until__isnull", True)),
                            _connector="OR",
                        ),
                        name="job_leased_exactly_when_running",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(("progress__gte", 0), ("progress__lte", 1)), name="job_progress_is_a_share"
                    ),
                    models.CheckConstraint(
                        condition=models.Q(("attempts__lte", models.F("max_attempts"))),
                        name="job_attempts_within_bounds",
                    ),
                    models.UniqueConstraint(
                        condition=models.Q(("dedupe_key__isnull", False), models.Q(("state", "dead"), _negated=True)),
                        fields=("kind", "dedupe_key"),
                        name="job_once_per_key",
                    ),
                ],
            },
        ),
        migrations.CreateModel(
            name="Outbox",
            fields=[
                (
                    "id",
                    models.UUIDField(
                        default=workspaces.storage.ids.uuid7, editable=False, primary_key=True, serialize=False
                    ),
                ),
                ("sent_at", models.DateTimeField(blank=True, null=True)),
                ("sends", models.PositiveIntegerField(default=0)),
                (
                    "job",
                    models.OneToOneField(
                        on_delete=django.db.models.deletion.CASCADE, related_name="outbox", to="jobs.job"
                    ),
                ),
            ],
            options={
                "verbose_name_plural": "outbox",
            },
        ),
    ]
