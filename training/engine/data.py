"""Rows of the run's data files: their types, reading them, and their order in training. No torch.

Labelled rows hold the right answer; logged rows hold the action, its probability and its reward. All faults are
reported together, with file, line and field.
"""

from __future__ import annotations

import math
import random
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Protocol, TypeVar

import msgspec

from training.engine.spec import LEARNS_FROM_LABELS, LEARNS_FROM_LOGS, LEARNS_ONLINE, RunSpec

FAULTS_SHOWN = 20
ROUNDING = 1e-3
"""How far probabilities that were written down with few digits may be from adding up to 1."""


class Labelled(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A prompt whose right option is known. `group` names the cluster it belongs to, for honest intervals.

    Rows that people's labels made say where they come from: `source` is label, human or suggestion, `label_id` the
    label's, `verdict` what was said; a suggestion has the auto-labeler's `confidence`, and as `classifier` when that
    was trained. `completion` repeats the answer, for other trainers. No method of ours reads these.
    """

    id: str
    prompt: str
    options: tuple[str, ...]
    answer: str
    group: str | None = None
    completion: str | None = None
    source: str | None = None
    label_id: str | None = None
    verdict: str | None = None
    confidence: float | None = None
    classifier: str | None = None

    def faults(self) -> Iterator[str]:
        yield from _option_faults(self.options)
        if self.answer not in self.options:
            yield f"answer: {self.answer!r} is not among the options"


class Logged(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A decision that was taken. `propensity` = P(action | prompt) then; `reward` in [0, 1], null while unknown.

    `right` in [0, 1]: what is known of whether the action was right, where the reward spec declares what says so. `raw`
    is the reward before it was mapped to [0, 1]; no method of ours reads it.

    `probabilities`, one per option: what the model that decided thought of each, before temperature and ε. It had not
    seen this row, which makes them the best first guess of what was right.
    """

    id: str
    prompt: str
    options: tuple[str, ...]
    action: str
    propensity: float
    reward: float | None = None
    group: str | None = None
    probabilities: tuple[float, ...] | None = None
    right: float | None = None
    raw: float | None = None

    def faults(self) -> Iterator[str]:
        yield from _option_faults(self.options)
        if self.action not in self.options:
            yield f"action: {self.action!r} is not among the options"
        if not 0.0 < self.propensity <= 1.0:
            yield f"propensity: {self.propensity} must be above 0, up to 1"
        if self.reward is not None and not 0.0 <= self.reward <= 1.0:
            yield f"reward: {self.reward} must be from 0 to 1"
        if self.right is not None and not 0.0 <= self.right <= 1.0:
            yield f"right: {self.right} must be from 0 to 1"
        if self.probabilities is not None:
            yield from _probability_faults(self.probabilities, len(self.options))


def right_or_wrong(logged: Sequence[Logged]) -> list[tuple[Logged, float]]:
    """The rows that say whether their action was right, each with how right, in [0, 1]. Where no row declares it, the
    reward says so."""
    declared = any(row.right is not None for row in logged)
    told = ((row, row.right if declared else row.reward) for row in logged)
    return [(row, right) for row, right in told if right is not None]


class Row(Protocol):
    """What scoring needs of a row."""

    @property
    def prompt(self) -> str: ...
    @property
    def options(self) -> tuple[str, ...]: ...


R = TypeVar("R", Labelled, Logged)


class DataError(ValueError):
    """The rows are not what the spec says. `faults` lists each as 'file:line: field: what is wrong'."""

    def __init__(self, faults: list[str]) -> None:
        super().__init__("; ".join(faults))
        self.faults = faults


class RunData(msgspec.Struct, frozen=True):
    """Everything a run reads. Which lists are filled depends on its method."""

    labelled: list[Labelled] = []
    logged: list[Logged] = []
    replay: list[Labelled] = []
    heldout: list[Labelled] = []


def read_rows(path: Path, kind: type[R]) -> list[R]:
    """One row a line; blank lines are skipped. Raises DataError with up to 20 faults."""
    decoder = msgspec.json.Decoder(kind)
    rows: list[R] = []
    faults: list[str] = []
    options: dict[tuple[str, ...], tuple[str, ...]] = {}
    try:
        content = path.read_bytes()
    except OSError as error:
        raise DataError([f"{path.name}: {error.strerror or error}"]) from error
    for number, line in enumerate(content.splitlines(), start=1):
        if not line.strip():
            continue
        try:
            row = decoder.decode(line)
        except (msgspec.DecodeError, RecursionError) as error:
            faults.append(f"{path.name}:{number}: {error}")
            continue
        faults.extend(f"{path.name}:{number}: {fault}" for fault in row.faults())
        # Most rows share one set of options; one tuple for all of them saves memory and makes grouping cheap.
        rows.append(msgspec.structs.replace(row, options=options.setdefault(row.options, row.options)))
    if faults:
        left = len(faults) - FAULTS_SHOWN
        raise DataError(faults[:FAULTS_SHOWN] + ([f"{path.name}: and {left} more"] if left > 0 else []))
    if not rows:
        raise DataError([f"{path.name}: holds no rows"])
    return rows


def read_data(spec: RunSpec, run_dir: Path) -> RunData:
    """Reads every file that the spec names. Raises DataError with the faults of all files."""
    faults: list[str] = []

    def read(path: str | None, kind: type[R]) -> list[R]:
        if path is None:
            return []
        try:
            return read_rows(run_dir / path, kind)
        except DataError as error:
            faults.extend(error.faults)
            return []

    labels = spec.method in LEARNS_FROM_LABELS | LEARNS_ONLINE
    data = RunData(
        labelled=read(spec.data.train, Labelled) if labels else [],
        logged=read(spec.data.train, Logged) if spec.method in LEARNS_FROM_LOGS else [],
        replay=read(spec.data.replay, Labelled),
        heldout=read(spec.data.heldout, Labelled),
    )
    if data.logged and all(row.reward is None for row in data.logged):
        faults.append(f"{spec.data.train}: no row has a reward to learn from")
    if faults:
        raise DataError(faults)
    return data


class Batches:
    """The order in which rows are taken, a pure function of (seed, epoch): a resumed run needs no more state.

    Rows of similar length share a batch, so little is padding; batches come in random order.
    """

    def __init__(self, lengths: Sequence[int], batch_size: int, seed: int) -> None:
        self.lengths = lengths
        self.batch_size = batch_size
        self.seed = seed
        self.per_epoch = math.ceil(len(lengths) / batch_size)
        self._epoch: tuple[int, list[list[int]]] | None = None

    def at(self, step: int) -> list[int]:
        """Row numbers of the batch taken at this step, counted from 0 over all epochs."""
        epoch, place = divmod(step, self.per_epoch)
        if self._epoch is None or self._epoch[0] != epoch:
            self._epoch = (epoch, self._order(epoch))
        return self._epoch[1][place]

    def _order(self, epoch: int) -> list[list[int]]:
        rng = random.Random(f"{self.seed}/{epoch}")  # noqa: S311 - an order, not a secret
        rows = list(range(len(self.lengths)))
        rng.shuffle(rows)
        batches: list[list[int]] = []
        window = self.batch_size * 20
        for start in range(0, len(rows), window):
            similar = sorted(rows[start : start + window], key=lambda row: self.lengths[row])
            batches += [similar[at : at + self.batch_size] for at in range(0, len(similar), self.batch_size)]
        rng.shuffle(batches)
        return batches


def by_length(lengths: Sequence[int], batch_size: int) -> Iterator[list[int]]:
    """Every row number once, in batches of similar length, for scoring."""
    order = sorted(range(len(lengths)), key=lambda row: lengths[row])
    for start in range(0, len(order), batch_size):
        yield order[start : start + batch_size]


def drop_tokens(prompt_ids: Sequence[int], head: int, tail: int, share: float, rng: random.Random) -> list[int]:
    """Token dropout (augmentation): deletes each token of the prompt itself with probability `share`."""
    end = len(prompt_ids) - tail
    kept = [token for token in prompt_ids[head:end] if rng.random() >= share]
    return [*prompt_ids[:head], *kept, *prompt_ids[end:]]


def _probability_faults(probabilities: Sequence[float], options: int) -> Iterator[str]:
    if len(probabilities) != options:
        yield f"probabilities: {len(probabilities)} of them for {options} options"
    elif not all(0.0 <= p <= 1.0 for p in probabilities) or abs(math.fsum(probabilities) - 1.0) > ROUNDING:
        yield "probabilities: must lie in [0, 1] and add up to 1"


def _option_faults(options: tuple[str, ...]) -> Iterator[str]:
    if not options:
        yield "options: at least one is needed"
    if len(set(options)) < len(options):
        yield "options: the same option twice"
    if any(not option for option in options):
        yield "options: an option is empty"
