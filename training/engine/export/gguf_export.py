"""GGUF as a format of exports: merges an adapter first, and loads the file in llama.cpp."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch

from training.engine.export import merged
from training.engine.export.gguf import missing_parts, write_gguf
from training.engine.export.llama_runtime import LlamaRuntime
from training.engine.export.vocabulary import unlike_reason
from training.engine.export_spec import ExportPlan
from training.engine.models import load_tokenizer
from training.engine.spec import ModelSource


def write(source: ModelSource, folder: Path, plan: ExportPlan) -> dict[str, Any]:
    """`details.types` counts the tensors of each type, as read back from the file. Raises ValueError with everything
    that is missing for it, before any weights are read."""
    assert plan.quantisation is not None and source.path is not None
    target = _file(folder, plan)
    if missing := missing_parts(Path(source.path), target, plan.quantisation):
        raise ValueError("; ".join(missing))
    with ExitStack() as stack:
        whole = Path(source.path)
        if source.adapter is not None:
            whole = Path(stack.enter_context(TemporaryDirectory(prefix="merged-", dir=folder.parent)))
            merged.write(source, whole, plan)
        written = write_gguf(whole, target, plan.quantisation)
    types = sorted(written.types.values())
    return {
        "types": {name: types.count(name) for name in sorted(set(types))},
        "fallbacks": dict(written.fallbacks),
        "notes": list(written.notes),
    }


class GgufRuntime(LlamaRuntime):
    """llama.cpp, which cannot be told everything that a tokenizer knows."""

    def __init__(self, path: Path, tokenizer: Any) -> None:
        super().__init__(path, threads=torch.get_num_threads())
        self._tokenizer = tokenizer

    def unlike_reason(self, text: str) -> str | None:
        return unlike_reason(self._tokenizer, text)


def load(source: ModelSource, folder: Path, plan: ExportPlan) -> GgufRuntime:
    return GgufRuntime(_file(folder, plan), load_tokenizer(str(source.path)))


def _file(folder: Path, plan: ExportPlan) -> Path:
    return folder / f"model-{plan.quantisation}.gguf"
