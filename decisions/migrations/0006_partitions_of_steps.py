"""The months of the new table of steps; beat makes the later ones (decisions.partitions.partitioning)."""

import datetime as dt

from django.db import migrations

from decisions.partitions.partitioning import ensure_partitions


def make_partitions(apps, schema_editor):
    ensure_partitions(dt.datetime.now(dt.UTC))


class Migration(migrations.Migration):
    # In a transaction of its own, as in 0003: constraints of a new table are deferred to the end of one.
    dependencies = [("decisions", "0005_steps_of_episodes")]

    operations = [migrations.RunPython(make_partitions, migrations.RunPython.noop)]
