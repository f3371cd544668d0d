"""A new backend may take five seconds to take a connection: one whose queue is full is knocked at again after one and
three."""

from __future__ import annotations

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("models_registry", "0002_budgets_hold_reservations")]

    operations = [
        migrations.AlterField(model_name="backend", name="connect_seconds", field=models.FloatField(default=5.0)),
    ]
