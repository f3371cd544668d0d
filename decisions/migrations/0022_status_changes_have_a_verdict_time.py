"""`judged_at` becomes `verdict_at`: a verdict is what a person gives, in code as on the pages."""

from django.db import migrations, models
from django.db.models import Q


class Migration(migrations.Migration):
    dependencies = [
        ("decisions", "0021_what_training_reads"),
    ]

    operations = [
        migrations.RemoveConstraint(model_name="statuschange", name="status_change_judged_when"),
        migrations.RenameField(model_name="statuschange", old_name="judged_at", new_name="verdict_at"),
        migrations.AddConstraint(
            model_name="statuschange",
            constraint=models.CheckConstraint(
                condition=Q(verdict="", verdict_at__isnull=True) | (~Q(verdict="") & Q(verdict_at__isnull=False)),
                name="status_change_verdict_when",
            ),
        ),
    ]
