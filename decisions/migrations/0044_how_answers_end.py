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
    ]
