"""Where few decisions are rewarded or judged, exports look them up instead of walking the ledger."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("decisions", "0012_agents_move_their_workspace")]

    operations = [
        migrations.AddIndex(
            model_name="feedback",
            index=models.Index(
                condition=models.Q(("decision__isnull", False), ("metric", "verdict")),
                fields=["workspace", "decision"],
                name="feedback_verdict",
            ),
        ),
        migrations.AddIndex(
            model_name="reward",
            index=models.Index(fields=["spec", "raw"], include=("decision",), name="reward_raw"),
        ),
    ]
