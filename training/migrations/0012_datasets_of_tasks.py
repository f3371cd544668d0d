"""Datasets of tasks: what a model acts on in an environment."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("training", "0011_texts_left_out_of_suites")]

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
                    ("tasks", "Tasks of an environment"),
                ],
                max_length=16,
            ),
        ),
        migrations.AddConstraint(
            model_name="datasetsnapshot",
            constraint=models.CheckConstraint(
                condition=models.Q(("kind__in", ["logged", "labelled", "preferences", "text", "tasks"])),
                name="dataset_kind_known",
            ),
        ),
    ]
