"""A reward spec declares what training reads: the range of raw rewards, and which component says right or wrong.

Specs that are there keep what was done so far: from a corrected to a confirmed verdict; without one, their whole range.
"""

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
        migrations.AddField(
            model_name="rewardspec",
            name="signal",
            field=models.CharField(blank=True, default="", max_length=100),
            preserve_default=False,
        ),
        migrations.AddField(model_name="rewardspec", name="training_high", field=models.FloatField(default=1.0)),
        migrations.AddField(model_name="rewardspec", name="training_low", field=models.FloatField(default=-0.5)),
        migrations.RunSQL(FILL, migrations.RunSQL.noop),
        migrations.AddConstraint(
            model_name="rewardspec",
            constraint=models.CheckConstraint(
                condition=models.Q(("training_low__lt", models.F("training_high"))),
                name="reward_spec_training_range_makes_sense",
            ),
        ),
    ]
