"""A reward spec declares what training reads: the range of raw rewards, and which component says right or wrong.

Specs that are there keep what was done so far: from a corrected to a confirmed verdict; without one, their whole range.
"""

import django.db.models.functions
from django.db import migrations, models

FILL = """
ALTER TABLE decisions_rewardspec DISABLE TRIGGER decisions_rewardspec_append_only;
UPDATE decisions_rewardspec s
   SET signal = CASE WHEN v.weight > 0 THEN 'verdict' ELSE '' END,
       training_low = CASE WHEN v.weight > 0 THEN greatest(-0.5 * v.weight, -clamp) ELSE low END,
       training_high = CASE WHEN v.weight > 0 THEN least(v.weight, clamp) ELSE high END
  FROM (SELECT id, (SELECT sum((c ->> 'weight')::float8) FROM jsonb_array_elements(components) c
                     WHERE c ->> 'name' = 'verdict') AS weight FROM decisions_rewardspec) v
 WHERE v.id = s.id;
ALTER TABLE decisions_rewardspec ENABLE TRIGGER decisions_rewardspec_append_only;
"""


class Migration(migrations.Migration):
    dependencies = [("decisions", "0020_rewards_of_what_is_due")]

    operations = [
        # The comparison of episodes of one query finds them by it.
        migrations.AddIndex(
            model_name="episode",
            index=models.Index(
                models.F("agent"),
                django.db.models.functions.MD5(
                    django.db.models.functions.Lower(django.db.models.functions.Trim("query"))
                ),
                condition=models.Q(("query", ""), _negated=True),
                name="episode_query",
            ),
        ),
        migrations.AddField(
            model_name="rewardspec",
            name="signal",
            field=models.CharField(blank=True, default="", max_length=100),
            preserve_default=False,
        ),
        migrations.AddField(model_name="rewardspec", name="training_high", field=models.FloatField(default=1.0)),
        migrations.AddField(model_name="rewardspec", name="training_low", field=models.FloatField(default=-0.5)),
        migrations.AddField(
            model_name="rewardspec",
            name="credit",
            field=models.CharField(
                choices=[
                    ("equal", "Equal"),
                    ("return_to_go", "Discounted return-to-go"),
                    ("last_step", "Last step"),
                    ("leave_one_out", "Leave-one-out"),
                ],
                default="equal",
                max_length=16,
            ),
        ),
        migrations.AddField(model_name="rewardspec", name="discount", field=models.FloatField(default=1.0)),
        migrations.RunSQL(FILL, migrations.RunSQL.noop),
        migrations.AddConstraint(
            model_name="rewardspec",
            constraint=models.CheckConstraint(
                condition=models.Q(("training_low__lt", models.F("training_high"))),
                name="reward_spec_training_range_makes_sense",
            ),
        ),
        migrations.AddConstraint(
            model_name="rewardspec",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    ("credit__in", ["equal", "return_to_go", "last_step", "leave_one_out"]),
                    ("discount__gt", 0),
                    ("discount__lte", 1),
                ),
                name="reward_spec_credit_makes_sense",
            ),
        ),
    ]
