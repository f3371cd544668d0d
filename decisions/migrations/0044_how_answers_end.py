from django.db import migrations, models


class Migration(migrations.Migration):
    """Nullable, or with a constant default of the database: no row is rewritten."""

    dependencies = [("decisions", "0043_suggestions_of_every_kind")]

    operations = [
        migrations.AddField(
            model_name="decision",
            name="finish_reason",
            field=models.CharField(
                blank=True,
                choices=[
                    ("stop", "Finished"),
                    ("length", "Cut at its limit of tokens"),
                    ("tool_calls", "Calls tools"),
                    ("content_filter", "Ended by a content filter"),
                    ("abandoned", "The client left"),
                    ("cut", "The server broke off"),
                ],
                max_length=16,
                null=True,
            ),
        ),
        migrations.AddField(
            model_name="decision",
            name="parameters",
            field=models.JSONField(blank=True, null=True),
        ),
        migrations.AddField(
            model_name="decision",
            name="tokens_estimated",
            field=models.BooleanField(db_default=False, default=False),
        ),
        migrations.AlterField(
            model_name="agentversion",
            name="max_prompt_tokens",
            field=models.PositiveIntegerField(blank=True, default=64, null=True),
        ),
        migrations.AlterField(
            model_name="agentversion",
            name="max_completion_tokens",
            field=models.PositiveIntegerField(blank=True, default=16, null=True),
        ),
        migrations.AddConstraint(
            model_name="agentversion",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    ("action_space__in", ["text", "tool_calls"]),
                    models.Q(("max_completion_tokens__isnull", False), ("max_prompt_tokens__isnull", False)),
                    _connector="OR",
                ),
                name="agent_version_limits_unless_it_chats",
            ),
        ),
    ]
