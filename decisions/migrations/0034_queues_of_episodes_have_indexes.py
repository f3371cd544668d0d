"""The part of 0033 that reads filled tables, without keeping writers waiting: not in one transaction."""

from django.contrib.postgres.operations import AddIndexConcurrently, ValidateConstraint
from django.db import migrations, models
from django.db.models import Q

EPISODE_ONCE = """
CREATE UNIQUE INDEX CONCURRENTLY queue_item_episode_once ON decisions_queueitem (queue_id, episode_id)
 WHERE episode_id IS NOT NULL
"""


class Migration(migrations.Migration):
    atomic = False
    dependencies = [("decisions", "0033_queues_of_episodes")]

    operations = [
        ValidateConstraint(model_name="label", name="label_one_subject"),
        ValidateConstraint(model_name="queueitem", name="queue_item_one_subject"),
        AddIndexConcurrently(
            model_name="label",
            index=models.Index(condition=Q(episode__isnull=False), fields=["episode"], name="label_episode"),
        ),
        AddIndexConcurrently(
            model_name="queueitem",
            index=models.Index(condition=Q(episode__isnull=False), fields=["episode"], name="queue_item_episode"),
        ),
        migrations.SeparateDatabaseAndState(
            database_operations=[
                migrations.RunSQL(EPISODE_ONCE, "DROP INDEX CONCURRENTLY IF EXISTS queue_item_episode_once")
            ],
            state_operations=[
                migrations.AddConstraint(
                    model_name="queueitem",
                    constraint=models.UniqueConstraint(
                        condition=Q(episode__isnull=False), fields=("queue", "episode"), name="queue_item_episode_once"
                    ),
                ),
            ],
        ),
    ]
