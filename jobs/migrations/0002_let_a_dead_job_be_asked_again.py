from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("jobs", "0001_jobs_and_outbox")]

    operations = [
        migrations.RemoveConstraint(model_name="job", name="job_once_per_key"),
        migrations.AddConstraint(
            model_name="job",
            constraint=models.UniqueConstraint(
                fields=["kind", "dedupe_key"],
                condition=models.Q(("dedupe_key__isnull", False), models.Q(("state", "dead"), _negated=True)),
                name="job_once_per_key",
            ),
        ),
    ]
