"""GGUF as a format of exports: merges an adapter first, and loads the file in llama.cpp."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch
from transformers import AutoConfig

from training.engine.export import merged
from training.engine.export.gguf import missing_parts, write_gguf
from training.engine.export.go_template import Unlike, read_form
from training.engine.export.llama_runtime import LlamaRuntime
from training.engine.export.vocabulary import unlike_reason
from training.engine.models.loading import load_tokenizer
from training.engine.spec.export_spec import ExportPlan
from training.engine.spec.refused import Refused
from training.engine.spec.run_spec import ModelSource


def write(source: ModelSource, folder: Path, plan: ExportPlan) -> dict[str, Any]:
    """`details.types` counts the tensors of each type, as read back from the file, `details.ollama` holds the chat
    template in Go, `details.positions` the most tokens of a text. Raises Refused with everything that is missing for
    it, before any weights are read."""
    assert plan.quantisation is not None and source.path is not None
    target = _file(folder, plan)
    if missing := missing_parts(Path(source.path), target, plan.quantisation):
        raise Refused("; ".join(f"export: {reason}" for reason in missing))
    with ExitStack() as stack:
        whole = Path(source.path)
        if source.adapter is not None:
            whole = Path(stack.enter_context(TemporaryDirectory(prefix="merged-", dir=folder.parent)))
            merged.write(source, whole, plan)
        written = write_gguf(whole, target, plan.quantisation)
    types = sorted(written.types.values())
    tokenizer = load_tokenizer(str(source.path))
    return {
        "ollama": _describe_template(tokenizer),
        "positions": AutoConfig.from_pretrained(source.path).get_text_config().max_position_embeddings,
        "types": {name: types.count(name) for name in sorted(set(types))},
        "fallbacks": dict(written.fallbacks),
        "notes": list(written.notes),
    }


def _describe_template(tokenizer: Any) -> dict[str, Any]:
    """`template` in Go, and whether it takes a system message; or why there is none in `lacks`."""
    try:
        form = read_form(tokenizer)
    except Unlike as error:
        return {"lacks": str(error)}
    return {"template": form.as_go(), "takes_system": form.takes_system}


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
