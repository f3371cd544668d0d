"""A reward spec names the judges that count in it. Specs that are there count all feedback, as before."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("decisions", "0040_judges_are_calibrated")]

    operations = [
        migrations.AddField(
            model_name="rewardspec",
            name="judges",
            field=models.JSONField(default=None, null=True),
        ),
    ]
