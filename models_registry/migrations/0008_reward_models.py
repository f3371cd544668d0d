from django.db import migrations, models
from django.db.models import Q

KINDS = [("model", "Model"), ("adapter", "Adapter"), ("reward_model", "Reward model"), ("dataset", "Dataset")]


class Migration(migrations.Migration):
    dependencies = [("models_registry", "0007_off_policy_verdicts")]

    operations = [
        migrations.RemoveConstraint(model_name="artifact", name="artifact_kind_known"),
        migrations.AlterField(model_name="artifact", name="kind", field=models.CharField(choices=KINDS, max_length=16)),
        migrations.AddConstraint(
            model_name="artifact",
            constraint=models.CheckConstraint(
                condition=Q(kind__in=[kind for kind, _ in KINDS]), name="artifact_kind_known"
            ),
        ),
    ]
