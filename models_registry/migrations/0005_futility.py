from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("models_registry", "0004_classifiers_and_encoders"),
        ("workspaces", "0002_the_clock_of_a_key"),
    ]

    operations = [
        migrations.RemoveConstraint(
            model_name="experiment",
            name="experiment_state_known",
        ),
        migrations.RemoveConstraint(
            model_name="experiment",
            name="experiment_outlook_makes_sense",
        ),
        migrations.RemoveConstraint(
            model_name="look",
            name="look_action_known",
        ),
        migrations.AddField(
            model_name="experiment",
            name="futility_e",
            field=models.FloatField(blank=True, help_text="Give up at E of futility of at least this", null=True),
        ),
        migrations.AddField(
            model_name="experiment",
            name="log_e_futile",
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
                    ("futile", "Stopped for futility"),
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
                    ("give_up", "Stopped for futility"),
                    ("open_phase", "Next phase"),
                    ("change_share", "Share changed"),
                    ("stop", "Stopped"),
                    ("promote_by_hand", "Promoted by hand"),
                ],
                max_length=16,
            ),
        ),
        migrations.AddConstraint(
            model_name="experiment",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    ("state__in", ["running", "promoted", "rolled_back", "stopped", "superseded", "futile"])
                ),
                name="experiment_state_known",
            ),
        ),
        migrations.AddConstraint(
            model_name="experiment",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    models.Q(
                        ("smallest_effect__isnull", True),
                        models.Q(("smallest_effect__gt", 0), ("smallest_effect__lte", 1)),
                        _connector="OR",
                    ),
                    models.Q(("expected_seconds__isnull", True), ("expected_seconds__gte", 0), _connector="OR"),
                    models.Q(
                        ("futility_e__isnull", True),
                        models.Q(("futility_e__gt", 1), ("smallest_effect__isnull", False)),
                        _connector="OR",
                    ),
                ),
                name="experiment_outlook_makes_sense",
            ),
        ),
        migrations.AddConstraint(
            model_name="experiment",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    models.Q(("state", "futile"), _negated=True), ("futility_e__isnull", False), _connector="OR"
                ),
                name="experiment_futile_only_where_it_may_be",
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
                            "give_up",
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
    ]
