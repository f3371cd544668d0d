from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("workspaces", "0007_log_ins_are_counted_in_the_cache")]

    operations = [
        migrations.RemoveConstraint(model_name="keptanswer", name="kept_answer_success_or_erased"),
        migrations.AddConstraint(
            model_name="keptanswer",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    models.Q(("status__gte", 200), ("status__lt", 300)), ("status__in", [102, 410]), _connector="OR"
                ),
                name="kept_answer_success_claim_or_erased",
            ),
        ),
    ]
