"""What a look keeps for the next one, and the rows of an experiment's log."""

import django.db.models.deletion
import django.utils.timezone
from django.db import migrations, models

import workspaces.storage.ids


class Migration(migrations.Migration):
    dependencies = [
        ("models_registry", "0010_artifacts_say_when_they_were_stored_and_versions_when_retired"),
        ("workspaces", "0009_invitations_and_deactivated_members"),
    ]

    operations = [
        migrations.CreateModel(
            name="Look",
            fields=[
                (
                    "id",
                    models.UUIDField(
                        default=workspaces.storage.ids.uuid7, editable=False, primary_key=True, serialize=False
                    ),
                ),
                ("at", models.DateTimeField(default=django.utils.timezone.now)),
                (
                    "action",
                    models.CharField(
                        choices=[
                            ("start", "Started"),
                            ("continue", "Look"),
                            ("promote", "Promoted"),
                            ("roll_back", "Rolled back"),
                            ("stop", "Stopped"),
                            ("promote_by_hand", "Promoted by hand"),
                        ],
                        max_length=16,
                    ),
                ),
                ("by", models.CharField(blank=True, default="", help_text="Empty for the rule", max_length=254)),
                ("reasons", models.JSONField(default=list)),
                ("phase", models.PositiveIntegerField(help_text="Number of the phase that ran")),
                ("treatment_share", models.FloatField()),
                ("units_control", models.PositiveIntegerField(default=0)),
                ("units_treatment", models.PositiveIntegerField(default=0)),
                ("log_e_plus", models.FloatField(default=0.0)),
                ("log_e_minus", models.FloatField(default=0.0)),
                ("estimate", models.FloatField(null=True)),
                ("low", models.FloatField(null=True)),
                ("high", models.FloatField(null=True)),
                ("plain_log_e_plus", models.FloatField(default=0.0)),
                ("plain_log_e_minus", models.FloatField(default=0.0)),
                ("plain_estimate", models.FloatField(null=True)),
                ("plain_low", models.FloatField(null=True)),
                ("plain_high", models.FloatField(null=True)),
                ("guardrails", models.JSONField(default=dict)),
                ("sample_ratio_mismatch", models.BooleanField(default=False)),
                ("requests_control", models.PositiveIntegerField(default=0)),
                ("failed_control", models.PositiveIntegerField(default=0)),
                ("requests_treatment", models.PositiveIntegerField(default=0)),
                ("failed_treatment", models.PositiveIntegerField(default=0)),
            ],
            options={
                "ordering": ["-id"],
            },
        ),
        migrations.AddField(
            model_name="experiment",
            name="counted_requests",
            field=models.JSONField(blank=True, default=dict),
        ),
        migrations.AddField(
            model_name="experiment",
            name="running",
            field=models.JSONField(blank=True, default=dict),
        ),
        migrations.AddField(
            model_name="exposure",
            name="settled",
            field=models.BooleanField(db_default=False, default=False),
        ),
        migrations.AddField(
            model_name="phase",
            name="settled",
            field=models.JSONField(blank=True, default=dict),
        ),
        migrations.AddField(
            model_name="look",
            name="experiment",
            field=models.ForeignKey(
                db_index=False,
                on_delete=django.db.models.deletion.CASCADE,
                related_name="looks",
                to="models_registry.experiment",
            ),
        ),
        migrations.AddField(
            model_name="look",
            name="workspace",
            field=models.ForeignKey(
                on_delete=django.db.models.deletion.CASCADE, related_name="+", to="workspaces.workspace"
            ),
        ),
        migrations.AddIndex(
            model_name="look",
            index=models.Index(fields=["experiment", "-id"], name="look_newest"),
        ),
        migrations.AddConstraint(
            model_name="look",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    ("action__in", ["start", "continue", "promote", "roll_back", "stop", "promote_by_hand"])
                ),
                name="look_action_known",
            ),
        ),
        migrations.AddConstraint(
            model_name="look",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    models.Q(("action__in", ("start", "stop", "promote_by_hand")), models.Q(("by", ""), _negated=True)),
                    models.Q(models.Q(("action__in", ("start", "stop", "promote_by_hand")), _negated=True), ("by", "")),
                    _connector="OR",
                ),
                name="look_of_somebody_says_who",
            ),
        ),
        migrations.AddConstraint(
            model_name="look",
            constraint=models.CheckConstraint(
                condition=models.Q(("reasons", []), _negated=True), name="look_has_reasons"
            ),
        ),
    ]
