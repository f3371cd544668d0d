"""Rewards look for decisions that arrived after their feedback."""

import django.contrib.postgres.indexes
from django.db import migrations


class Migration(migrations.Migration):
    dependencies = [("decisions", "0003_first_partitions")]

    operations = [
        migrations.AddIndex(
            model_name="decision",
            index=django.contrib.postgres.indexes.BrinIndex(fields=["recorded_at"], name="decision_recorded"),
        ),
    ]
