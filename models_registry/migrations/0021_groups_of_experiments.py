"""Several experiments of one model at the same time, each with a lane of the units to itself."""

import django.db.models.deletion
from django.db import migrations, models

import workspaces.storage.ids


class Migration(migrations.Migration):
    dependencies = [
        ("models_registry", "0020_adapters_are_loaded_at_vllm"),
        ("workspaces", "0011_keys_have_limits"),
    ]

    operations = [
        migrations.CreateModel(
            name="ExperimentGroup",
            fields=[
                (
                    "id",
                    models.UUIDField(
                        default=workspaces.storage.ids.uuid7, editable=False, primary_key=True, serialize=False
                    ),
                ),
                ("name", models.CharField(max_length=200)),
                ("salt", models.CharField(max_length=32)),
                ("started_at", models.DateTimeField(auto_now_add=True)),
                ("ended_at", models.DateTimeField(blank=True, null=True)),
            ],
        ),
        migrations.RemoveConstraint(
            model_name="experiment",
            name="experiment_one_running_per_model",
        ),
        migrations.RemoveConstraint(
            model_name="experiment",
            name="experiment_state_known",
        ),
        migrations.RemoveConstraint(
            model_name="look",
            name="look_action_known",
        ),
        migrations.AddField(
            model_name="experiment",
            name="lane_high",
            field=models.FloatField(db_default=1.0, default=1.0),
        ),
        migrations.AddField(
            model_name="experiment",
            name="lane_low",
            field=models.FloatField(db_default=0.0, default=0.0),
        ),
        migrations.AlterField(
            model_name="experiment",
            name="state",
            field=models.CharField(
                choices=[
                    ("running", "Running"),
                    ("promoted", "Promoted"),
                    ("rolled_back", "Rolled back"),
                    ("stopped", "Stopped"),
                    ("superseded", "Superseded"),
                ],
                default="running",
                max_length=16,
            ),
        ),
        migrations.AlterField(
            model_name="look",
            name="action",
            field=models.CharField(
                choices=[
                    ("start", "Started"),
                    ("continue", "Look"),
                    ("promote", "Promoted"),
                    ("roll_back", "Rolled back"),
                    ("supersede", "Superseded"),
                    ("open_phase", "Next phase"),
                    ("change_share", "Share changed"),
                    ("stop", "Stopped"),
                    ("promote_by_hand", "Promoted by hand"),
                ],
                max_length=16,
            ),
        ),
        migrations.AddConstraint(
            model_name="look",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    (
                        "action__in",
                        [
                            "start",
                            "continue",
                            "promote",
                            "roll_back",
                            "supersede",
                            "open_phase",
                            "change_share",
                            "stop",
                            "promote_by_hand",
                        ],
                    )
                ),
                name="look_action_known",
            ),
        ),
        migrations.AddField(
            model_name="experimentgroup",
            name="registered_model",
            field=models.ForeignKey(
                on_delete=django.db.models.deletion.CASCADE,
                related_name="experiment_groups",
                to="models_registry.registeredmodel",
            ),
        ),
        migrations.AddField(
            model_name="experimentgroup",
            name="workspace",
            field=models.ForeignKey(
                on_delete=django.db.models.deletion.CASCADE, related_name="+", to="workspaces.workspace"
            ),
        ),
        migrations.AddField(
            model_name="experiment",
            name="group",
            field=models.ForeignKey(
                blank=True,
                null=True,
                on_delete=django.db.models.deletion.CASCADE,
                related_name="experiments",
                to="models_registry.experimentgroup",
            ),
        ),
        migrations.AddConstraint(
            model_name="experiment",
            constraint=models.UniqueConstraint(
                condition=models.Q(("group__isnull", True), ("state", "running")),
                fields=("registered_model",),
                name="experiment_one_running_per_model",
            ),
        ),
        migrations.AddConstraint(
            model_name="experiment",
            constraint=models.UniqueConstraint(fields=("group", "lane_low"), name="experiment_one_per_lane"),
        ),
        migrations.AddConstraint(
            model_name="experiment",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    ("lane_high__lte", 1), ("lane_low__gte", 0), ("lane_low__lt", models.F("lane_high"))
                ),
                name="experiment_lane_makes_sense",
            ),
        ),
        migrations.AddConstraint(
            model_name="experiment",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    ("group__isnull", False), models.Q(("lane_high", 1), ("lane_low", 0)), _connector="OR"
                ),
                name="experiment_lane_only_in_a_group",
            ),
        ),
        migrations.AddConstraint(
            model_name="experiment",
            constraint=models.CheckConstraint(
                condition=models.Q(("state__in", ["running", "promoted", "rolled_back", "stopped", "superseded"])),
                name="experiment_state_known",
            ),
        ),
        migrations.AddConstraint(
            model_name="experimentgroup",
            constraint=models.UniqueConstraint(
                condition=models.Q(("ended_at__isnull", True)),
                fields=("registered_model",),
                name="experiment_group_one_running_per_model",
            ),
        ),
        migrations.AddConstraint(
            model_name="experimentgroup",
            constraint=models.CheckConstraint(
                condition=models.Q(("salt__regex", "^[0-9a-f]{32}$")), name="experiment_group_salt_is_128_bits"
            ),
        ),
    ]
