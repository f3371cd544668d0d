"""How alike texts are, by their words. PURE; queues that want diverse decisions and the search for similar ones use it.

A text is a vector of its words. Each weighs (1 + ln n) · (1 + ln((1 + N) / (1 + m))), where the text has the word n
times and m of all N texts have it (tf-idf; Salton and Buckley 1988, "Term-weighting approaches in automatic text
retrieval"). Likeness is the cosine of two vectors, from 0 (no word in common) to 1. scikit-learn's vectorizer gives the
same numbers and is not used here: a request would load it, and some hundred texts need no matrix.
"""

from __future__ import annotations

import math
import re
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

from decisions.agents.prompts import as_text
from models_registry.backends.chat_reading import ChatFault, has_messages, split_state

WORD = re.compile(r"\w+")
LONGEST_TEXT = 4_000


def text_of(state: Any) -> str:
    """The texts and numbers in a state, without the names of its fields; the auto-labeler reads a state so, too. Of a
    chat, what was said in it, the last of it if it is long."""
    if isinstance(state, dict):
        if has_messages(state):
            with suppress(ChatFault):
                beside, chat = split_state(state)
                return f"{chat[-LONGEST_TEXT:]} {text_of(beside)}".strip()[:LONGEST_TEXT]
        return " ".join(text_of(value) for value in state.values())[:LONGEST_TEXT]
    if isinstance(state, list):
        return " ".join(text_of(value) for value in state)[:LONGEST_TEXT]
    return as_text(state)[:LONGEST_TEXT] if state is not None else ""


class Wording:
    """Texts as vectors of length 1, with an index from words to texts. All texts without a word are alike."""

    def __init__(self, texts: Sequence[str]) -> None:
        counted = [Counter(WORD.findall(text.lower()) or [""]) for text in texts]
        self.having = Counter(word for words in counted for word in words)
        rarity = {word: 1 + math.log((1 + len(texts)) / (1 + count)) for word, count in self.having.items()}
        self.vectors = [_scaled({word: (1 + math.log(n)) * rarity[word] for word, n in one.items()}) for one in counted]
        self._places: dict[str, list[tuple[int, float]]] = defaultdict(list)
        for place, vector in enumerate(self.vectors):
            for word, weight in vector.items():
                self._places[word].append((place, weight))

    def compare(self, place: int) -> list[float]:
        """How alike each of the texts is to the one at `place`, 0 to 1."""
        likeness = [0.0] * len(self.vectors)
        for word, weight in self.vectors[place].items():
            for other, theirs in self._places[word]:
                likeness[other] += weight * theirs
        return [min(1.0, one) for one in likeness]

    def find_rare(self, place: int, count: int) -> list[str]:
        """The words of the text at `place` that the fewest texts have; of equally rare ones the longest."""
        return sorted(self.vectors[place], key=lambda word: (self.having[word], -len(word), word))[:count]


def _scaled(vector: Mapping[str, float]) -> dict[str, float]:
    length = math.sqrt(sum(weight * weight for weight in vector.values()))
    return {word: weight / length for word, weight in vector.items()}
