"""A reward spec says what a component without a value does to the sum. Specs that are there leave it out, as before."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("decisions", "0030_what_a_reviewer_holds_now")]

    operations = [
        migrations.AddField(
            model_name="rewardspec",
            name="unknown",
            field=models.CharField(
                choices=[("left_out", "Left out of the sum"), ("renormalised", "Renormalised")],
                db_default="left_out",
                default="left_out",
                max_length=16,
            ),
        ),
        migrations.AddConstraint(
            model_name="rewardspec",
            constraint=models.CheckConstraint(
                condition=models.Q(("unknown__in", ["left_out", "renormalised"])),
                name="reward_spec_unknown_is_known",
            ),
        ),
    ]
