"""Hashed words, pairs of words and pieces of words, weighted by how rare they are. No torch.

Features are hashed, so that what is saved holds no word that a person wrote: the places of the features that training
saw, and their weights.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

BITS = 17
"""Each of the two kinds of features is hashed to so many bits."""
COMMON_FROM = 1_000
"""From so many texts on, features of a single text are left out."""
MOST_FEATURES = 100_000
"""Of each kind: the most frequent ones are kept."""
LONGEST = 4_000
"""Characters of a text that are read: half from its beginning, half from its end."""
KINDS = ("words", "pieces")


@dataclass(frozen=True, slots=True)
class Words:
    """By kind: `kept` (f,) places among the hashed features, ascending, and `rarity` (f,) their inverse document
    frequencies."""

    kept: Mapping[str, NDArray[np.int64]]
    rarity: Mapping[str, NDArray[np.float32]]

    @property
    def size(self) -> int:
        return sum(len(places) for places in self.kept.values())

    def transform(self, texts: Sequence[str]) -> Any:
        """(n, size) sparse float32; each kind's part of a row has length 1, or 0 where the text has none of it."""
        return _weigh(_count(texts), self)


def learn_words(texts: Sequence[str]) -> tuple[Words, Any]:
    """What the texts have, and its features of them, as `Words.transform`."""
    counts = _count(texts)
    fewest = 1 if len(texts) < COMMON_FROM else 2
    kept, rarity = {}, {}
    for kind, counted in counts.items():
        seen_in = np.bincount(counted.indices, minlength=counted.shape[1])
        places = np.flatnonzero(seen_in >= fewest)
        if len(places) > MOST_FEATURES:
            places = np.sort(places[np.argsort(-seen_in[places], kind="stable")[:MOST_FEATURES]])
        kept[kind] = places.astype(np.int64)
        rarity[kind] = (np.log((1 + len(texts)) / (1 + seen_in[places])) + 1).astype(np.float32)
    words = Words(kept, rarity)
    return words, _weigh(counts, words)


def shorten(text: str, longest: int = LONGEST) -> str:
    """The text, or the beginning and the end of a long one: what a template asks stands at either."""
    return text if len(text) <= longest else f"{text[: longest // 2]} {text[-longest // 2 :]}"


@lru_cache(maxsize=1)
def make_hashers() -> dict[str, Any]:
    """By kind: scikit-learn's vectoriser, which counts (n, 2**BITS) hashed features."""
    from sklearn.feature_extraction.text import HashingVectorizer

    shared: dict[str, Any] = {"n_features": 1 << BITS, "alternate_sign": False, "norm": None, "dtype": np.float32}
    return {
        "words": HashingVectorizer(ngram_range=(1, 2), **shared),
        "pieces": HashingVectorizer(analyzer="char_wb", ngram_range=(2, 4), **shared),
    }


def _count(texts: Sequence[str]) -> dict[str, Any]:
    shortened = [shorten(text) for text in texts]
    return {kind: hasher.transform(shortened).tocsr() for kind, hasher in make_hashers().items()}


def _weigh(counts: Mapping[str, Any], words: Words) -> Any:
    from scipy import sparse

    blocks = []
    for kind in KINDS:
        counted, kept = counts[kind], words.kept[kind]
        # Looked up by what the texts have: to take the kept columns would cost as much as there are.
        places = np.searchsorted(kept, counted.indices)
        known = places < len(kept)
        known[known] = kept[places[known]] == counted.indices[known]
        columns = places[known]
        rows = np.repeat(np.arange(counted.shape[0]), np.diff(counted.indptr))[known]
        weights = (1 + np.log(counted.data[known])) * words.rarity[kind][columns]
        lengths = np.sqrt(np.bincount(rows, weights=weights.astype(np.float64) ** 2, minlength=counted.shape[0]))
        weights = (weights / lengths[rows]).astype(np.float32)
        begins = np.concatenate([[0], np.cumsum(np.bincount(rows, minlength=counted.shape[0]))])
        blocks.append(sparse.csr_matrix((weights, columns, begins), shape=(counted.shape[0], len(kept))))
    return sparse.hstack(blocks, format="csr")
