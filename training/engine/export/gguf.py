"""GGUF: the file that llama.cpp, Ollama and LM Studio run, in seven quantisations.

`missing_parts` says before any work what is not there. `write_gguf` goes tensor by tensor, so that the largest of them
and not the model has to fit in memory, and reads the types of the finished file back.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from gguf import MODEL_ARCH, MODEL_ARCH_NAMES, GGMLQuantizationType, GGUFReader, GGUFWriter, get_tensor_name_map
from safetensors import safe_open
from transformers import AutoConfig

from training.engine.export.quantise import quantise, quantiser_fault
from training.engine.export.recipes import FILE_TYPES, QUANTISATIONS, Chosen, choose, row_bytes
from training.engine.export.shapes import Weights, describe, extra_tensors, family_of, layout_of, shape_faults
from training.engine.export.vocabulary import read_vocabulary, tokenizer_faults, write_vocabulary
from training.engine.models.loading import load_tokenizer

QUANTISATION_VERSION = 2
"""Of the block layouts; what llama.cpp writes."""
HEADROOM = 64 * 2**20
"""Bytes for header, vocabulary and padding."""
DOUBLED = "lm_head.weight"
"""The embeddings again, in files of models that share them with the output layer."""


@dataclass(frozen=True, slots=True)
class GgufWritten:
    """A finished file, as read back from it: each tensor's type by its name in GGUF, `fallbacks` those whose type isn't
    the recipe's, with the reason, `notes` on what GGUF can't express. `size` in bytes."""

    path: Path
    types: Mapping[str, str]
    fallbacks: Mapping[str, str]
    notes: tuple[str, ...]
    size: int


@dataclass(frozen=True, slots=True)
class Planned:
    """A tensor to be written; `source` is its name in the safetensors, None where it is computed."""

    name: str
    source: str | None
    shape: tuple[int, ...]
    chosen: Chosen

    @property
    def bytes(self) -> int:
        rows = int(np.prod(self.shape[:-1], dtype=np.int64))
        return rows * row_bytes(self.chosen.type, self.shape[-1])


class Source:
    """The tensors of a folder's safetensors, whatever files they are spread over. Reads one at a time."""

    def __init__(self, folder: Path, stack: ExitStack) -> None:
        self._files: dict[str, Any] = {}
        for path in sorted(folder.glob("model*.safetensors")):
            opened: Any = stack.enter_context(safe_open(path, framework="pt"))
            self._files |= dict.fromkeys(opened.keys(), opened)

    def shapes(self) -> dict[str, tuple[int, ...]]:
        return {name: tuple(opened.get_slice(name).get_shape()) for name, opened in self._files.items()}

    def read(self, name: str) -> Weights:
        values: Weights = self._files[name].get_tensor(name).to(torch.float32).numpy()
        return values


def missing_parts(source: Path, target: Path, quantisation: str) -> list[str]:
    """What keeps the model in folder `source` from becoming the file `target`, each with what would be right: the
    quantiser, a supported shape and tokenizer, room on the disk. Reads headers and no weights; writes nothing."""
    if quantisation not in QUANTISATIONS:
        return [f"{quantisation} is not a quantisation of GGUF files: {', '.join(QUANTISATIONS)} are"]
    fault = quantiser_fault() if quantisation != "F16" else None
    missing = [] if fault is None else [fault]
    if not any(source.glob("model*.safetensors")):
        return [*missing, f"{source} holds no model*.safetensors: GGUF files are written of merged weights"]
    config = AutoConfig.from_pretrained(source)
    if faults := shape_faults(config):
        return missing + faults
    with ExitStack() as stack:
        weights = Source(source, stack)
        missing += tokenizer_faults(load_tokenizer(source))
        needed = sum(tensor.bytes for tensor in _plan(weights, config, quantisation)) + HEADROOM
    free = shutil.disk_usage(_existing(target)).free
    if free < needed:
        missing.append(f"the file needs {_mib(needed)} of disk at {target.parent}, where {_mib(free)} are free")
    return missing


