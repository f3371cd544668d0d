"""Whether a base can be trained as a spec wants it, told by its architecture before the run is queued.

The table of architectures answers at once. Of others the engine's program is asked, which builds the model without its
weights: this process never loads torch.
"""

from __future__ import annotations

import functools
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from django.conf import settings

from models_registry.artifacts.opening import artifact_path, find_cache
from training.engine.spec.architectures import (
    ARCHITECTURES,
    TARGETS,
    find_target_fault,
    read_model_type,
    say_targets,
)
from training.engine.spec.run_spec import RunSpec
from training.runs.estimates.capacity import Load, find_folder_of_model
from training.runs.launcher import engine_environment
from workspaces.errors import FieldFault

ASK_TARGETS: tuple[str, ...] = (sys.executable, "-m", "training.engine.models.targets")
ASK_SECONDS = 120.0


def find_base_faults(spec: RunSpec, load: Load) -> list[FieldFault]:
    """Faults of the fields `base_version` or `base_model`, and `settings.lora.targets`. None of a base whose
    config.json is not here, or names no architecture: the engine looks again."""
    folder = _folder_of(load)
    if spec.base.tiny is not None or folder is None or not (folder / "config.json").is_file():
        return []
    fresh = spec.lora is not None and (load.base_version is None or not load.base_version.is_adapter)
    model_type = read_model_type(folder)
    if not model_type or model_type in ARCHITECTURES:
        fault = find_target_fault(model_type, spec.lora.targets) if fresh and spec.lora is not None else None
        return [FieldFault("settings.lora.targets", *fault)] if fault is not None else []
    answer = ask_engine_for_targets(folder, (folder / "config.json").read_bytes())
    if error := answer.get("error"):
        name = "base_version" if load.base_version is not None else "base_model"
        return [FieldFault(name, error, f"a causal language model: {', '.join(ARCHITECTURES)}, or another")]
    targets = answer.get("targets", {})
    if fresh and spec.lora is not None and (why := targets.get(spec.lora.targets)):
        usable = say_targets([name for name in TARGETS if not targets.get(name)])
        reason = f"{spec.lora.targets} cannot be adapted in {model_type}: {why}"
        return [FieldFault("settings.lora.targets", reason, usable)]
    return []


def _folder_of(load: Load) -> Path | None:
    if load.base_version is None:
        return find_folder_of_model(load.base_model)
    if find_cache() is not None:  # at a server: a page should not fetch weights, and the engine looks again
        return None
    return artifact_path(load.base_version.weights.stored.digest)


@functools.lru_cache(maxsize=256)
def ask_engine_for_targets(folder: Path, config: bytes) -> dict[str, Any]:
    """`error`, or `targets` with why each cannot be adapted; empty where the engine does not answer. Asked once for a
    config with these bytes."""
    try:
        done = subprocess.run(  # noqa: S603 - our own interpreter and module, no shell
            [*ASK_TARGETS, str(folder)],
            cwd=settings.BASE_DIR,
            env=engine_environment(),
            capture_output=True,
            text=True,
            timeout=ASK_SECONDS,
            check=False,
        )
        answer: dict[str, Any] = json.loads(done.stdout)
    except (subprocess.TimeoutExpired, json.JSONDecodeError):
        return {}
    return answer
