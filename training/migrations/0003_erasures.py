"""Erasures of people, and marks on the datasets that held their rows."""

import django.db.models.deletion
from django.db import migrations, models

import workspaces.storage.ids


class Migration(migrations.Migration):
    dependencies = [
        ("decisions", "0008_erasure_of_feedback"),
        ("jobs", "0001_jobs_and_outbox"),
        ("models_registry", "0004_marks_of_erasure"),
        ("training", "0002_rehearsals"),
        ("workspaces", "0003_rotation_kept_answers_failed_log_ins"),
    ]

    operations = [
        migrations.CreateModel(
            name="Erasure",
            fields=[
                (
                    "id",
                    models.UUIDField(
                        default=workspaces.storage.ids.uuid7, editable=False, primary_key=True, serialize=False
                    ),
                ),
                ("kind", models.CharField(choices=[("unit", "Unit"), ("user", "User reference")], max_length=8)),
                ("subject", models.CharField(blank=True, max_length=200, null=True)),
                ("secret", models.BinaryField(blank=True, max_length=32, null=True)),
                ("fingerprint", models.CharField(max_length=64)),
                ("counts", models.JSONField(default=dict)),
                ("requested_by", models.CharField(max_length=254)),
                ("created_at", models.DateTimeField(auto_now_add=True)),
                ("finished_at", models.DateTimeField(blank=True, null=True)),
            ],
        ),
        migrations.AddField(
            model_name="datasetsnapshot",
            name="erased_rows",
            field=models.PositiveIntegerField(default=0),
        ),
        migrations.AddField(
            model_name="datasetsnapshot",
            name="marked_at",
            field=models.DateTimeField(blank=True, null=True),
        ),
        migrations.AddConstraint(
            model_name="datasetsnapshot",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    models.Q(("erased_rows", 0), ("marked_at__isnull", True)),
                    models.Q(("erased_rows__gt", 0), ("marked_at__isnull", False)),
                    _connector="OR",
                ),
                name="dataset_marked_exactly_when_rows_are_erased",
            ),
        ),
        migrations.AddField(
            model_name="erasure",
            name="job",
            field=models.OneToOneField(
                null=True, on_delete=django.db.models.deletion.PROTECT, related_name="erasure", to="jobs.job"
            ),
        ),
        migrations.AddField(
            model_name="erasure",
            name="workspace",
            field=models.ForeignKey(
                on_delete=django.db.models.deletion.CASCADE, related_name="+", to="workspaces.workspace"
            ),
        ),
        migrations.AddConstraint(
            model_name="erasure",
            constraint=models.CheckConstraint(
                condition=models.Q(("kind__in", ["unit", "user"])), name="erasure_kind_known"
            ),
        ),
        migrations.AddConstraint(
            model_name="erasure",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    models.Q(("finished_at__isnull", True), ("secret__isnull", False), ("subject__isnull", False)),
                    models.Q(("finished_at__isnull", False), ("secret__isnull", True), ("subject__isnull", True)),
                    _connector="OR",
                ),
                name="erasure_forgets_when_finished",
            ),
        ),
        migrations.AddConstraint(
            model_name="erasure",
            constraint=models.UniqueConstraint(
                condition=models.Q(("finished_at__isnull", True)),
                fields=("workspace", "fingerprint"),
                name="erasure_once_at_a_time",
            ),
        ),
    ]
