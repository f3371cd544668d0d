"""Measures of texts that components use as proxies: words, sentences, overlap, edits. PURE.

All of them are plain counting, the same in every run, and take any JSON value where one says so.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

from rapidfuzz.distance import Levenshtein

_WORD = re.compile(r"\w+")
_SENTENCE_END = re.compile(r"(?<=[.!?])\s+|\n+")
_FUNCTION_WORDS = frozenset(
    """
    about after all also and any are been before but can could did does for from had has have her him his how into
    its just may might more most not one our out over shall she should some such than that the their them then
    there these they this those too under very was were what when where which who whose why will with would you
    your
    """.split()  # noqa: SIM905 - a list of words to read
)


def field(value: Any, name: str) -> Any:
    """The field of a JSON object; None where there is none, or no object."""
    return value.get(name) if isinstance(value, Mapping) else None


def items(value: Any) -> Sequence[Any]:
    """A JSON array; empty where it is none."""
    return value if isinstance(value, (list, tuple)) else ()


def text(value: Any) -> str:
    """A text without surrounding space; empty where it is none."""
    return value.strip() if isinstance(value, str) else ""


def all_texts(value: Any) -> Iterator[str]:
    """Every text inside a JSON value, names of fields left out, in no particular order."""
    waiting = [value]
    while waiting:
        one = waiting.pop()
        if isinstance(one, str):
            yield one
        elif isinstance(one, Mapping):
            waiting.extend(one.values())
        elif isinstance(one, (list, tuple)):
            waiting.extend(one)


def words(value: str) -> list[str]:
    return _WORD.findall(value.casefold())


def content_words(value: str) -> set[str]:
    """Words of three letters and more, without English function words."""
    return set(_content(value))


def _content(value: str) -> list[str]:
    return [word for word in words(value) if len(word) > 2 and word not in _FUNCTION_WORDS]


def sentences(value: str) -> list[str]:
    """Sentences with at least one word; a new line ends one as well."""
    return [one for one in _SENTENCE_END.split(value) if _WORD.search(one)]


def covered(wanted: Collection[str], there: Collection[str]) -> float | None:
    """The share of the wanted words that are there; None where none is wanted."""
    return len(set(wanted) & set(there)) / len(set(wanted)) if wanted else None


def cosine(one: str, other: str) -> float | None:
    """Cosine of the two texts' counts of content words, in [0, 1]; None where one has none."""
    first, second = (Counter(_content(part)) for part in (one, other))
    if not first or not second:
        return None
    product = sum(count * second[word] for word, count in first.items())
    squares = [sum(count * count for count in each.values()) for each in (first, second)]
    return min(1.0, product / math.sqrt(squares[0] * squares[1]))


def contained(part: str, whole: str, *, length: int) -> float | None:
    """The share of the runs of `length` words in `part` that occur in `whole`, in [0, 1] (containment of shingles:
    Broder 1997, "On the resemblance and containment of documents"). None where `part` has fewer words."""
    runs = _runs(part, length)
    return len(runs & _runs(whole, length)) / len(runs) if runs else None


def _runs(value: str, length: int) -> set[tuple[str, ...]]:
    found = words(value)
    return set(zip(*(found[start:] for start in range(length)), strict=False))


def changed_share(before: str, after: str) -> float:
    """Words inserted, removed or replaced over the words of the longer text, in [0, 1] (Levenshtein distance of the two
    sequences of words, upper and lower case apart)."""
    return Levenshtein.normalized_distance(before.split(), after.split())
