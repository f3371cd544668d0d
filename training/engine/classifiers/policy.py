"""A classifier that decides: features of the prompt, linear weights for the parts of the options, one temperature.

For a prompt x with features φ(x) and an option o with parts ψ(o) (training.engine.classifiers.options):

    logit(o | x) = (Σ_{c in ψ(o)} w_c · φ(x) + b_c + s · 20 cos(e(x), e(name of o))) / T

e is the encoder; without one s is 0. A part that training never saw adds nothing, so that an option without known parts
is judged by its name alone.
"""

from __future__ import annotations

import json
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from safetensors.numpy import load_file, save_file

from training.engine.classifiers.encoders import Embedder, load_encoder
from training.engine.classifiers.options import name_of, parts_of
from training.engine.classifiers.words import KINDS, Words
from training.engine.rows.types import Prompt
from training.engine.spec.run_spec import CLASSIFIER, ModelSource

WEIGHTS = "head.safetensors"
SHARPNESS = 20.0
"""What unit vectors' products are multiplied by, so that weights of ordinary size tell texts apart."""
NAMES_KEPT = 4096

Floats = NDArray[np.float32]


class BadClassifier(ValueError):
    """The folder holds no classifier that can be used."""


@dataclass(frozen=True, slots=True)
class Features:
    """The features of n prompts: `vectors` (n, d) by the encoder, `counted` (n, f) sparse by words; None where there is
    none."""

    vectors: Floats | None
    counted: Any | None

    def __len__(self) -> int:
        known: Any = self.counted if self.vectors is None else self.vectors
        return int(known.shape[0])

    def take(self, places: NDArray[np.int64]) -> Features:
        vectors = self.vectors[places] if self.vectors is not None else None
        return Features(vectors, self.counted[places] if self.counted is not None else None)


@dataclass(frozen=True, slots=True)
class Head:
    """`columns`: the parts of options that training saw. `weights`: "encoder" (d, C) and "words" (f, C), those that
    there are; `bias` (C,). `of_names` ≥ 0 is s, `temperature` > 0 is T."""

    columns: tuple[str, ...]
    weights: Mapping[str, Floats]
    bias: Floats
    of_names: float = 0.0
    temperature: float = 1.0


