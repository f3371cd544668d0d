import django.contrib.postgres.fields
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("training", "0007_estimates_of_runs")]

    operations = [
        migrations.AddField(
            model_name="trainingrun",
            name="notes",
            field=models.TextField(blank=True, max_length=5000),
        ),
        migrations.AddField(
            model_name="trainingrun",
            name="tags",
            field=django.contrib.postgres.fields.ArrayField(
                base_field=models.CharField(max_length=50), blank=True, default=list, size=None
            ),
        ),
    ]
