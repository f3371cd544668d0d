"""New backends have five seconds to take a connection: a dropped attempt is repeated after one second and after three."""

from __future__ import annotations

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("models_registry", "0002_budgets_hold_reservations")]

    operations = [
        migrations.AlterField(model_name="backend", name="connect_seconds", field=models.FloatField(default=5.0)),
    ]
