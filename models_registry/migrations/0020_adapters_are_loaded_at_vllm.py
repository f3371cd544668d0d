"""Adapters are loaded at vLLM: where it sees the artifacts, and why one is not there."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("models_registry", "0019_variants_name_their_setup"),
    ]

    operations = [
        migrations.AddField(
            model_name="backend",
            name="artifacts_path",
            field=models.CharField(blank=True, db_default="", default="", max_length=500),
        ),
        migrations.AddField(
            model_name="deployment",
            name="error",
            field=models.CharField(blank=True, db_default="", default="", max_length=500),
        ),
    ]
