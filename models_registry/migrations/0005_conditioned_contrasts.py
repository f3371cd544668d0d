"""The contrast that decides, the plain one beside it, and requests that nobody answered."""

import django.db.models.deletion
from django.db import migrations, models

import workspaces.storage.ids


class Migration(migrations.Migration):
    dependencies = [
        ("models_registry", "0004_marks_of_erasure"),
        ("workspaces", "0007_log_ins_are_counted_in_the_cache"),
    ]

    operations = [
        migrations.CreateModel(
            name="FailedRequest",
            fields=[
                (
                    "id",
                    models.UUIDField(
                        default=workspaces.storage.ids.uuid7, editable=False, primary_key=True, serialize=False
                    ),
                ),
                ("failed_at", models.DateTimeField()),
            ],
            options={
                "abstract": False,
            },
        ),
        migrations.AddField(
            model_name="experiment",
            name="conditioned",
            field=models.BooleanField(default=False),
        ),
        migrations.AddField(
            model_name="experiment",
            name="outcome_high",
            field=models.FloatField(default=1.0, help_text="The highest"),
        ),
        migrations.AddField(
            model_name="experiment",
            name="outcome_low",
            field=models.FloatField(default=0.0, help_text="The lowest outcome that could be attained at the start"),
        ),
        migrations.AddField(
            model_name="experiment",
            name="plain_estimate",
            field=models.FloatField(blank=True, null=True),
        ),
        migrations.AddField(
            model_name="experiment",
            name="plain_high",
            field=models.FloatField(blank=True, null=True),
        ),
        migrations.AddField(
            model_name="experiment",
            name="plain_log_e_minus",
            field=models.FloatField(default=0.0),
        ),
        migrations.AddField(
            model_name="experiment",
            name="plain_log_e_plus",
            field=models.FloatField(default=0.0),
        ),
        migrations.AddField(
            model_name="experiment",
            name="plain_low",
            field=models.FloatField(blank=True, null=True),
        ),
        migrations.AddField(
            model_name="experiment",
            name="rescaled",
            field=models.BooleanField(default=False),
        ),
        migrations.AddField(
            model_name="experiment",
            name="units_conditioned",
            field=models.PositiveIntegerField(
                default=0, help_text="Units whose contrast stands on both arms' probabilities"
            ),
        ),
        migrations.AddField(
            model_name="observation",
            name="log_l_control",
            field=models.FloatField(null=True),
        ),
        migrations.AddField(
            model_name="observation",
            name="log_l_treatment",
            field=models.FloatField(null=True),
        ),
        migrations.AddConstraint(
            model_name="experiment",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    ("outcome_high__lte", 1), ("outcome_low__gte", 0), ("outcome_low__lt", models.F("outcome_high"))
                ),
                name="experiment_outcome_range_makes_sense",
            ),
        ),
        migrations.AddField(
            model_name="failedrequest",
            name="exposure",
            field=models.ForeignKey(
                on_delete=django.db.models.deletion.CASCADE,
                related_name="failed_requests",
                to="models_registry.exposure",
            ),
        ),
        migrations.AddField(
            model_name="failedrequest",
            name="workspace",
            field=models.ForeignKey(
                on_delete=django.db.models.deletion.CASCADE, related_name="+", to="workspaces.workspace"
            ),
        ),
    ]
