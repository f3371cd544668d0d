"""Units that keep an earlier version while everybody else gets what is promoted."""

import django.db.models.deletion
from django.db import migrations, models

import workspaces.storage.ids


class Migration(migrations.Migration):
    dependencies = [
        ("models_registry", "0021_groups_of_experiments"),
        ("workspaces", "0011_keys_have_limits"),
    ]

    operations = [
        migrations.CreateModel(
            name="Holdout",
            fields=[
                (
                    "id",
                    models.UUIDField(
                        default=workspaces.storage.ids.uuid7, editable=False, primary_key=True, serialize=False
                    ),
                ),
                ("share", models.FloatField()),
                ("salt", models.CharField(max_length=32)),
                ("reason", models.CharField(max_length=500)),
                ("started_by", models.CharField(max_length=254)),
                ("started_at", models.DateTimeField()),
                ("ends_at", models.DateTimeField()),
                ("ended_at", models.DateTimeField(blank=True, null=True)),
                (
                    "end_reason",
                    models.CharField(blank=True, default="", help_text="Empty where its time was up", max_length=500),
                ),
                ("figures", models.JSONField(blank=True, default=dict)),
                ("counted_at", models.DateTimeField(blank=True, null=True)),
            ],
        ),
        migrations.AddField(
            model_name="experiment",
            name="holdout_seconds",
            field=models.FloatField(db_default=2419200.0, default=2419200.0),
        ),
        migrations.AddField(
            model_name="experiment",
            name="holdout_share",
            field=models.FloatField(db_default=0.0, default=0.0, help_text="Of the units, that keep the control"),
        ),
        migrations.AddConstraint(
            model_name="experiment",
            constraint=models.CheckConstraint(
                condition=models.Q(("holdout_seconds__gt", 0), ("holdout_share__gte", 0), ("holdout_share__lte", 0.5)),
                name="experiment_holdout_makes_sense",
            ),
        ),
        migrations.AddField(
            model_name="holdout",
            name="registered_model",
            field=models.ForeignKey(
                on_delete=django.db.models.deletion.CASCADE,
                related_name="holdouts",
                to="models_registry.registeredmodel",
            ),
        ),
        migrations.AddField(
            model_name="holdout",
            name="version",
            field=models.ForeignKey(
                on_delete=django.db.models.deletion.PROTECT, related_name="holdouts", to="models_registry.modelversion"
            ),
        ),
        migrations.AddField(
            model_name="holdout",
            name="workspace",
            field=models.ForeignKey(
                on_delete=django.db.models.deletion.CASCADE, related_name="+", to="workspaces.workspace"
            ),
        ),
        migrations.AddConstraint(
            model_name="holdout",
            constraint=models.UniqueConstraint(
                condition=models.Q(("ended_at__isnull", True)),
                fields=("registered_model",),
                name="holdout_one_running_per_model",
            ),
        ),
        migrations.AddConstraint(
            model_name="holdout",
            constraint=models.CheckConstraint(
                condition=models.Q(("share__gt", 0), ("share__lte", 0.5)), name="holdout_share_in_range"
            ),
        ),
        migrations.AddConstraint(
            model_name="holdout",
            constraint=models.CheckConstraint(
                condition=models.Q(("ends_at__gt", models.F("started_at"))), name="holdout_ends_after_its_start"
            ),
        ),
        migrations.AddConstraint(
            model_name="holdout",
            constraint=models.CheckConstraint(
                condition=models.Q(("salt__regex", "^[0-9a-f]{32}$")), name="holdout_salt_is_128_bits"
            ),
        ),
    ]
