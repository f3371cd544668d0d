"""A short text in four steps: find an idea, outline it, write it sentence by sentence, edit it. No torch.

A program checks what it can: `coherence`, whether each sentence is about the topic and in its place, and `grammar`, by
a few rules (a capital at the start, a full stop at the end, no doubled word, a or an as the next letter asks). Whether
a text is any good, `creativity`, only a judge can say, so it has no value unless the run has a calibrated one
(docs/judges.md). Paid once each: 0.5 for an idea on the topic, 0.5 for the outline in order, 1 for each of three
sentences that is coherent and without a fault, and 1 for ending with all of them so.
"""

from __future__ import annotations

import random
import re
from itertools import pairwise
from typing import ClassVar

from training.engine.environments.protocol import BaseEnvironment, Checkpoint
from training.engine.environments.tasks import Split, Task

IDEA, OUTLINE, SENTENCE, FINISHED = 0.5, 0.5, 1.0, 1.0
PARTS = ("opening", "middle", "ending")
TOPICS = ("fox", "lighthouse", "orchard", "engine", "island", "violin", "umbrella", "tram", "owl", "garden", "ferry")
SENTENCES = {
    "opening": (
        "There was {a} {topic} by the sea.",
        "Everybody in town knew {a} {topic}.",
        "It began with {a} {topic}.",
    ),
    "middle": ("One night the {topic} was gone.", "Then a storm came to the {topic}.", "A child found the {topic}."),
    "ending": ("At last the {topic} was safe.", "In the end the {topic} stayed.", "So the {topic} came home."),
}


