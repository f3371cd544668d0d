from django.db import migrations


class Migration(migrations.Migration):
    """Ids compress badly: trying it cost PostgreSQL more than keeping the answer to a batch as it is."""

    dependencies = [("workspaces", "0004_answers_that_were_erased")]

    operations = [
        migrations.RunSQL(
            "ALTER TABLE workspaces_keptanswer ALTER COLUMN body SET STORAGE EXTERNAL",
            "ALTER TABLE workspaces_keptanswer ALTER COLUMN body SET STORAGE EXTENDED",
        )
    ]
