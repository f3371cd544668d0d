"""Units and external ids are found without a B-tree that ingest would pay for: docs/adr/0009."""

import django.contrib.postgres.indexes
from django.db import migrations


class Migration(migrations.Migration):
    dependencies = [("decisions", "0009_names_that_were_erased")]

    operations = [
        migrations.AddIndex(
            model_name="decision",
            index=django.contrib.postgres.indexes.BrinIndex(
                autosummarize=True,
                fields=["id", "unit", "external_id"],
                name="decision_named",
                opclasses=["uuid_minmax_ops", "text_bloom_ops", "text_bloom_ops"],
                pages_per_range=32,
            ),
        ),
    ]
