"""Lists of episodes by agent and by unit; the agent's own index gives way to one in order of ids."""

import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("decisions", "0010_find_decisions_by_name")]

    operations = [
        migrations.AddIndex(
            model_name="episode",
            index=models.Index(fields=["agent", "-id"], name="episode_agent_newest"),
        ),
        migrations.AlterField(
            model_name="episode",
            name="agent",
            field=models.ForeignKey(
                db_index=False,
                on_delete=django.db.models.deletion.CASCADE,
                related_name="episodes",
                to="decisions.agent",
            ),
        ),
        migrations.AddIndex(
            model_name="episode",
            index=models.Index(
                condition=models.Q(("unit", ""), _negated=True),
                fields=["workspace", "unit", "-id"],
                name="episode_unit",
            ),
        ),
    ]
