"""Undoes 0012: every request asks for its agents, so nothing depends on their workspace's row any more."""

from importlib import import_module

from django.db import migrations

before = import_module("decisions.migrations.0012_agents_move_their_workspace")


class Migration(migrations.Migration):
    dependencies = [("decisions", "0017_probability_under_the_other_arm")]

    operations = [
        migrations.RunSQL(operation.reverse_sql, operation.sql) for operation in reversed(before.Migration.operations)
    ]
