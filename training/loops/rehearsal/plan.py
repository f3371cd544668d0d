"""The plan of a rehearsal: its settings, and which rows of the file play which part. PURE."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import asdict, dataclass, fields
from itertools import accumulate
from typing import Any, Self

from training.loops.rehearsal.source import Source
from training.rows.labelled_texts import Example

MOST_DECISIONS = 10_000
HELDOUT_SHARE, MOST_HELDOUT = 0.15, 3_000
GATE_SHARE, MOST_GATE = 0.10, 2_000
FEWEST_A_ROUND = 10
LAST_TO_FIRST = 8.0


@dataclass(frozen=True, slots=True)
class Plan:
    """What was asked for.

    `seed_share`: share of the rows whose labels warm the base, in (0, 0.5]. `decisions`: how many are made, None for
    as many as the file allows up to 10,000. `rounds`: times of training, 1 to 20. `seeds`: how often all of it is done,
    with other splits, weights and draws. `noise`: chance that feedback says the opposite of the truth, in [0, 0.5).
    `late`: share of the feedback that arrives a round late; `missing`: share that never arrives.
    `labels`: so many decisions get a reviewer's label too, of each round those that were rejected first.
    `temperature` and `epsilon`: how the acting policy explores. `base`: `tiny`, a folder or a hub id, "" for the
    instance's own; with `lora` the rounds train an adapter on it.
    """

    seed_share: float = 0.05
    decisions: int | None = None
    rounds: int = 4
    seeds: int = 1
    noise: float = 0.0
    late: float = 0.0
    missing: float = 0.0
    temperature: float = 0.25
    epsilon: float = 0.05
    labels: int = 0
    base: str = ""
    lora: bool = False

    @classmethod
    def from_plain(cls, plain: dict[str, Any]) -> Self:
        return cls(**{field.name: plain[field.name] for field in fields(cls) if field.name in plain})

    def as_plain(self) -> dict[str, Any]:
        """Without a base and labels that were not asked for: plans that are older than the choice stay the same."""
        plain = asdict(self)
        return {name: value for name, value in plain.items() if name not in ("labels", "base", "lora") or value}


class PlanError(ValueError):
    """`faults` are whole sentences, all that were found."""

    def __init__(self, faults: list[str]) -> None:
        super().__init__("\n".join(faults))
        self.faults = tuple(faults)


@dataclass(frozen=True, slots=True)
class Split:
    """One seed's division of the rows; no row stands in two parts.

    `seed_rows` warm the base, `stream` is decided in order, `gate` is decided by the last version but one, for the
    off-policy estimate, `heldout` is only ever measured on.
    """

    seed_rows: tuple[Example, ...]
    stream: tuple[Example, ...]
    gate: tuple[Example, ...]
    heldout: tuple[Example, ...]

    def round_ends(self, rounds: int) -> list[int]:
        """Up to which decision each round goes: each is larger than the one before by the same factor, the last eight
        times as large as the first. A model that is soon better makes most of them (docs/results.md)."""
        return round_ends(len(self.stream), rounds)


def round_ends(decisions: int, rounds: int) -> list[int]:
    sizes = [LAST_TO_FIRST ** (number / max(1, rounds - 1)) for number in range(rounds)]
    return [round(decisions * end / sum(sizes)) for end in accumulate(sizes)]


def check_plan(plan: Plan, source: Source) -> None:
    """Raises PlanError with every fault."""
    faults = list(range_faults(plan))
    if not faults:
        allowed = _sizes(plan, source).stream
        wanted = plan.decisions if plan.decisions is not None else min(allowed, MOST_DECISIONS)
        if wanted > allowed:
            faults.append(
                f"decisions: {wanted} requested, but after the seed labels and held-out rows, {source.name} "
                f"has {max(0, allowed)}"
            )
        elif plan.labels > wanted:
            faults.append(f"labels: {plan.labels} requested of {wanted} decisions")
        elif (first := round_ends(wanted, plan.rounds)[0]) < FEWEST_A_ROUND:
            faults.append(
                f"rounds: {plan.rounds} rounds of {wanted} decisions leave {first} for the first; "
                f"{FEWEST_A_ROUND} are needed"
            )
    if faults:
        raise PlanError(faults)


def split_rows(source: Source, plan: Plan, seed: int) -> Split:
    """A pure function of its arguments. Every label is among the seed rows. Raises PlanError."""
    check_plan(plan, source)
    rng = random.Random(f"{seed}/split")  # noqa: S311 - a split, not a secret
    rows = rng.sample(source.examples, len(source.examples))
    firsts: dict[str, Example] = {}
    for example in rows:
        firsts.setdefault(example.label, example)
    chosen = {example.id for example in firsts.values()}
    rest = [example for example in rows if example.id not in chosen]
    sizes = _sizes(plan, source)
    decisions = plan.decisions if plan.decisions is not None else min(sizes.stream, MOST_DECISIONS)
    ends = [sizes.heldout, sizes.heldout + sizes.gate]
    ends.append(ends[-1] + sizes.seed_rows - len(firsts))
    ends.append(ends[-1] + decisions)
    heldout, gate, more, stream = (rest[at:to] for at, to in zip([0, *ends], ends, strict=False))
    seed_rows = rng.sample([*firsts.values(), *more], len(firsts) + len(more))
    return Split(tuple(seed_rows), tuple(stream), tuple(gate), tuple(heldout))


@dataclass(frozen=True, slots=True)
class _Sizes:
    seed_rows: int
    gate: int
    heldout: int
    stream: int


def _sizes(plan: Plan, source: Source) -> _Sizes:
    rows = len(source.examples)
    seed_rows = max(len(source.labels), round(plan.seed_share * rows))
    heldout = min(MOST_HELDOUT, round(HELDOUT_SHARE * rows))
    gate = min(MOST_GATE, round(GATE_SHARE * rows))
    return _Sizes(seed_rows, gate, heldout, rows - seed_rows - gate - heldout)


def range_faults(plan: Plan) -> Iterator[str]:
    """What is wrong whatever the file holds, a sentence each; the first word names the setting."""
    if not 0 < plan.seed_share <= 0.5:
        yield f"seed-share: {plan.seed_share} is out of range; enter a number above 0, up to 0.5"
    if plan.decisions is not None and plan.decisions < 1:
        yield f"decisions: {plan.decisions} is out of range; enter 1 or more"
    if plan.labels < 0:
        yield f"labels: {plan.labels} is out of range; enter 0 or more"
    if not 1 <= plan.rounds <= 20:
        yield f"rounds: {plan.rounds} is out of range; enter 1 to 20"
    if not 1 <= plan.seeds <= 20:
        yield f"seeds: {plan.seeds} is out of range; enter 1 to 20"
    if not 0 <= plan.noise < 0.5:
        yield f"noise: {plan.noise} is out of range; enter a number from 0 to below 0.5"
    if not 0 <= plan.late <= 1:
        yield f"late: {plan.late} is out of range; enter a number from 0 to 1"
    if not 0 <= plan.missing < 1:
        yield f"missing: {plan.missing} is out of range; enter a number from 0 to below 1"
    if not 0.05 <= plan.temperature <= 20:
        yield f"temperature: {plan.temperature} is out of range; enter a number from 0.05 to 20"
    if not 0 <= plan.epsilon <= 1:
        yield f"epsilon: {plan.epsilon} is out of range; enter a number from 0 to 1"
