"""How many labels an active queue and a random one need until the auto-labeler is right often enough, on CLINC150.

    python -m benchmarks.active_labelling [--data DIR] [--quick]

For each of five seeds (one with --quick), 4,000 queries wait and 2,000 others are held out. Each queue begins with the
same 100 random labels and asks for 50 at a time in the order of the product's own ranking. The auto-labeler's
classifier learns from all labels, and chooses a domain for each held-out query; its doubt ranks what the active queue
asks next. A queue is done when that accuracy reaches TARGET. A third queue asks in the order of diversity, without a
bound. Prints a row per seed and one JSON object as the last line; exits 1 when an active queue needs more than 0.8 of
random's labels.
"""

from __future__ import annotations

import sys
import time
import uuid
from collections.abc import Mapping, Sequence

from benchmarks.suggestions import Queries, read_seeds
from decisions.labelling.classifier import learn
from decisions.labelling.ranking import Candidate, rank_candidates
from tools.report import Report

WAITING, HELD_OUT = 4_000, 2_000
FIRST, BATCH, MOST = 100, 50, 2_000
TARGET = 0.90
SHARE = 0.8
ACTIVE = "uncertainty"


def count_labels(strategy: str, waiting: Queries, held_out: Queries, seed: int) -> int:
    """Labels after which the accuracy on `held_out` is TARGET; MOST where it is not reached."""
    left = {uuid.UUID(int=number): query for number, query in enumerate(waiting)}
    labelled = [left.pop(one) for one in _order("random", left, seed)[:FIRST]]
    texts, truth = [text for text, _ in held_out], [domain for _, domain in held_out]
    order = _order(strategy, left, seed)
    while True:
        classifier = learn([text for text, _ in labelled], [domain for _, domain in labelled], seed=seed)
        right = sum(said == domain for said, domain in zip(classifier.choose(texts), truth, strict=True))
        if right >= TARGET * len(truth) or len(labelled) >= MOST:
            return len(labelled)
        if strategy == ACTIVE:  # each time that it has learnt; the other orders do not know of labels
            order = _order(strategy, left, seed, classifier.margins([text for text, _ in left.values()]))
        labelled += [left.pop(one) for one in order[:BATCH]]
        del order[:BATCH]


def _order(
    strategy: str, left: Mapping[uuid.UUID, tuple[str, str]], seed: int, margins: Sequence[float] | None = None
) -> list[uuid.UUID]:
    """What waits in the order in which a queue asks. The model that decided says nothing of its confidence."""
    salt = uuid.UUID(int=seed)
    doubts: Sequence[float | None] = [None] * len(left) if margins is None else margins
    candidates = [
        Candidate(one, None, (salt, ""), text=text, margin=margin)
        for (one, (text, _)), margin in zip(left.items(), doubts, strict=True)
    ]
    ranks = rank_candidates(strategy, candidates, labelled={}, salt=salt)
    return [one for _, one in sorted(zip(ranks, left, strict=True))]


def main() -> int:
    report = Report("active labelling")
    for seed, waiting, held_out in read_seeds(__doc__, WAITING, HELD_OUT):
        began = time.process_time()
        needed = {order: count_labels(order, waiting, held_out, seed) for order in ("random", ACTIVE, "diversity")}
        share = needed[ACTIVE] / needed["random"]
        report.add(
            f"seed {seed}: labels until {TARGET:.0%} are right, {ACTIVE} / random",
            bound=f"<= {SHARE}",
            figure=f"{share:.2f} ({needed[ACTIVE]} / {needed['random']}; diversity {needed['diversity']};"
            f" {time.process_time() - began:.0f} CPU s)",
            passed=share <= SHARE,
        )
    return report.finish()


if __name__ == "__main__":
    sys.exit(main())
