"""LoRA: the adapter's folder as peft loads it over its base, with tokenizer and chat template."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

from training.engine.export.runtimes import TorchRuntime
from training.engine.models.loading import load_tokenizer
from training.engine.spec.export_spec import ExportPlan
from training.engine.spec.run_spec import ModelSource

CONFIG, WEIGHTS = "adapter_config.json", "adapter_model.safetensors"


def write(source: ModelSource, folder: Path, plan: ExportPlan) -> dict[str, Any]:
    """The adapter's weights byte for byte, its configuration with the name of its base, and the base's tokenizer, which
    adapters keep."""
    if source.adapter is None:
        raise ValueError("the version has no adapter: its weights are whole")
    adapter = Path(source.adapter)
    load_tokenizer(str(source.path)).save_pretrained(folder)
    shutil.copyfile(adapter / WEIGHTS, folder / WEIGHTS)
    config = json.loads((adapter / CONFIG).read_text(encoding="utf-8"))
    config["base_model_name_or_path"] = plan.base_name
    (folder / CONFIG).write_text(json.dumps(config, indent=2, sort_keys=True) + "\n", encoding="utf-8")
    return {"base": plan.base_name}


def load(source: ModelSource, folder: Path, plan: ExportPlan) -> TorchRuntime:
    return TorchRuntime(str(source.path), folder, tokenizer=folder)
