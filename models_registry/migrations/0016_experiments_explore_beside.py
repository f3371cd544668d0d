"""What experiments look at beside, and decide nothing by."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("models_registry", "0015_experiments_have_an_outlook"),
    ]

    operations = [
        migrations.AddField(
            model_name="experiment",
            name="secondary",
            field=models.JSONField(blank=True, default=list),
        ),
        migrations.AddField(
            model_name="experiment",
            name="slices",
            field=models.JSONField(blank=True, default=list),
        ),
    ]
