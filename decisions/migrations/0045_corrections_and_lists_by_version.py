from django.db import migrations, models
from django.db.models import Q


class Migration(migrations.Migration):
    dependencies = [("decisions", "0044_how_answers_end")]

    operations = [
        migrations.AddField("feedback", "correction", models.JSONField(null=True)),
        migrations.AddConstraint(
            "feedback",
            models.CheckConstraint(
                condition=Q(correction__isnull=True) | Q(metric="verdict", decision__isnull=False),
                name="feedback_correction_of_a_verdict",
            ),
        ),
        migrations.AddIndex(
            "decision",
            models.Index(
                fields=["model_version", "-id"], condition=Q(model_version__isnull=False), name="decision_version"
            ),
        ),
    ]
