from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("training", "0005_datasets_of_texts")]

    operations = [
        migrations.AddField(
            model_name="trainingrun",
            name="estimate",
            field=models.JSONField(
                default=dict,
                help_text="What it was expected to need (training.estimates); empty of a base of unknown size",
            ),
        ),
    ]
