"""Components of the STORER agent: how well what it stored fits, and whether it will be found. PURE.

Acceptance is the shared `verdict`. The proxies read `completedItem` and `targetSections` of the state; of a section,
its `heading` (or `title`, `name`, `id`) and all its texts. An item put into COLD_STORAGE has no text to value.
"""

from __future__ import annotations

from typing import Any

from decisions.rewards.components.component import Component, Parameters
from decisions.rewards.components.facts import Facts, Group
from decisions.rewards.components.payoffs import paid
from decisions.rewards.components.texts import all_texts, contained, content_words, cosine, covered, field, items, text
from decisions.rewards.components.written import edits_component

CONTENT: frozenset[Group] = frozenset({"content"})


def sections(facts: Facts) -> list[tuple[set[str], str]]:
    """Of each target section what it is called, and its whole text."""
    found = []
    for one in items(field(facts.state, "targetSections")):
        called = {text(one)} if isinstance(one, str) else {text(field(one, at)) for at in SECTION_NAMES}
        found.append((called - {""}, " ".join(all_texts(one))))
    return found


SECTION_NAMES = ("heading", "title", "name", "id")


def stored_text(facts: Facts) -> str:
    return text(field(facts.action, "suggestedContent"))


def coherence(facts: Facts, parameters: Parameters) -> float | None:
    """m is the cosine between the counts of content words of the suggested text and of the section that `location`
    names; of the closest section where it names none (lexical cohesion as in Hearst 1997, "TextTiling")."""
    there, suggested, location = sections(facts), stored_text(facts), text(field(facts.action, "location"))
    named = [whole for called, whole in there if location in called] or [whole for _, whole in there]
    found = [close for whole in named if (close := cosine(suggested, whole)) is not None]
    return max(found, default=None)


def findability(facts: Facts, parameters: Parameters) -> float | None:
    """m is the share of the content words of the item's title (or name), by which one would search for it, that occur
    in the location, the new heading or the suggested text."""
    item: Any = field(facts.state, "completedItem")
    there = " ".join(text(field(facts.action, at)) for at in ("location", "newSectionHeading", "suggestedContent"))
    sought = content_words(text(field(item, "title")) or text(field(item, "name")))
    return covered(sought, content_words(there)) if stored_text(facts) else None


def duplicate(facts: Facts, parameters: Parameters) -> bool | None:
    """Whether at least `duplicate_share` of the suggested text's runs of `run_words` words stand in the sections
    already. With the method REPLACE the old text goes, and nothing is there twice."""
    there, length = sections(facts), max(1, int(parameters["run_words"]))
    if field(facts.action, "method") == "REPLACE" and stored_text(facts):
        return False
    share = contained(stored_text(facts), "\n".join(whole for _, whole in there), length=length) if there else None
    return None if share is None else share >= float(parameters["duplicate_share"])


COMPONENTS: tuple[Component, ...] = (
    edits_component("storer.edits", "suggestedContent"),
    paid(
        "storer.coherence",
        "immediate",
        "how well the text fits its section",
        0.5,
        weight=0.7,
        metric="coherence",
        find=coherence,
        reads=CONTENT,
        proxy="words shared with the section, not a text that reads as one",
    ),
    paid(
        "storer.findability",
        "strategic",
        "how easily it will be found again",
        0.3,
        weight=0.6,
        metric="findability",
        find=findability,
        reads=CONTENT,
        proxy="the title's words in what was stored, not a search that succeeds",
    ),
    paid(
        "storer.duplication",
        "delayed",
        "the document already contained it",
        -0.5,
        weight=0.4,
        metric="duplicate",
        find=duplicate,
        yes_or_no=True,
        reads=CONTENT,
        parameters={"duplicate_share": 0.5, "run_words": 3.0},
        proxy="the same runs of words, not the same content",
    ),
)
