"""Components of the RETRIEVER agent: whether its text answers the query from the documents that it cites. PURE.

The proxies read `query` and `relevantOpuses` of the state, `generatedContent` and `sourceCitations` of the action. A
citation is an id, or an object with `opusId` and perhaps a `quote`.
"""

from __future__ import annotations

import itertools
from typing import Any

from decisions.rewards.components.component import Component, Parameters
from decisions.rewards.components.facts import Facts, Group
from decisions.rewards.components.payoffs import (
    LARGEST_MEASURE,
    WINDOW_DAYS,
    acceptance,
    between,
    count_bounds,
    paid,
    paid_by_count,
)
from decisions.rewards.components.texts import (
    all_texts,
    content_words,
    cosine,
    covered,
    field,
    items,
    sentences,
    text,
    words,
)
from decisions.rewards.components.written import edits_component

CONTENT: frozenset[Group] = frozenset({"content"})
CALLED = ("id", "name", "title")


def answer(facts: Facts) -> str:
    return text(field(facts.action, "generatedContent"))


def cited(action: Any) -> list[tuple[str, str]]:
    """Id and quote of each citation; what names no document is left out."""
    found = []
    for one in items(field(action, "sourceCitations")):
        at, quote = (one, "") if isinstance(one, str) else (field(one, "opusId"), text(field(one, "quote")))
        if isinstance(at, str):
            found.append((at, quote))
    return found


def documents(facts: Facts) -> dict[str, str]:
    """The offered documents' words by id; empty where only what they are called was offered."""
    found: dict[str, str] = {}
    for one in items(field(facts.state, "relevantOpuses")):
        if isinstance(at := field(one, "id"), str):
            told = [part for name, value in one.items() if name not in CALLED for part in all_texts(value)]
            found[at] = " ".join(words(" ".join(told)))
    return found


def unsupported(facts: Facts) -> int | None:
    """Citations of documents that were not offered, and quotes that do not occur in their document, where its text is
    known. None without citations."""
    there, citations = documents(facts), cited(facts.action)
    if not citations:
        return None
    return sum(
        at not in there or bool(quote and there[at] and " ".join(words(quote)) not in there[at])
        for at, quote in citations
    )


def citations(facts: Facts, parameters: Parameters) -> float | None:
    """m is F1 of the cited ids against those of the correction, where it names some (2 · both / (cited + right)).
    Else the share of the citations that were offered and whose quote, if any, stands in the document; 0 for a text
    without citations although documents were offered."""
    own = cited(facts.action)
    right = {at for at, _ in cited(facts.correction)}
    if right:
        ids = {at for at, _ in own}
        return 2 * len(ids & right) / (len(ids) + len(right))
    wrong = unsupported(facts)
    if wrong is not None:
        return 1.0 - wrong / len(own)
    return 0.0 if answer(facts) and documents(facts) else None


def hallucination(facts: Facts, parameters: Parameters) -> float | None:
    """`per_claim` · n, where n is the number of unsupported claims that was sent as `hallucinations`; else of citations
    that were not offered, and of quotes that their document lacks. Beyond `most_claims` nothing is added, unless that
    is 0."""
    n: float | None = facts.number("hallucinations", low=0.0, high=LARGEST_MEASURE)
    if n is None:
        n = unsupported(facts)
    return None if n is None else paid_by_count(n, float(parameters["per_claim"]), float(parameters["most_claims"]))


def completeness(facts: Facts, parameters: Parameters) -> float | None:
    """m is the share of the query's content words that the text has."""
    return (
        covered(content_words(text(field(facts.state, "query"))), content_words(answer(facts)))
        if answer(facts)
        else None
    )


def coherence(facts: Facts, parameters: Parameters) -> float | None:
    """m is the mean cosine between the counts of content words of neighbouring sentences (Foltz, Kintsch and Landauer
    1998, "The measurement of textual coherence", without their latent space). None for fewer than two sentences."""
    there = sentences(answer(facts))
    close = [found for pair in itertools.pairwise(there) if (found := cosine(*pair)) is not None]
    return min(1.0, sum(close) / len(close)) if close else None


def style(facts: Facts, parameters: Parameters) -> float | None:
    """m = 1 for a mean sentence of at most `easy_words` words, 0 from `hard_words` on, a straight line between (plain
    English advises 15 to 20 words: Cutts 2020, "Oxford guide to plain English")."""
    there = sentences(answer(facts))
    if not there:
        return None
    easy, hard = float(parameters["easy_words"]), float(parameters["hard_words"])
    length = len(words(answer(facts))) / len(there)
    return float(length <= easy) if hard <= easy else min(1.0, max(0.0, (hard - length) / (hard - easy)))


COMPONENTS: tuple[Component, ...] = (
    Component(
        "retriever.acceptance",
        "immediate",
        acceptance,
        "the person took the text",
        -1.0,
        1.0,
        right="confirmed",
        wrong="corrected",
        metrics=("verdict",),
        parameters={"confirmed": 1.0, "corrected": -1.0, "overridden": -1.0, "ignored": 0.0},
        bounds=between("confirmed", "corrected", "overridden", "ignored"),
    ),
    edits_component("retriever.edits", "generatedContent"),
    paid(
        "retriever.citations",
        "immediate",
        "the text cites the right documents",
        0.5,
        weight=0.8,
        metric="citation_quality",
        find=citations,
        reads=frozenset({"content", "correction"}),
        proxy="whether citations exist, not whether they support the claim",
    ),
    Component(
        "retriever.hallucination",
        "delayed",
        hallucination,
        "claims that no document supports",
        -LARGEST_MEASURE,
        0.0,
        weight=2.0,
        metrics=("hallucinations",),
        reads=CONTENT,
        window_days=WINDOW_DAYS["delayed"],
        parameters={"per_claim": -1.0, "most_claims": 0.0},
        bounds=count_bounds("per_claim", "most_claims"),
        proxy="citations and quotes that can be checked, not all claims of the text",
    ),
    paid(
        "retriever.completeness",
        "immediate",
        "the text covers the query",
        0.3,
        weight=0.6,
        metric="completeness",
        find=completeness,
        reads=CONTENT,
        proxy="the query's words in the text, not an answer to all its parts",
    ),
    paid(
        "retriever.coherence",
        "immediate",
        "the sentences follow from each other",
        0.4,
        weight=0.4,
        metric="coherence",
        find=coherence,
        reads=CONTENT,
        proxy="words shared by neighbouring sentences, not a line of thought",
    ),
    paid(
        "retriever.style",
        "immediate",
        "the text is easy to read",
        0.2,
        weight=0.3,
        metric="style",
        find=style,
        reads=CONTENT,
        parameters={"easy_words": 20.0, "hard_words": 40.0},
        proxy="the length of sentences, not good style",
    ),
)
