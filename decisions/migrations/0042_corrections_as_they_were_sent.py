from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("decisions", "0002_months_of_the_ledger")]

    operations = [
        migrations.AddField("label", "correction_sent", models.JSONField(blank=True, null=True)),
    ]
