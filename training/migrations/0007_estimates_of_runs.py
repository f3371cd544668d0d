from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("training", "0006_evaluation_suites")]

    operations = [
        migrations.AddField(
            model_name="trainingrun",
            name="estimate",
            field=models.JSONField(
                default=dict,
                help_text="What it was expected to need (training.runs.estimates); empty of a base of unknown size",
            ),
        ),
    ]
