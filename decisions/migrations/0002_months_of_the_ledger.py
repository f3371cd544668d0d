"""The months around the day of installation; beat makes the later ones (decisions.partitions.partitioning).

And two names that a migration once gave by hand: the schema of a new instance is the one of those that came this way.
"""

import datetime as dt

from django.db import migrations

from decisions.partitions.partitioning import ensure_partitions

RENAMED = [
    ("decisions_label", "decisions_label_episode_id_e56613d7_fk_decisions_episode_id", "decisions_label_episode_id_fk"),
    (
        "decisions_queueitem",
        "decisions_queueitem_episode_id_2c1ce616_fk_decisions_episode_id",
        "decisions_queueitem_episode_id_fk",
    ),
]


def make_partitions(apps, schema_editor):
    ensure_partitions(dt.datetime.now(dt.UTC))


class Migration(migrations.Migration):
    replaces = [
        ("decisions", "0003_first_partitions"),
        ("decisions", "0006_partitions_of_steps"),
    ]
    # Constraints of new tables are deferred to the end of a transaction; partitions want them in place.
    dependencies = [("decisions", "0001_ledger_and_labels")]

    operations = [
        migrations.RunPython(make_partitions, migrations.RunPython.noop),
        *(
            migrations.RunSQL(
                f"ALTER TABLE {table} RENAME CONSTRAINT {before} TO {after}",
                f"ALTER TABLE {table} RENAME CONSTRAINT {after} TO {before}",
            )
            for table, before, after in RENAMED
        ),
    ]
