"""A queue remembers up to which arrival it has looked for late decisions, and may ask for diverse ones."""

from django.db import migrations, models
from django.db.models import Q

STRATEGIES = ["sequential", "random", "uncertainty", "value", "diversity"]


class Migration(migrations.Migration):
    dependencies = [("decisions", "0027_places_have_the_rank")]

    operations = [
        migrations.AddField("labelqueue", "late_at", models.DateTimeField(editable=False, null=True)),
        migrations.AddField("labelqueue", "late_id", models.UUIDField(editable=False, null=True)),
        migrations.AlterField(
            "labelqueue",
            "strategy",
            models.CharField(
                choices=[
                    ("sequential", "Oldest first"),
                    ("random", "Random"),
                    ("uncertainty", "Most uncertain first"),
                    ("value", "Most valuable first"),
                    ("diversity", "Most diverse first"),
                ],
                default="uncertainty",
                max_length=16,
            ),
        ),
        migrations.RemoveConstraint("labelqueue", "label_queue_choices_known"),
        migrations.AddConstraint(
            "labelqueue",
            models.CheckConstraint(
                condition=Q(strategy__in=STRATEGIES)
                & Q(skip_policy__in=["ask_others", "drop"])
                & Q(state__in=["open", "closed"]),
                name="label_queue_choices_known",
            ),
        ),
    ]
