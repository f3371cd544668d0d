import django.db.models.deletion
from django.db import migrations, models
from django.db.models import Q

import workspaces.storage.ids


class Migration(migrations.Migration):
    dependencies = [
        ("decisions", "0034_queues_of_episodes_have_indexes"),
        ("models_registry", "0007_off_policy_verdicts"),
        ("training", "0005_datasets_of_texts"),
        ("workspaces", "0009_invitations_and_deactivated_members"),
    ]

    operations = [
        migrations.CreateModel(
            name="EvaluationSuite",
            fields=[
                (
                    "id",
                    models.UUIDField(
                        default=workspaces.storage.ids.uuid7, editable=False, primary_key=True, serialize=False
                    ),
                ),
                ("name", models.CharField(max_length=200)),
                ("slice_by", models.CharField(blank=True, max_length=63)),
                ("scorer", models.JSONField()),
                ("created_at", models.DateTimeField(auto_now_add=True)),
                (
                    "agent",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="suites", to="decisions.agent"
                    ),
                ),
                (
                    "dataset",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="suites",
                        to="training.datasetsnapshot",
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
                "constraints": [
                    models.UniqueConstraint(fields=("agent", "name"), name="suite_name_once_per_agent"),
                    models.CheckConstraint(condition=~Q(name=""), name="suite_has_a_name"),
                ],
            },
        ),
        migrations.CreateModel(
            name="SuiteScore",
            fields=[
                (
                    "id",
                    models.UUIDField(
                        default=workspaces.storage.ids.uuid7, editable=False, primary_key=True, serialize=False
                    ),
                ),
                ("rows", models.PositiveIntegerField()),
                ("scores", models.JSONField(help_text="training.evaluation.suites.scoring.summarise")),
                ("learnt", models.BooleanField(default=False)),
                ("differences", models.JSONField(default=dict, help_text="training.evaluation.suites.scoring.compare")),
                ("created_at", models.DateTimeField(auto_now_add=True)),
                (
                    "against",
                    models.ForeignKey(
                        null=True,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="+",
                        to="models_registry.modelversion",
                    ),
                ),
                (
                    "answers",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT, related_name="+", to="models_registry.artifact"
                    ),
                ),
                (
                    "run",
                    models.ForeignKey(
                        null=True,
                        on_delete=django.db.models.deletion.SET_NULL,
                        related_name="suite_scores",
                        to="training.trainingrun",
                    ),
                ),
                (
                    "suite",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="scores",
                        to="training.evaluationsuite",
                    ),
                ),
                (
                    "version",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="suite_scores",
                        to="models_registry.modelversion",
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
                "constraints": [
                    models.UniqueConstraint(fields=("suite", "version"), name="suite_scored_once_per_version")
                ],
            },
        ),
    ]
