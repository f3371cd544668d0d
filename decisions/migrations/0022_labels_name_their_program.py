"""A label that a program wrote names its key."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("decisions", "0021_what_training_reads")]

    operations = [
        migrations.AddField(
            model_name="label",
            name="program",
            field=models.CharField(blank=True, default="", max_length=64),
            preserve_default=False,
        ),
    ]
