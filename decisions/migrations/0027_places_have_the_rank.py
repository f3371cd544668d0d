"""The rank goes from items to their places, so that the next place is found by one index."""

from django.db import migrations, models

COPY = """
UPDATE decisions_reservation r SET rank = i.rank FROM decisions_queueitem i WHERE i.id = r.item_id
"""


class Migration(migrations.Migration):
    dependencies = [
        ("decisions", "0026_names_of_status_changes"),
        ("workspaces", "0009_invitations_and_deactivated_members"),
    ]

    operations = [
        migrations.RemoveIndex(model_name="queueitem", name="queue_item_next"),
        migrations.RemoveIndex(model_name="queueitem", name="queue_item_state"),
        migrations.AddField(
            model_name="reservation", name="rank", field=models.FloatField(db_default=0.0, default=0.0)
        ),
        migrations.RunSQL(COPY, "UPDATE decisions_queueitem SET rank = 0"),
        migrations.RemoveField(model_name="queueitem", name="rank"),
        migrations.AddIndex(
            model_name="queueitem", index=models.Index(fields=["queue", "state"], name="queue_item_state")
        ),
        migrations.AddIndex(
            model_name="reservation",
            index=models.Index(
                condition=models.Q(("label__isnull", True), ("place__isnull", False)),
                fields=["queue", "rank", "decision", "place"],
                name="reservation_next",
            ),
        ),
    ]
