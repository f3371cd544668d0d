"""Artifacts whose files were removed, and versions that learnt from rows which were erased since."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("models_registry", "0003_drop_challengers_of_ended_experiments")]

    operations = [
        migrations.AddField(
            model_name="artifact",
            name="removed_at",
            field=models.DateTimeField(blank=True, null=True),
        ),
        migrations.AddField(
            model_name="modelversion",
            name="marked_at",
            field=models.DateTimeField(blank=True, null=True),
        ),
    ]
