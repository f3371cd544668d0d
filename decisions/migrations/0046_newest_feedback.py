from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("decisions", "0045_corrections_and_lists_by_version")]

    operations = [
        migrations.AddIndex("feedback", models.Index(fields=["workspace", "-id"], name="feedback_newest")),
    ]