def write_gguf(
    source: Path,
    target: Path,
    quantisation: str,
    *,
    on_progress: Callable[[int, int], None] | None = None,
) -> GgufWritten:
    """Writes the merged model in folder `source` (safetensors, config, tokenizer) as the file `target`.

    It is called .part until it is complete and its types are the planned ones. `on_progress` gets bytes done and due
    after each tensor; what it raises ends the work. Raises ValueError for what can't be written, naming the tensor.
    `quantisation` may be F32 as well, which is what other quantisers start from.
    """
    config = AutoConfig.from_pretrained(source)
    family = family_of(config)
    tokenizer = load_tokenizer(source)
    if faults := tokenizer_faults(tokenizer):
        raise ValueError("; ".join(faults))
    part = target.with_name(f"{target.name}.part")
    with ExitStack() as stack:
        weights = Source(source, stack)
        plan = _plan(weights, config, quantisation)
        rows = next(tensor.shape[0] for tensor in plan if tensor.name == "token_embd.weight")
        vocabulary = read_vocabulary(tokenizer, rows)
        writer = GGUFWriter(part, family.architecture)
        try:
            stack.callback(part.unlink, missing_ok=True)
            describe(writer, config)
            writer.add_file_type(FILE_TYPES[quantisation])
            writer.add_quantization_version(QUANTISATION_VERSION)
            write_vocabulary(writer, vocabulary)
            _write_tensors(writer, plan, weights, config, on_progress)
        finally:
            writer.close()
        types = read_types(part)
        planned = {tensor.name: tensor.chosen.type for tensor in plan}
        if types != planned:
            wrong = [name for name in types.keys() | planned.keys() if types.get(name) != planned.get(name)]
            raise ValueError(f"the file has other types than were written: {', '.join(sorted(wrong))}")
        part.replace(target)
    reasons = {tensor.name: tensor.chosen.reason for tensor in plan}
    fallbacks = {name: reason for name, reason in reasons.items() if reason is not None}
    return GgufWritten(target, types, fallbacks, vocabulary.notes, target.stat().st_size)


def read_types(path: Path) -> dict[str, str]:
    """Each tensor's type by name, as the file says."""
    return {tensor.name: tensor.tensor_type.name for tensor in GGUFReader(path).tensors}


def _plan(weights: Source, config: Any, quantisation: str) -> list[Planned]:
    """In the order of the file. Raises ValueError for a tensor that has no name in GGUF."""
    architecture = next(kind for kind in MODEL_ARCH if MODEL_ARCH_NAMES[kind] == family_of(config).architecture)
    names = get_tensor_name_map(architecture, config.num_hidden_layers)
    shapes = weights.shapes()
    if config.tie_word_embeddings:
        shapes.pop(DOUBLED, None)
    elif DOUBLED not in shapes:
        raise ValueError(f"the weights have no {DOUBLED}, though the config says that it isn't the embeddings")
    layout = layout_of(config, tied=bool(config.tie_word_embeddings))
    plan = [
        Planned(name, None, values.shape, choose(name, values.shape, quantisation, layout))
        for name, values in extra_tensors(config).items()
    ]
    for source, shape in shapes.items():
        name = names.get_name(source, try_suffixes=(".weight", ".bias"))
        if name is None:
            raise ValueError(f"{source} has no name in GGUF files of the architecture {family_of(config).architecture}")
        plan.append(Planned(name, source, shape, choose(name, shape, quantisation, layout)))
    return plan


def _write_tensors(
    writer: GGUFWriter,
    plan: list[Planned],
    weights: Source,
    config: Any,
    on_progress: Callable[[int, int], None] | None,
) -> None:
    for tensor in plan:
        kind = GGMLQuantizationType[tensor.chosen.type]
        # The dtype is not read where the type is named, unless it is uint8.
        writer.add_tensor_info(tensor.name, tensor.shape, np.dtype(np.float32), tensor.bytes, raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_ti_data_to_file()
    family, computed = family_of(config), extra_tensors(config)
    done, due = 0, sum(tensor.bytes for tensor in plan)
    for tensor in plan:
        if tensor.source is None:
            values = computed[tensor.name]
        else:
            values = family.lay_out(tensor.source, weights.read(tensor.source), config)
        try:
            writer.write_tensor_data(quantise(values, tensor.chosen.type))
        except ValueError as error:
            raise ValueError(f"{tensor.name}: {error}") from error
        done += tensor.bytes
        if on_progress is not None:
            on_progress(done, due)


def _existing(path: Path) -> Path:
    """The nearest folder above that exists: a disk is measured by it."""
    return next(folder for folder in path.parents if folder.exists())


def _mib(size: int) -> str:
    return f"{size / 2**20:,.0f} MiB"
