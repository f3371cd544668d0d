"""Parts logged rows into folds, so that what belongs together stands in one: rows of the same prompt, of nearly the
same prompt, and of one group. No torch. Whoever cross-fits a reward model reads it.

Nearly the same: the sets of three words in a row have a Jaccard similarity of ALIKE or more. Words with a digit, such
as ids, do not count, and neither do threes that many prompts share, which are the template's.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from training.engine.rows.types import Logged, normalise_prompt
from training.engine.spec.methods import FEWEST_OF_A_KIND, FEWEST_REWARDED

ALIKE = 0.8
WORDS = 3
WORD = r"(?<!\w)[^\W\d]+(?!\w)"
SHARED_BY_SHARE, SHARED_BY_MOST, SHARED_BY_FEWEST = 0.1, 100, 5
"""Three words in a row are the template's if more than this share of the rows has them, or more than so many rows; five
rows may always share some."""

Places = NDArray[np.int64]


def can_teach_rewards(rows: Sequence[Logged]) -> bool:
    """Whether a reward model can be learnt from the rows: choices, not items of rankings, with enough rewards that
    differ."""
    if any(row.slate is not None for row in rows):
        return False
    rewards = [row.reward for row in rows if row.reward is not None]
    return len(rewards) >= FEWEST_REWARDED and count_fewer(rewards) >= FEWEST_OF_A_KIND


def count_fewer(rewards: Sequence[float]) -> int:
    """How many of them are above their mean, or how many are not: the fewer."""
    known = np.array(rewards)
    above = int(np.count_nonzero(known > known.mean())) if len(known) else 0
    return min(above, len(known) - above)


@dataclass(frozen=True, slots=True)
class Folds:
    """`of` (n,): the fold of each row, 0 … count − 1. `clusters` (n,): numbers of what belongs together, each of which
    stands in one fold. `by_group`: whether rows of one group belong together."""

    of: Places
    clusters: Places
    count: int
    by_group: bool


def assign_folds(rows: Sequence[Logged], count: int, seed: int) -> Folds | None:
    """Folds of about the same size. Groups are kept together, unless that leaves fewer clusters than folds or one with
    more than half of the rows: then only prompts are. None if there are fewer of these than folds."""
    prompts = [normalise_prompt(row.prompt, row.system) for row in rows]
    alike = [*_same(prompts), *_nearly_same(prompts)]
    groups = [row.group for row in rows]
    for by_group, edges in ((True, [*alike, *_same(groups)]), (False, alike)):
        clusters = _connect(len(rows), edges)
        sizes = np.bincount(clusters)
        if len(sizes) >= count and not (by_group and 2 * sizes.max() > len(rows)):
            return Folds(_deal(clusters, sizes, count, seed), clusters, count, by_group)
    return None


def _deal(clusters: Places, sizes: Places, count: int, seed: int) -> Places:
    """The fold of each row: the largest clusters first, in random order among equals, each to the smallest fold."""
    order = np.random.default_rng(seed).permutation(len(sizes))
    order = order[np.argsort(-sizes[order], kind="stable")]
    fold_of, filled = np.zeros(len(sizes), dtype=np.int64), np.zeros(count, dtype=np.int64)
    for cluster in order.tolist():
        fold_of[cluster] = smallest = int(filled.argmin())
        filled[smallest] += sizes[cluster]
    return np.asarray(fold_of[clusters])


def _same(names: Iterable[str | None]) -> list[tuple[int, int]]:
    """Pairs of a row and the first of the same name."""
    first: dict[str, int] = {}
    return [(first.setdefault(name, here), here) for here, name in enumerate(names) if name is not None]


def _nearly_same(prompts: Sequence[str]) -> list[tuple[int, int]]:
    from sklearn.feature_extraction.text import CountVectorizer

    count = CountVectorizer(ngram_range=(WORDS, WORDS), binary=True, token_pattern=WORD)
    try:
        threes: Any = count.fit_transform(prompts)
    except ValueError:  # no prompt has three words
        return []
    shared_by = np.asarray(threes.sum(axis=0))[0]
    most = max(SHARED_BY_FEWEST, min(SHARED_BY_MOST, SHARED_BY_SHARE * len(prompts)))
    own = threes[:, shared_by <= most].tocsr()
    sizes = np.asarray(own.sum(axis=1))[:, 0]
    pairs = (own @ own.T).tocoo()
    union = sizes[pairs.row] + sizes[pairs.col] - pairs.data
    alike = (pairs.data >= ALIKE * union) & (pairs.row < pairs.col)
    return list(zip(pairs.row[alike].tolist(), pairs.col[alike].tolist(), strict=True))


def _connect(count: int, edges: Sequence[tuple[int, int]]) -> Places:
    """(count,) the number of each row's connected component, from 0."""
    from scipy.sparse import coo_matrix
    from scipy.sparse.csgraph import connected_components

    ends = np.array(edges, dtype=np.int64).reshape(-1, 2)
    graph = coo_matrix((np.ones(len(ends)), (ends[:, 0], ends[:, 1])), shape=(count, count))
    return np.asarray(connected_components(graph, directed=False)[1], dtype=np.int64)
