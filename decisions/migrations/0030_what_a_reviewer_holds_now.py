"""What a reviewer holds now is found beside the thousands that they have labelled."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("decisions", "0029_labels_in_bulk")]

    operations = [
        migrations.AddIndex(
            model_name="reservation",
            index=models.Index(
                models.F("queue"),
                models.F("holder"),
                condition=models.Q(
                    models.Q(("holder", ""), _negated=True), ("label__isnull", True), ("skipped_at__isnull", True)
                ),
                name="reservation_open",
            ),
        ),
    ]
