"""A world of texts that can be learnt: each class has words of its own, among words that all of them use."""

from __future__ import annotations

import random
from collections.abc import Sequence

SYLLABLES = "ba ke lo mi nu ra si to vu za pe du fi go hy jo".split()  # noqa: SIM905
OPTIONS = ["class a", "class b", "class c", "class d", "class e"]
OWN, COMMON = 4, 4


def make_texts(count: int, seed: int) -> list[tuple[str, str]]:
    """Texts, each with its class; of every seed in the same words."""
    words = random.Random(1)
    own = {option: [_word(words) for _ in range(25)] for option in OPTIONS}
    common = [_word(words) for _ in range(200)]
    rng, made = random.Random(seed), []
    for _ in range(count):
        option = rng.choice(OPTIONS)
        text = [*rng.sample(own[option], OWN), *rng.sample(common, COMMON)]
        rng.shuffle(text)
        made.append((" ".join(text), option))
    return made


def act(texts: Sequence[tuple[str, str]], seed: int, right: float = 0.55) -> list[str]:
    """What an app's own rules did: right that often, and else anything."""
    rng = random.Random(seed)
    return [option if rng.random() < right else rng.choice(OPTIONS) for _, option in texts]


def _word(rng: random.Random) -> str:
    return "".join(rng.choice(SYLLABLES) for _ in range(3))
