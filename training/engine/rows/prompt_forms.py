"""How prompts begin: what a model was asked in while it learnt, so that rows that ask otherwise are refused.

Numbers on such rows say nothing: a model that learnt from an agent's template answers a state as plain JSON at random.
The engine writes the forms beside the weights; whatever measures a model compares them with those of the rows. Neither
torch nor Django.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path

import msgspec

from training.engine.rows.types import Prompt

PROMPTS_FILE = "prompts.json"
HEAD = 8
"""Prompts that share so many first characters are of one form: as many as the shortest templates begin with."""
FEWEST = 20
"""Fewer prompts tell nothing of their form."""
COMMON, TIMES = 0.1, 5
"""The share of the prompts, and how many, that begin as a template makes them begin."""
COVERED = 0.95
"""The share of the prompts with a common beginning from which on all are of a template."""
KEPT, LONGEST = 500, 60


class PromptForm(msgspec.Struct, frozen=True):
    """How the prompts of one training, or of one file, begin. `heads`: digests of their first characters, with how
    many prompts, the most frequent ones; no text that only a few wrote. `begins`: what those of the most frequent head
    share, "" where they are of no template."""

    rows: int
    heads: dict[str, int]
    begins: str = ""

    @property
    def common(self) -> frozenset[str]:
        least = max(TIMES, COMMON * self.rows)
        return frozenset(head for head, count in self.heads.items() if count >= least)

    @property
    def is_fixed(self) -> bool:
        """Whether templates made the prompts, as far as their beginnings tell."""
        return self.rows >= FEWEST and sum(self.heads[head] for head in self.common) >= COVERED * self.rows

    def accepts(self, asked: PromptForm) -> bool:
        """Whether prompts of that form may be of this one. Where too little is known, they may."""
        if self.is_fixed:
            return 2 * sum(count for head, count in asked.heads.items() if head in self.common) >= asked.rows
        unknown = self.rows < FEWEST or len(self.heads) >= KEPT
        return unknown or not asked.is_fixed or any(head in self.heads for head in asked.common)


def form_of(prompts: Iterable[Prompt]) -> PromptForm | None:
    """None of no prompts."""
    counts: Counter[str] = Counter()
    shared: dict[str, str] = {}
    for prompt in prompts:
        head = _digest(prompt)
        counts[head] += 1
        text = asked_in(prompt)
        shared[head] = _find_shared(shared.get(head, text), text)[:LONGEST]
    if not counts:
        return None
    form = PromptForm(sum(counts.values()), dict(counts.most_common(KEPT)))
    first = next(iter(form.heads))
    return msgspec.structs.replace(form, begins=shared[first]) if first in form.common else form


def asked_in(prompt: Prompt) -> str:
    """The prompt's own text; of a chat, what the user says last."""
    said = [message["content"] for message in prompt.messages if message["role"] == "user"]
    return said[-1] if said else prompt.text


def is_told(prompt: Prompt) -> bool:
    """Whether there is a system prompt."""
    return bool(prompt.system) or any(message["role"] == "system" for message in prompt.messages[:1])


def _find_shared(one: str, other: str) -> str:
    """What both begin with."""
    return one[: next((place for place, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), len(other))]


def _digest(prompt: Prompt) -> str:
    """With whether there is a system prompt: under one, a model was asked otherwise than without."""
    told = f"{is_told(prompt)}/{asked_in(prompt)[:HEAD]}"
    return hashlib.blake2b(told.encode(errors="surrogatepass"), digest_size=6).hexdigest()


def find_mismatch(learnt: Sequence[PromptForm], asked: PromptForm | None) -> str | None:
    """Why rows of the form `asked` say nothing of a model that learnt from prompts of these forms, and what would be
    right; None where they do, or nobody knows."""
    if asked is None or not learnt or any(form.accepts(asked) for form in learnt):
        return None
    return (
        f"the prompts {_describe(asked)}, but the model learnt from prompts that {_describe(learnt[0])}; give rows of "
        "the same prompts, such as a dataset of the agent's decisions or a new export of them"
    )


def _describe(form: PromptForm) -> str:
    return f"begin with {form.begins!r}" if form.begins else "begin in many ways"


def read_forms(*folders: Path | str | None) -> list[PromptForm]:
    """Those of the models and adapters in these folders; nothing of one that does not tell."""
    found: list[PromptForm] = []
    for folder in folders:
        path = Path(folder) / PROMPTS_FILE if folder is not None else None
        if path is not None and path.is_file():
            found += msgspec.json.decode(path.read_bytes(), type=list[PromptForm])
    return found


def write_forms(folder: Path, forms: Sequence[PromptForm]) -> None:
    """Beside the weights: the forms of what they learnt from last first."""
    if forms:
        (folder / PROMPTS_FILE).write_bytes(msgspec.json.encode(forms))
