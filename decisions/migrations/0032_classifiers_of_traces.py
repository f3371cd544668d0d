"""What the classifier behind `trace.learned` has learnt of each agent."""

import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("decisions", "0031_what_unknown_components_do"),
        ("workspaces", "0009_invitations_and_deactivated_members"),
    ]

    operations = [
        migrations.CreateModel(
            name="TraceClassifier",
            fields=[
                (
                    "agent",
                    models.OneToOneField(
                        on_delete=django.db.models.deletion.CASCADE,
                        primary_key=True,
                        related_name="trace_classifier",
                        serialize=False,
                        to="decisions.agent",
                    ),
                ),
                ("version", models.PositiveIntegerField()),
                ("right", models.PositiveIntegerField(default=0)),
                ("wrong", models.PositiveIntegerField(default=0)),
                ("reason", models.CharField(blank=True, max_length=300)),
                ("trained_at", models.DateTimeField()),
                (
                    "workspace",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="+", to="workspaces.workspace"
                    ),
                ),
            ],
            options={"abstract": False},
        ),
    ]
