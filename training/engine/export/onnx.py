"""ONNX: a graph that onnxruntime runs, traced from the merged model, with or without a cache of earlier tokens.

Inputs are `input_ids` (batch, tokens) and `attention_mask` (batch, all tokens, the cached ones first), both int64, the
output is `logits` (batch, tokens, vocabulary). With a cache the graph also takes `past_key_values.N.key` and `.value`
(batch, heads, cached tokens, size of a head) of each layer N and gives `present.N.key` and `.value`: the names that
optimum uses. An empty cache has 0 tokens. The tokenizer and the configuration lie beside the graph.
"""

from __future__ import annotations

import logging
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.export import Dim
from transformers import DynamicCache

from training.engine.export.merged import merge
from training.engine.export.runtimes import Logits, tokenise
from training.engine.models.loading import load_tokenizer
from training.engine.spec.export_formats import find_shape_faults
from training.engine.spec.export_spec import ExportPlan
from training.engine.spec.refused import Refused
from training.engine.spec.run_spec import ModelSource

GRAPH = "model.onnx"
PAST, PRESENT = "past_key_values", "present"
BATCH, TOKENS, CACHED = 2, 7, 5
"""Of the example that is traced; none of them 1, which would be taken for a constant."""


class _Plain(nn.Module):
    def __init__(self, model: Any) -> None:
        super().__init__()
        self.model = model

    def forward(self, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
        logits: Tensor = self.model(input_ids=input_ids, attention_mask=attention_mask, use_cache=False).logits
        return logits


class _Cached(nn.Module):
    def __init__(self, model: Any) -> None:
        super().__init__()
        self.model = model

    def forward(self, input_ids: Tensor, attention_mask: Tensor, past: list[Tensor]) -> tuple[Tensor, ...]:
        cache = DynamicCache(list(zip(past[::2], past[1::2], strict=True)))
        found = self.model(input_ids=input_ids, attention_mask=attention_mask, past_key_values=cache, use_cache=True)
        layers = found.past_key_values.layers
        return (found.logits, *(tensor for layer in layers for tensor in (layer.keys, layer.values)))


def write(source: ModelSource, folder: Path, plan: ExportPlan) -> dict[str, Any]:
    """Raises Refused for an architecture that was not tried, and what torch's exporter raises for a model that it
    cannot trace."""
    loaded = merge(source)
    if faults := find_shape_faults(plan.format, loaded.model.config.get_text_config().model_type):
        raise Refused("; ".join(f"export.format: {reason}" for reason in faults))
    model, config = loaded.model, loaded.model.config.get_text_config()
    layers: int = config.num_hidden_layers
    ids = torch.zeros(BATCH, TOKENS, dtype=torch.long)
    two: Any = {0: Dim.DYNAMIC, 1: Dim.DYNAMIC}
    given: tuple[Any, ...] = (ids, torch.ones_like(ids))
    shapes: tuple[Any, ...] = (two, two)
    inputs, outputs = ["input_ids", "attention_mask"], ["logits"]
    if plan.cache:
        heads, size = _find_heads(config)
        given = (
            ids,
            torch.ones(BATCH, CACHED + TOKENS, dtype=torch.long),
            [torch.zeros(BATCH, heads, CACHED, size) for _ in range(2 * layers)],
        )
        shapes = (two, two, [{0: Dim.DYNAMIC, 2: Dim.DYNAMIC}] * (2 * layers))
        inputs += cache_names(PAST, layers)
        outputs += cache_names(PRESENT, layers)
    logging.getLogger("torch.onnx").setLevel(logging.ERROR)  # it misses torchvision, which no language model needs
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the exporter's own, of its next versions
        program = torch.onnx.export(
            _Cached(model) if plan.cache else _Plain(model),
            given,
            dynamo=True,
            verbose=False,
            input_names=inputs,
            output_names=outputs,
            dynamic_shapes=shapes,
        )
    assert program is not None
    program.save(folder / GRAPH)
    loaded.tokenizer.save_pretrained(folder)
    model.config.save_pretrained(folder)
    return {"cache": plan.cache, "opset": program.model.opset_imports.get("", None)}


def load(source: ModelSource, folder: Path, plan: ExportPlan) -> OnnxRuntime:
    return OnnxRuntime(folder)


def cache_names(what: str, layers: int) -> list[str]:
    """Of the keys and values of each layer, in the order in which the graph has them."""
    return [f"{what}.{layer}.{part}" for layer in range(layers) for part in ("key", "value")]


class OnnxRuntime:
    """onnxruntime on the CPU. A graph with a cache reads a text in two steps, so that the cache is used."""

    def __init__(self, folder: Path) -> None:
        import onnxruntime

        self.name = f"onnxruntime {onnxruntime.__version__}"
        settings = onnxruntime.SessionOptions()
        settings.intra_op_num_threads = torch.get_num_threads()
        self._session = onnxruntime.InferenceSession(
            str(folder / GRAPH), sess_options=settings, providers=["CPUExecutionProvider"]
        )
        self._tokenizer = load_tokenizer(folder)
        past = [found for found in self._session.get_inputs() if found.name.startswith(PAST)]
        self._empty = {found.name: np.zeros((1, found.shape[1], 0, found.shape[3]), dtype=np.float32) for found in past}

    def token_ids(self, text: str) -> list[int]:
        return tokenise(self._tokenizer, text)

    def unlike_reason(self, text: str) -> str | None:
        return None

    def logits(self, ids: Sequence[int]) -> Logits:
        parts = (ids[: len(ids) // 2], ids[len(ids) // 2 :]) if self._empty and len(ids) > 1 else (ids,)
        past, read, found = self._empty, 0, []
        for part in parts:
            read += len(part)
            tokens = np.array([part], dtype=np.int64)
            logits, *present = self._session.run(
                None, {"input_ids": tokens, "attention_mask": np.ones((1, read), dtype=np.int64), **past}
            )
            past = dict(zip(self._empty, present, strict=True))
            found.append(logits[0])
        return np.concatenate(found)


def _find_heads(config: Any) -> tuple[int, int]:
    """How many heads of keys there are, and the size of one."""
    heads = config.num_attention_heads
    size = getattr(config, "head_dim", None) or config.hidden_size // heads
    return getattr(config, "num_key_value_heads", None) or heads, size
