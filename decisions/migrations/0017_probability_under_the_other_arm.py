"""Decisions of experiments say with which probability the other arm would have taken their action."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("decisions", "0016_withdraw_skips_that_were_verdicts"),
        ("models_registry", "0005_conditioned_contrasts"),
        ("workspaces", "0007_log_ins_are_counted_in_the_cache"),
    ]

    operations = [
        migrations.AddField(
            model_name="decision",
            name="other_arm_propensity",
            field=models.FloatField(blank=True, null=True),
        ),
        migrations.AddConstraint(
            model_name="decision",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    ("other_arm_propensity__isnull", True),
                    models.Q(("other_arm_propensity__gte", 0), ("other_arm_propensity__lte", 1)),
                    _connector="OR",
                ),
                name="decision_other_arm_propensity_in_range",
            ),
        ),
    ]
