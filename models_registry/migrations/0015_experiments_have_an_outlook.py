"""What is expected of an experiment when it starts."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("models_registry", "0014_versions_have_notes_and_an_approval"),
        ("workspaces", "0009_invitations_and_deactivated_members"),
    ]

    operations = [
        migrations.AddField(
            model_name="experiment",
            name="expected_seconds",
            field=models.FloatField(blank=True, help_text="Time until a promotion, as expected first", null=True),
        ),
        migrations.AddField(
            model_name="experiment",
            name="smallest_effect",
            field=models.FloatField(blank=True, help_text="The difference that is worth finding", null=True),
        ),
        migrations.AddConstraint(
            model_name="experiment",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    models.Q(
                        ("smallest_effect__isnull", True),
                        models.Q(("smallest_effect__gt", 0), ("smallest_effect__lte", 1)),
                        _connector="OR",
                    ),
                    models.Q(("expected_seconds__isnull", True), ("expected_seconds__gte", 0), _connector="OR"),
                ),
                name="experiment_outlook_makes_sense",
            ),
        ),
    ]
