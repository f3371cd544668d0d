"""How often a call's own version gave an answer that could not be used."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("models_registry", "0016_experiments_explore_beside"),
    ]

    operations = [
        migrations.AddField(
            model_name="call",
            name="unusable_answers",
            field=models.PositiveSmallIntegerField(db_default=0, default=0),
        ),
    ]
