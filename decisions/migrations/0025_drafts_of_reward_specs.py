"""Drafts of reward specs."""

import django.db.models.deletion
from django.db import migrations, models

import workspaces.storage.ids


class Migration(migrations.Migration):
    dependencies = [
        ("decisions", "0024_labelling_queues"),
        ("jobs", "0001_jobs_and_outbox"),
        ("workspaces", "0009_invitations_and_deactivated_members"),
    ]

    operations = [
        migrations.CreateModel(
            name="RewardDraft",
            fields=[
                (
                    "id",
                    models.UUIDField(
                        default=workspaces.storage.ids.uuid7, editable=False, primary_key=True, serialize=False
                    ),
                ),
                ("content", models.JSONField()),
                ("made_by", models.CharField(max_length=254)),
                ("result", models.JSONField(null=True)),
                ("created_at", models.DateTimeField(auto_now_add=True)),
                (
                    "agent",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="reward_drafts",
                        to="decisions.agent",
                    ),
                ),
                (
                    "base",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="+", to="decisions.rewardspec"
                    ),
                ),
                (
                    "job",
                    models.ForeignKey(
                        null=True, on_delete=django.db.models.deletion.SET_NULL, related_name="+", to="jobs.job"
                    ),
                ),
                (
                    "published",
                    models.OneToOneField(
                        null=True,
                        on_delete=django.db.models.deletion.SET_NULL,
                        related_name="draft",
                        to="decisions.rewardspec",
                    ),
                ),
                (
                    "workspace",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="+", to="workspaces.workspace"
                    ),
                ),
            ],
            options={"ordering": ["-id"]},
        ),
    ]
