"""A version is exported as a model of an Ollama server."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("training", "0013_options_and_reports_of_exports")]

    operations = [
        migrations.AlterField(
            "exportjob",
            "format",
            models.CharField(
                choices=[
                    ("merged", "Merged weights (safetensors)"),
                    ("lora", "LoRA adapter (peft)"),
                    ("onnx", "ONNX"),
                    ("gguf", "GGUF (llama.cpp)"),
                    ("ollama", "Ollama"),
                ],
                default="merged",
                max_length=16,
            ),
        ),
    ]
