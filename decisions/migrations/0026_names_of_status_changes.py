"""`judged_at` becomes `verdict_at`, and `spread_at`, when an item's outcome reached its decisions, `applied_at`."""

from django.db import migrations, models
from django.db.models import Q


class Migration(migrations.Migration):
    dependencies = [
        ("decisions", "0025_drafts_of_reward_specs"),
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
        migrations.RemoveIndex(model_name="statuschange", name="change_unspread"),
        migrations.RemoveIndex(model_name="statuschange", name="change_spread"),
        migrations.RenameField(model_name="statuschange", old_name="spread_at", new_name="applied_at"),
        migrations.AddIndex(
            model_name="statuschange",
            index=models.Index(
                fields=["workspace"], condition=~Q(outcome="") & Q(applied_at__isnull=True), name="change_unapplied"
            ),
        ),
        migrations.AddIndex(
            model_name="statuschange",
            index=models.Index(fields=["applied_at"], condition=Q(applied_at__isnull=False), name="change_applied"),
        ),
    ]
