"""Whether a base can be trained as a spec wants it, told by its architecture before the run is queued.

The table of architectures answers at once. Of others the engine's program is asked, which builds the model without its
weights: this process never loads torch. Whatever starts a run asks here: pages, the API, commands, pipelines,
rehearsals, first models, and the run's job again before it stores a base.
"""

from __future__ import annotations

import functools
import json
import subprocess
import sys
from collections.abc import Mapping
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
from training.runs.base_models import MADE_HERE
from training.runs.estimates.capacity import Load
from training.runs.hub_configs import find_model_files
from training.runs.launcher import engine_environment
from workspaces.errors import FieldFault

ASK_TARGETS: tuple[str, ...] = (sys.executable, "-m", "training.engine.models.targets")
ASK_SECONDS = 120.0


def find_base_faults(spec: RunSpec, load: Load) -> list[FieldFault]:
    """Faults of the fields `base_version` or `base_model`, and `settings.lora.targets`. None of a base whose
    config.json cannot be had, or names no architecture: `tell_unchecked` says when it is looked at."""
    if spec.trains_by.makes_classifier:
        return []  # it trains no matrices of its base
    folder = _folder_of(load) if spec.base.tiny is None else None
    if folder is None or not (folder / "config.json").is_file():
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


def find_named_base_faults(base: str, *, lora: Mapping[str, Any] | None) -> list[FieldFault]:
    """The same of a base by its name, before any rows are known: `lora` are the settings of the adapter that will be
    trained over it; None: every weight is trained."""
    if base in MADE_HERE:
        return []
    told = {"run_id": "check", "method": "sft", "base": {"path": base}, "data": {"train": "rows"}, "lora": lora}
    return find_base_faults(RunSpec.model_validate(told), Load(None, base, rows=0, heldout=0))


def tell_unchecked(base: str) -> str:
    """Why a named base could not be checked yet, and when it will be; "" of one that was."""
    if base in ("", *MADE_HERE) or (found := find_model_files(base)).folder is not None:
        return ""
    return (
        f"{base} is not downloaded, and its config.json cannot be read now ({found.why}). Whether it can be trained is"
        " checked when the run has downloaded it, before anything is trained."
    )


def _folder_of(load: Load) -> Path | None:
    if load.base_version is None:
        return find_model_files(load.base_model).folder
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
