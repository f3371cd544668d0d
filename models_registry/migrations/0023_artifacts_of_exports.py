"""Artifacts that other programs load, and no engine of ours: ONNX and GGUF."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("models_registry", "0022_holdouts")]

    operations = [
        migrations.RemoveConstraint(model_name="artifact", name="artifact_kind_known"),
        migrations.AlterField(
            model_name="artifact",
            name="kind",
            field=models.CharField(
                choices=[
                    ("model", "Model"),
                    ("adapter", "Adapter"),
                    ("reward_model", "Reward model"),
                    ("dataset", "Dataset"),
                    ("export", "Export"),
                ],
                max_length=16,
            ),
        ),
        migrations.AddConstraint(
            model_name="artifact",
            constraint=models.CheckConstraint(
                condition=models.Q(("kind__in", ["model", "adapter", "reward_model", "dataset", "export"])),
                name="artifact_kind_known",
            ),
        ),
    ]
