"""Phases that evidence opens, and windows that come from the lag of feedback."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("models_registry", "0012_exposures_are_settled"),
        ("workspaces", "0009_invitations_and_deactivated_members"),
    ]

    operations = [
        migrations.RemoveConstraint(
            model_name="look",
            name="look_action_known",
        ),
        migrations.RemoveConstraint(
            model_name="look",
            name="look_of_somebody_says_who",
        ),
        migrations.AddField(
            model_name="experiment",
            name="attribution_auto",
            field=models.BooleanField(default=False),
        ),
        migrations.AddField(
            model_name="experiment",
            name="ramp",
            field=models.JSONField(blank=True, default=list),
        ),
        migrations.AddField(
            model_name="experiment",
            name="ramp_e",
            field=models.FloatField(default=4.0, help_text="The share stays at an E of harm of at least this"),
        ),
        migrations.AddField(
            model_name="experiment",
            name="ramp_units",
            field=models.PositiveIntegerField(default=250, help_text="Matured units before the next phase"),
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
                    ("open_phase", "Next phase"),
                    ("change_share", "Share changed"),
                    ("stop", "Stopped"),
                    ("promote_by_hand", "Promoted by hand"),
                ],
                max_length=16,
            ),
        ),
        migrations.AlterField(
            model_name="look",
            name="phase",
            field=models.PositiveIntegerField(help_text="Number of the phase that runs from then on"),
        ),
        migrations.AddConstraint(
            model_name="experiment",
            constraint=models.CheckConstraint(
                condition=models.Q(("ramp_e__gt", 1), ("ramp_units__gte", 1)), name="experiment_ramp_bounds_make_sense"
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
        migrations.AddConstraint(
            model_name="look",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    models.Q(
                        ("action__in", ("start", "change_share", "stop", "promote_by_hand")),
                        models.Q(("by", ""), _negated=True),
                    ),
                    models.Q(
                        models.Q(("action__in", ("start", "change_share", "stop", "promote_by_hand")), _negated=True),
                        ("by", ""),
                    ),
                    _connector="OR",
                ),
                name="look_of_somebody_says_who",
            ),
        ),
    ]