@dataclass(slots=True)
class Classifier:
    """A policy over options."""

    head: Head
    words: Words | None = None
    encoder: Embedder | None = None
    _places: dict[str, int] = field(init=False)
    _matrices: OrderedDict[tuple[str, ...], tuple[Floats, Floats | None]] = field(init=False)

    def __post_init__(self) -> None:
        self._places = {column: place for place, column in enumerate(self.head.columns)}
        self._matrices = OrderedDict()

    @property
    def kind(self) -> str:
        """Names its features: words, encoder, or encoder and words."""
        return " and ".join(name for name, has in (("encoder", self.encoder), ("words", self.words)) if has)

    def read(self, prompts: Sequence[Prompt]) -> Features:
        """Features of the prompts' texts; system prompts, which are the same for all, are left out."""
        texts = [prompt.text for prompt in prompts]
        vectors = self.encoder.embed(texts) if self.encoder is not None else None
        return Features(vectors, self.words.transform(texts) if self.words is not None else None)

    def log_probabilities(self, prompts: Sequence[Prompt], options: Sequence[tuple[str, ...]]) -> list[Floats]:
        """log p of each prompt's own options, in their order, (K_i,) each."""
        return self.score(self.read(prompts), options)

    def score(self, features: Features, options: Sequence[tuple[str, ...]]) -> list[Floats]:
        """Does the same for prompts whose features are known."""
        of_columns = self._score_columns(features)
        scored = []
        for row, offered in enumerate(options):
            incidence, names = self._matrices_of(offered)
            logits = incidence @ of_columns[row]
            if names is not None and features.vectors is not None:
                logits = logits + self.head.of_names * SHARPNESS * (names @ features.vectors[row])
            logits = logits / self.head.temperature
            logits = logits - logits.max()
            scored.append((logits - np.log(np.exp(logits).sum())).astype(np.float32))
        return scored

    def _score_columns(self, features: Features) -> Floats:
        total = np.tile(self.head.bias, (len(features), 1))
        if features.vectors is not None and "encoder" in self.head.weights:
            total = total + SHARPNESS * (features.vectors @ self.head.weights["encoder"])
        if features.counted is not None and "words" in self.head.weights:
            total = total + features.counted @ self.head.weights["words"]
        return np.asarray(total, dtype=np.float32)

    def _matrices_of(self, options: tuple[str, ...]) -> tuple[Floats, Floats | None]:
        """(K, C) which columns each option has, and (K, d) the vectors of their names; kept for the next row."""
        kept = self._matrices.get(options)
        if kept is None:
            incidence = np.zeros((len(options), len(self.head.columns)), dtype=np.float32)
            for row, option in enumerate(options):
                for part in parts_of(option):
                    if (place := self._places.get(part)) is not None:
                        incidence[row, place] = 1.0
            names = self.encoder.embed([name_of(option) for option in options]) if self.encoder is not None else None
            kept = self._matrices[options] = (incidence, names)
            while sum(map(len, self._matrices)) > NAMES_KEPT and len(self._matrices) > 1:
                self._matrices.popitem(last=False)
        self._matrices.move_to_end(options)
        return kept

    def tensors(self) -> dict[str, Any]:
        """Everything that was learnt, by name."""
        tensors: dict[str, Any] = {f"{name}.weight": weights for name, weights in self.head.weights.items()}
        tensors["bias"] = self.head.bias
        tensors["of_names"] = np.array([self.head.of_names], dtype=np.float32)
        tensors["temperature"] = np.array([self.head.temperature], dtype=np.float32)
        for kind in KINDS if self.words is not None else ():
            assert self.words is not None
            tensors[f"words.{kind}.kept"] = self.words.kept[kind]
            tensors[f"words.{kind}.rarity"] = self.words.rarity[kind]
        return tensors

    def save(self, folder: Path) -> None:
        """Writes the head, without the encoder: its folder is the base's."""
        folder.mkdir(parents=True, exist_ok=True)
        save_file({name: np.ascontiguousarray(tensor) for name, tensor in self.tensors().items()}, folder / WEIGHTS)
        description = {"schema_version": 1, "kind": self.kind, "columns": self.head.columns}
        (folder / CLASSIFIER).write_text(json.dumps(description, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")


def is_classifier(source: ModelSource) -> bool:
    """Whether the folder of a model, or what lies over it, is a classifier."""
    folder = source.adapter or source.path
    return folder is not None and folder.startswith("/") and (Path(folder) / CLASSIFIER).is_file()


def load_classifier(source: ModelSource, device: torch.device) -> Classifier:
    """Reads the head in `source.adapter` over the encoder in `source.path`, or a head of words alone in `source.path`.
    Raises BadClassifier, BadEncoder."""
    assert source.path is not None
    folder = Path(source.adapter or source.path)
    encoder = load_encoder(Path(source.path), device) if source.adapter is not None else None
    return read_classifier(folder, encoder)


def read_classifier(folder: Path, encoder: Embedder | None) -> Classifier:
    """Reads the head in the folder. Raises BadClassifier where it is none, or belongs to another encoder."""
    try:
        description = json.loads((folder / CLASSIFIER).read_text(encoding="utf-8"))
        columns = tuple(map(str, description["columns"]))
        tensors = load_file(folder / WEIGHTS)
        words = None
        if f"words.{KINDS[0]}.kept" in tensors:
            words = Words(
                {kind: tensors[f"words.{kind}.kept"] for kind in KINDS},
                {kind: tensors[f"words.{kind}.rarity"] for kind in KINDS},
            )
        weights = {name: tensors[f"{name}.weight"] for name in ("encoder", "words") if f"{name}.weight" in tensors}
        of_names, temperature = float(tensors["of_names"][0]), float(tensors["temperature"][0])
        head = Head(columns, weights, tensors["bias"], of_names, temperature)
    except Exception as error:  # a foreign folder may be wrong in any way
        raise BadClassifier(f"{folder} is no classifier: {type(error).__name__}: {str(error)[:200]}") from error
    sizes = {"encoder": encoder.size if encoder is not None else None, "words": words.size if words else None}
    for name, weight in head.weights.items():
        if weight.shape != (sizes[name], len(columns)):
            fault = f"its {name} weights have the shape {list(weight.shape)}, not {[sizes[name], len(columns)]}"
            raise BadClassifier(f"{folder} does not fit: {fault}")
    if head.bias.shape != (len(columns),) or not head.temperature > 0:
        raise BadClassifier(f"{folder} does not fit: its bias or its temperature is not of its columns")
    return Classifier(head, words, encoder)
