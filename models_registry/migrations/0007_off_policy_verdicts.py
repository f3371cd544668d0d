import django.db.models.deletion
from django.db import migrations, models
from django.db.models import F, Q


class Migration(migrations.Migration):
    dependencies = [("models_registry", "0006_who_ended_an_experiment")]

    operations = [
        migrations.RemoveConstraint(model_name="gateverdict", name="gate_interval_holds_estimate"),
        migrations.AddField(model_name="gateverdict", name="refusals", field=models.JSONField(default=list)),
        migrations.AlterField(
            model_name="gateverdict",
            name="against",
            field=models.ForeignKey(
                null=True,
                on_delete=django.db.models.deletion.CASCADE,
                related_name="+",
                to="models_registry.modelversion",
            ),
        ),
        migrations.AlterField(
            model_name="gateverdict",
            name="kind",
            field=models.CharField(
                choices=[
                    ("held_out", "Paired difference on held-out inputs"),
                    ("off_policy", "Estimate from logged decisions"),
                ],
                max_length=32,
            ),
        ),
        migrations.AlterField(model_name="gateverdict", name="estimate", field=models.FloatField(null=True)),
        migrations.AlterField(model_name="gateverdict", name="low", field=models.FloatField(null=True)),
        migrations.AlterField(model_name="gateverdict", name="high", field=models.FloatField(null=True)),
        migrations.AddConstraint(
            model_name="gateverdict",
            constraint=models.CheckConstraint(
                condition=Q(low__lte=F("estimate"), estimate__lte=F("high"))
                | Q(estimate__isnull=True, low__isnull=True, high__isnull=True, passed=False),
                name="gate_interval_holds_estimate",
            ),
        ),
        migrations.AddConstraint(
            model_name="gateverdict",
            constraint=models.CheckConstraint(
                condition=Q(passed=False) | Q(refusals=[]), name="gate_refuses_or_passes"
            ),
        ),
    ]