class Writing(BaseEnvironment):
    """One text of three sentences."""

    name: ClassVar[str] = "writing"
    does: ClassVar[str] = "A text of three sentences on a topic: idea, outline, sentences, editing."
    max_steps: ClassVar[int] = 9
    judged: ClassVar[str] = "creativity"
    most_reward: ClassVar[float] = IDEA + OUTLINE + 3 * SENTENCE + FINISHED

    idea: str
    outline: str
    text: dict[str, str]
    paid: set[str]
    finished: bool

    @classmethod
    def draw_task(cls, number: int, split: Split) -> Task:
        """Each topic and set of sentences is of one split only."""
        rng = random.Random(f"writing/{split}/{number}")  # noqa: S311 - reproducible
        while True:
            topic, other = rng.sample(TOPICS, 2)
            forms = [rng.randrange(len(SENTENCES[part])) for part in PARTS]
            if ((TOPICS.index(topic) + sum(forms)) % 4 == 0) == (split == "heldout"):
                break
        level = number % 3 + 1
        return Task(
            id=f"writing-{split}-{number}",
            environment=cls.name,
            text=f"Write three sentences about {article(topic)} {topic}",
            facts={"topic": topic, "other": other, "forms": forms, "flaws": level},
            domain="writing",
            template=f"{level} flawed of each part",
            level=level,
        )

    def begin(self) -> None:
        facts = self.task.facts
        try:
            topic, other, flaws = str(facts["topic"]), str(facts["other"]), int(facts["flaws"])
            forms = [SENTENCES[part][form] for part, form in zip(PARTS, facts["forms"], strict=True)]
        except (KeyError, TypeError, ValueError, IndexError) as error:
            raise ValueError(f"task {self.task.id}: facts: topic, other, flaws and three forms") from error
        self._right = {part: fill(form, topic) for part, form in zip(PARTS, forms, strict=True)}
        self._wrong = {
            part: [fill(form, other), *(spoil(self._right[part], self.random) for _ in range(flaws))]
            for part, form in zip(PARTS, forms, strict=True)
        }
        self.idea, self.outline, self.text, self.paid, self.finished = "", "", {}, set(), False

    def observe(self) -> str:
        done = " ".join(f"[{part}] {self.text[part]}" for part in PARTS if part in self.text)
        return (
            f"{self.task.text}. Idea: {self.idea or 'none'}. Outline: {self.outline or 'none'}. Text: {done or 'none'}"
        )

    def list_actions(self) -> tuple[str, ...]:
        facts, offered = self.task.facts, ["finish"]
        if not self.idea:
            offered += [f"brainstorm {facts['topic']}", f"brainstorm {facts['other']}"]
        if not self.outline:
            offered += [f"outline {' '.join(PARTS)}", f"outline {' '.join(reversed(PARTS))}"]
        part = next((part for part in PARTS if part not in self.text), None)
        if part is not None:
            offered += [f"write {sentence}" for sentence in {self._right[part], *self._wrong[part]}]
        offered += [f"edit {part}" for part in PARTS if part in self.text]
        self.random.shuffle(offered := sorted(offered))
        return tuple(offered)

    def act(self, action: str) -> float:
        word, _, rest = action.partition(" ")
        if word == "brainstorm":
            self.idea = rest
            return self._pay(word, IDEA if rest == self.task.facts["topic"] else 0.0)
        if word == "outline":
            self.outline = rest
            return self._pay(word, OUTLINE if rest == " ".join(PARTS) else 0.0)
        if word == "write":
            part = next(part for part in PARTS if part not in self.text)
            self.text[part] = rest
            return self._pay(part, SENTENCE if self._is_good(part) else 0.0)
        if word == "edit":
            del self.text[rest]  # to be written again; later parts stay
            return 0.0
        self.finished = self.done = True
        return FINISHED if self.solved else 0.0

    def checkpoints(self) -> list[Checkpoint]:
        return [
            *(Checkpoint(f"the {part} is on the topic and without a fault", 1, self._is_good(part)) for part in PARTS),
            Checkpoint("the text is finished", 1, self.finished),
        ]

    def components(self) -> dict[str, float | None]:
        topic = str(self.task.facts["topic"])
        about = [topic in self.text.get(part, "") for part in PARTS]
        faultless = [bool(self.text.get(part)) and not find_faults(self.text[part]) for part in PARTS]
        return {"coherence": sum(about) / 3, "grammar": sum(faultless) / 3, "creativity": None}

    def show_work(self) -> str:
        return " ".join(self.text[part] for part in PARTS if part in self.text)

    def find_expert_action(self) -> str | None:
        if not self.idea:
            return f"brainstorm {self.task.facts['topic']}"
        if not self.outline:
            return f"outline {' '.join(PARTS)}"
        bad = next((part for part in PARTS if part in self.text and not self._is_good(part)), None)
        if bad is not None:
            return f"edit {bad}"
        part = next((part for part in PARTS if part not in self.text), None)
        return f"write {self._right[part]}" if part is not None else "finish"

    def _is_good(self, part: str) -> bool:
        sentence = self.text.get(part, "")
        return sentence == self._right[part] and not find_faults(sentence)

    def _pay(self, kind: str, worth: float) -> float:
        if kind in self.paid or not worth:
            return 0.0
        self.paid.add(kind)
        return worth


def article(noun: str) -> str:
    return "an" if noun[0] in "aeiou" else "a"


def fill(form: str, topic: str) -> str:
    return form.format(a=article(topic), topic=topic)


def spoil(sentence: str, rng: random.Random) -> str:
    """The sentence with a fault that `find_faults` finds."""
    words = sentence.split()
    flawed = [sentence[0].lower() + sentence[1:], sentence.removesuffix(".")]
    place = rng.randrange(1, len(words) - 1)
    flawed.append(" ".join([*words[:place], words[place], *words[place:]]))
    return rng.choice(flawed)


def find_faults(sentence: str) -> list[str]:
    """What a few rules of grammar say is wrong."""
    words = re.findall(r"[A-Za-z]+", sentence)
    faults = []
    if not sentence[:1].isupper():
        faults.append("no capital at the start")
    if not sentence.endswith((".", "!", "?")):
        faults.append("no full stop at the end")
    faults += [f"{one} twice" for one, after in pairwise(words) if one.lower() == after.lower()]
    for one, after in pairwise(words):
        if one.lower() in {"a", "an"} and one.lower() != article(after.lower()):
            faults.append(f"{one} {after}")
    return faults
