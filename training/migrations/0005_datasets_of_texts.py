"""Datasets of texts: what a model wrote, with its reward. Rewarded decisions need no propensity any more."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("training", "0004_datasets_of_labels")]

    operations = [
        migrations.RemoveConstraint(model_name="datasetsnapshot", name="dataset_kind_known"),
        migrations.AlterField(
            model_name="datasetsnapshot",
            name="kind",
            field=models.CharField(
                choices=[
                    ("logged", "Decisions with a reward"),
                    ("labelled", "Inputs with the right answer"),
                    ("preferences", "Pairs of a better and a worse action"),
                    ("text", "Texts with a reward"),
                ],
                max_length=16,
            ),
        ),
        migrations.AddConstraint(
            model_name="datasetsnapshot",
            constraint=models.CheckConstraint(
                condition=models.Q(("kind__in", ["logged", "labelled", "preferences", "text"])),
                name="dataset_kind_known",
            ),
        ),
    ]
