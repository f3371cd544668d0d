"""The months around the day of installation; beat makes the later ones (decisions.partitions.partitioning)."""

import datetime as dt

from django.db import migrations

from decisions.partitions.partitioning import ensure_partitions


def make_partitions(apps, schema_editor):
    ensure_partitions(dt.datetime.now(dt.UTC))


class Migration(migrations.Migration):
    # Constraints of new tables are deferred to the end of a transaction; partitions want them in place.
    dependencies = [("decisions", "0002_append_only")]

    operations = [migrations.RunPython(make_partitions, migrations.RunPython.noop)]
