"""A classifier over fixed options as one linear layer: for programs that read features and know nothing of ours."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from training.engine.classifiers.options import name_of, parts_of
from training.engine.classifiers.policy import SHARPNESS, Classifier, Floats, Head


@dataclass(frozen=True, slots=True)
class Layer:
    """logits (n, K) = vectors · `encoder` (d, K) + words · `words` (f, K) + `bias` (K,), of `options` in their order;
    None where the classifier reads none."""

    options: tuple[str, ...]
    bias: Floats
    encoder: Floats | None
    words: Floats | None


def find_options(head: Head) -> tuple[str, ...]:
    """The options that training saw, without the fields that they share."""
    fields = {part for column in head.columns for part in parts_of(column)[1:] if part != column}
    return tuple(column for column in head.columns if column not in fields)


def flatten(classifier: Classifier, options: Sequence[str]) -> Layer:
    """The layer whose softmax is the classifier's probabilities over these options."""
    head = classifier.head
    places = {column: place for place, column in enumerate(head.columns)}
    incidence = np.zeros((len(head.columns), len(options)), dtype=np.float32)
    for row, option in enumerate(options):
        for part in parts_of(option):
            if (place := places.get(part)) is not None:
                incidence[place, row] = 1.0
    incidence /= head.temperature
    encoder = words = None
    if classifier.encoder is not None:
        names = classifier.encoder.embed([name_of(option) for option in options]).T
        learnt = head.weights["encoder"] @ incidence if "encoder" in head.weights else 0.0
        encoder = (SHARPNESS * (learnt + names * (head.of_names / head.temperature))).astype(np.float32)
    if classifier.words is not None:
        words = (head.weights["words"] @ incidence).astype(np.float32)
    return Layer(tuple(options), (head.bias @ incidence).astype(np.float32), encoder, words)
