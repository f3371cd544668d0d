"""An idempotency key of feedback is the unit's or the episode's, as it was the decision's: not one for all of them."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("decisions", "0013_few_rewards_and_verdicts")]

    operations = [
        migrations.RemoveConstraint(model_name="feedback", name="feedback_idempotency_key_once"),
        migrations.AddConstraint(
            model_name="feedback",
            constraint=models.UniqueConstraint(
                condition=models.Q(("idempotency_key__isnull", False)),
                fields=("workspace", "decision", "episode", "unit", "idempotency_key"),
                name="feedback_idempotency_key_once",
                nulls_distinct=False,
            ),
        ),
    ]
