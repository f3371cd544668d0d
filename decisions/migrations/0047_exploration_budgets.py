from django.db import migrations, models
from django.db.models import Q


class Migration(migrations.Migration):
    """Nullable: no row is rewritten, and versions that are there have no budget."""

    dependencies = [("decisions", "0046_newest_feedback")]

    operations = [
        migrations.AddField("agentversion", "exploration_budget", models.FloatField(blank=True, null=True)),
        migrations.AddConstraint(
            "agentversion",
            models.CheckConstraint(
                condition=Q(exploration_budget__isnull=True)
                | Q(exploration_budget__gt=0, exploration_budget__lte=1000),
                name="agent_version_budget_of_a_thousand",
            ),
        ),
    ]
