"""Datasets of people's labels: preference pairs are a kind of rows, and rows of labels have no reward."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("training", "0003_erasures")]

    operations = [
        migrations.RemoveConstraint(model_name="datasetsnapshot", name="dataset_kind_known"),
        migrations.RemoveConstraint(model_name="datasetsnapshot", name="dataset_logged_has_reward_spec"),
        migrations.AlterField(
            model_name="datasetsnapshot",
            name="kind",
            field=models.CharField(
                choices=[
                    ("logged", "Decisions with propensity and reward"),
                    ("labelled", "Inputs with the right answer"),
                    ("preferences", "Pairs of a better and a worse action"),
                ],
                max_length=16,
            ),
        ),
        migrations.AlterField(
            model_name="datasetitem", name="reward_version", field=models.PositiveIntegerField(null=True)
        ),
        migrations.AddConstraint(
            model_name="datasetsnapshot",
            constraint=models.CheckConstraint(
                condition=models.Q(("kind__in", ["logged", "labelled", "preferences"])), name="dataset_kind_known"
            ),
        ),
        migrations.AddConstraint(
            model_name="datasetsnapshot",
            constraint=models.CheckConstraint(
                condition=models.Q(("kind", "logged"), _negated=True) | models.Q(("reward_spec__isnull", False)),
                name="dataset_logged_has_reward_spec",
            ),
        ),
    ]
