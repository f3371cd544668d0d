"""Exports have options, a report of their parity, and may be refused. Those that are there are merged weights, whose
options are none."""

from django.db import migrations, models
from django.db.models import Q

NO_OPTIONS = "44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a"


class Migration(migrations.Migration):
    dependencies = [("training", "0012_datasets_of_tasks"), ("models_registry", "0023_artifacts_of_exports")]

    operations = [
        migrations.RemoveConstraint(model_name="exportjob", name="export_once"),
        migrations.AddField("exportjob", "options", models.JSONField(blank=True, default=dict)),
        migrations.AddField(
            "exportjob", "options_hash", models.CharField(default=NO_OPTIONS, editable=False, max_length=64)
        ),
        migrations.AddField("exportjob", "report", models.JSONField(blank=True, default=dict)),
        migrations.AlterField(
            "exportjob",
            "format",
            models.CharField(
                choices=[
                    ("merged", "Merged weights (safetensors)"),
                    ("lora", "LoRA adapter (peft)"),
                    ("onnx", "ONNX"),
                    ("gguf", "GGUF (llama.cpp)"),
                ],
                default="merged",
                max_length=16,
            ),
        ),
        migrations.AlterField(
            "exportjob",
            "state",
            models.CharField(
                choices=[("queued", "Queued"), ("ready", "Ready"), ("refused", "Refused"), ("failed", "Failed")],
                default="queued",
                max_length=16,
            ),
        ),
        migrations.AddConstraint(
            "exportjob",
            models.UniqueConstraint(
                condition=Q(("state__in", ["queued", "ready"])),
                fields=("version", "format", "options_hash"),
                name="export_once",
            ),
        ),
        migrations.AddConstraint(
            "exportjob",
            models.CheckConstraint(
                condition=~Q(("state", "refused")) | ~Q(("report", {})), name="export_report_when_refused"
            ),
        ),
    ]
