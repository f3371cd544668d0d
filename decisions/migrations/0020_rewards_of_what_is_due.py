"""Decisions whose reward may have changed are rows, and each spec remembers up to when the ledger was searched.

A spec that was never searched finds all its decisions due once; their rewards are unchanged, so none is written.
"""

import django.db.models.deletion
import django.utils.timezone
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("decisions", "0019_jobs_calculate_rewards"),
        ("workspaces", "0009_invitations_and_deactivated_members"),
    ]

    operations = [
        migrations.AddField(
            model_name="episode",
            name="changed_at",
            field=models.DateTimeField(default=django.utils.timezone.now, help_text="The server's clock"),
        ),
        migrations.AddIndex(
            model_name="episode",
            index=models.Index(fields=["workspace", "changed_at"], name="episode_changed"),
        ),
        migrations.AlterField(
            model_name="reward",
            name="feedback_until",
            field=models.DateTimeField(
                help_text="recorded_at of the newest feedback that was read; null where there was none", null=True
            ),
        ),
        migrations.RemoveIndex(model_name="reward", name="reward_watermark"),
        migrations.AddIndex(
            model_name="reward", index=models.Index(fields=["spec", "-computed_at"], name="reward_newest")
        ),
        migrations.CreateModel(
            name="MeasurementDue",
            fields=[
                (
                    "pk",
                    models.CompositePrimaryKey(
                        "component", "decision_id", blank=True, editable=False, primary_key=True, serialize=False
                    ),
                ),
                ("component", models.CharField(max_length=100)),
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
                    "workspace",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="+",
                        to="workspaces.workspace",
                    ),
                ),
            ],
            options={"abstract": False},
        ),
        migrations.CreateModel(
            name="RewardDue",
            fields=[
                (
                    "pk",
                    models.CompositePrimaryKey(
                        "spec_id", "decision_id", blank=True, editable=False, primary_key=True, serialize=False
                    ),
                ),
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
                    "spec",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="due",
                        to="decisions.rewardspec",
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
            options={"abstract": False},
        ),
        migrations.CreateModel(
            name="RewardProgress",
            fields=[
                (
                    "spec",
                    models.OneToOneField(
                        on_delete=django.db.models.deletion.CASCADE,
                        primary_key=True,
                        related_name="progress",
                        serialize=False,
                        to="decisions.rewardspec",
                    ),
                ),
                ("searched_until", models.DateTimeField(null=True)),
                (
                    "workspace",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="+", to="workspaces.workspace"
                    ),
                ),
            ],
            options={"abstract": False},
        ),
    ]
