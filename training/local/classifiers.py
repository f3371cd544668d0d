"""What `manage.py train` does to train a classifier: what it may begin with here, and which options are not for it."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Protocol

from training.engine.spec.methods import CLASSIFIER, TRAINING
from training.runs.base_models import TINY, WORDS, why_no_model, why_not_for
from training.runs.defaults.presets import PRESETS


class Options(Protocol):
    """What is read here of `training.local.plans.Training`."""

    @property
    def method(self) -> str: ...
    @property
    def base(self) -> str: ...
    @property
    def preset(self) -> str: ...
    @property
    def epochs(self) -> int | None: ...
    @property
    def batch_size(self) -> int | None: ...
    @property
    def learning_rate(self) -> float | None: ...


def makes_classifier(method: str) -> bool:
    return method in TRAINING and TRAINING[method].makes_classifier


def find_training_faults(asked: Options) -> list[str]:
    """Why nothing can be trained so, before any row is read; of other methods only what `words` has to do with it."""
    if not makes_classifier(asked.method):
        trained_by = asked.method or (PRESETS[asked.preset].method if asked.preset else "")
        return (
            [f"--model: {WORDS} is no model, and {trained_by} needs one; only {CLASSIFIER} learns from words alone"]
            if asked.base == WORDS and trained_by
            else []
        )
    faults = [
        f"--{name}: a {CLASSIFIER} chooses its own; leave it out"
        for name, value in (("batch-size", asked.batch_size), ("learning-rate", asked.learning_rate))
        if value is not None
    ]
    if asked.preset:
        faults.append(f"--preset: {asked.preset} is for {PRESETS[asked.preset].method}; leave it out")
    if (fault := _find_base_fault(asked.base)) is not None:
        faults.append(f"--model: {fault}")
    return faults


def _find_base_fault(base: str) -> str | None:
    """What is wrong with it as what a classifier begins with; None also of `tiny`, which is refused with the other
    methods' bases."""
    if base in (WORDS, TINY):
        return None
    folder = Path(base).resolve()
    if not folder.is_dir():
        return (
            f"{base} is no folder: give {WORDS}, or the folder of a sentence encoder (manage.py runs start fetches one)"
        )
    return why_no_model(str(folder)) or why_not_for(CLASSIFIER, base, folder)


def spec_of_classifier(asked: Options, base: str) -> dict[str, Any]:
    """Fields of the engine's spec: those of a classifier, and none of a language model's. `base`: `words`, or the
    encoder's folder by its whole path."""
    epochs = {"epochs": asked.epochs} if asked.epochs is not None else {}
    return {
        "method": asked.method,
        "base": {"words": True} if base == WORDS else {"path": base},
        "classifier": epochs,
    }
