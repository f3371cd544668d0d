from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("workspaces", "0005_answers_uncompressed")]

    operations = [
        migrations.AddField(
            model_name="keptanswer",
            name="content_type",
            field=models.CharField(default="application/json", max_length=100),
        )
    ]
