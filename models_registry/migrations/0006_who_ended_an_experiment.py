"""Who stopped an experiment, and which version was promoted by hand instead of its verdict."""

import django.db.models.deletion
from django.db import migrations, models
from django.db.models import Q


class Migration(migrations.Migration):
    dependencies = [
        ("models_registry", "0005_conditioned_contrasts"),
    ]

    operations = [
        migrations.AddField(
            model_name="experiment",
            name="ended_by",
            field=models.CharField(
                blank=True, db_default="", default="", help_text="Who stopped it; empty for the rule", max_length=254
            ),
        ),
        migrations.AddField(
            model_name="experiment",
            name="promoted_version",
            field=models.ForeignKey(
                blank=True,
                help_text="Promoted by hand, which stopped it",
                null=True,
                on_delete=django.db.models.deletion.PROTECT,
                related_name="+",
                to="models_registry.modelversion",
            ),
        ),
        migrations.AddConstraint(
            model_name="experiment",
            constraint=models.CheckConstraint(
                condition=Q(promoted_version__isnull=True) | Q(state="stopped"),
                name="experiment_promoted_by_hand_only_when_stopped",
            ),
        ),
    ]
