"""The alias `challenger` ends with its experiment from now on; what earlier experiments left behind goes."""

from typing import Any

from django.db import migrations


def drop_left_over(apps: Any, schema_editor: Any) -> None:
    running = apps.get_model("models_registry", "Experiment").objects.filter(state="running")
    left = apps.get_model("models_registry", "Alias").objects.filter(name="challenger")
    left.exclude(registered_model_id__in=running.values("registered_model_id")).delete()


class Migration(migrations.Migration):
    dependencies = [("models_registry", "0002_guardrails_and_failed_requests")]

    operations = [migrations.RunPython(drop_left_over, migrations.RunPython.noop)]
