"""Which version of an agent an arm acts with, in words."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("models_registry", "0018_spend_of_keys"),
    ]

    operations = [
        migrations.AddField(
            model_name="variant",
            name="setup",
            field=models.CharField(
                blank=True,
                db_default="",
                default="",
                help_text="The agent's version, such as “filer v3”",
                max_length=80,
            ),
        ),
    ]
