"""Reading the run's data files, and the order of rows in training. No torch.

All faults are reported together, with file, line and field.
"""

from __future__ import annotations

import math
import random
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TypeVar

import msgspec

from training.engine.environments.outside import OutsideAgent
from training.engine.environments.protocol import EnvironmentFault
from training.engine.environments.registry import BadEnvironment, UnknownEnvironment, find_environment
from training.engine.environments.tasks import Task
from training.engine.rows.folds import can_teach_rewards
from training.engine.rows.slates import Ranking, find_rankings
from training.engine.rows.texts import find_right_texts, find_text_answers, is_right
from training.engine.rows.types import (
    Labelled,
    Logged,
    Preference,
    Text,
    find_answers,
    find_judged,
    groups_of_prompts,
    right_or_wrong,
)
from training.engine.spec.methods import WHAT_LACKS, Need, RowKind
from training.engine.spec.right_from import RIGHT_FROM
from training.engine.spec.run_spec import RunSpec, is_held_back
from training.engine.spec.settings import FEWEST_OTHERS, MOST_OTHERS

FAULTS_SHOWN = 20


R = TypeVar("R", Labelled, Logged, Text, Preference, Task)


class DataError(ValueError):
    """The rows are not what the spec says. `faults` lists each as 'file:line: field: what is wrong'."""

    def __init__(self, faults: list[str]) -> None:
        super().__init__("; ".join(faults))
        self.faults = faults


class RunData(msgspec.Struct, frozen=True):
    """Everything a run reads. Which lists are filled depends on its method."""

    labelled: list[Labelled] = []
    logged: list[Logged] = []
    texts: list[Text] = []
    preferences: list[Preference] = []
    replay: list[Labelled] = []
    heldout: list[Labelled] = []
    rankings: list[Ranking] = []
    """Held-out rankings of which is known what belongs first."""
    log: list[Logged] = []
    suites: dict[str, list[Labelled]] = {}
    text_suites: dict[str, list[Text]] = {}
    """Those of their texts that are right."""
    heldout_texts: list[Text] = []
    heldout_pairs: list[Preference] = []
    tasks: list[Task] = []
    heldout_tasks: list[Task] = []
    unanswered: int = 0
    """Held-out decisions that were wrong and do not name the right action."""
    unjudged: int = 0
    """Rows to learn from that are left out, as nobody judged them and the method learns from rewards alone."""
    without_feedback: int = 0
    """Held-out decisions of which nobody said whether they were right."""

    def has(self, need: Need, spec: RunSpec) -> bool:
        """Whether the rows to learn from have it."""
        if need is Need.ANSWERS:
            return bool(self.labelled)
        if need is Need.REWARDS:
            return any(row.reward is not None for row in self.logged) or any(row.reward for row in self.texts)
        if need is Need.PROPENSITY:
            return bool(self.logged) and all(row.propensity is not None for row in self.logged)
        if need is Need.PROPENSITY_OR_MODEL:
            return self.has(Need.PROPENSITY, spec) or can_teach_rewards(self.logged)
        if need is Need.ANY_PROPENSITY:
            return bool(self.logged) and all(row.has_any_propensity for row in self.logged)
        if need is Need.RIGHT_AND_WRONG:
            told = [value >= spec.kto.right_from for _, value in right_or_wrong(self.logged)]
            return {True, False} <= {*told, *(is_right(row, spec.kto.right_from) for row in self.texts)}
        if need is Need.GROUPS:
            return bool(groups_of_prompts(self.logged))
        if need is Need.RIGHT_TEXTS:
            return bool(find_right_texts(self.texts, spec.kto.right_from))
        if need is Need.REWARDED_GROUPS:
            return bool(spec.reward or groups_of_prompts(self.texts))
        return False


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
        if isinstance(row, Labelled | Logged):
            row = msgspec.structs.replace(row, options=options.setdefault(row.options, row.options))
        rows.append(row)
    if faults:
        left = len(faults) - FAULTS_SHOWN
        raise DataError(faults[:FAULTS_SHOWN] + ([f"{path.name}: and {left} more"] if left > 0 else []))
    if not rows:
        raise DataError([f"{path.name}: holds no rows"])
    return rows


def read_data(spec: RunSpec, run_dir: Path, agent: OutsideAgent | None = None) -> RunData:
    """Reads every file that the spec names. `agent` acts on its tasks, if anybody but the model's scorer does. Raises
    DataError with the faults of all files."""
    faults: list[str] = []

    def read(path: str | None, kind: type[R], *, may_be_empty: bool = False) -> list[R]:
        if path is None or (may_be_empty and not _has_content(run_dir / path)):
            return []
        try:
            return read_rows(run_dir / path, kind)
        except DataError as error:
            faults.extend(error.faults)
            return []

    # In the order in which the faults are told: what is trained on first.
    logged = read(spec.data.train, Logged) if spec.train_rows is RowKind.LOGGED else []
    if spec.held_back:
        logged = [row for row in logged if not is_held_back(row.id, row.group, spec.held_back)]
    judged = logged if spec.trains_by.learns_unjudged else find_judged(logged)
    labelled = read(spec.data.train, Labelled) if spec.train_rows is RowKind.LABELLED else []
    texts = read(spec.data.train, Text) if spec.train_rows is RowKind.TEXT else []
    preferences = read(spec.data.train, Preference) if spec.train_rows is RowKind.PREFERENCES else []
    heldout = read(spec.data.heldout, Labelled) if spec.heldout_rows is RowKind.LABELLED else []
    rankings = find_rankings(heldout)
    unanswered = without_feedback = 0
    if spec.heldout_rows is RowKind.LOGGED and (decisions := read(spec.data.heldout, Logged)):
        heldout, unanswered = find_answers(decisions)
        rankings = find_rankings(decisions)
        asked = [row for row in decisions if row.slate is None or row.slate.place == 1]
        without_feedback = len(asked) - len(heldout) - unanswered
        if not heldout:
            faults.append(f"{spec.data.heldout}: none of its decisions has a known right answer")
    heldout_texts: list[Text] = []
    if spec.heldout_rows is RowKind.TEXT and (written := read(spec.data.heldout, Text)):
        heldout_texts, unanswered = find_text_answers(written, spec.kto.right_from)
        without_feedback = len(written) - len(heldout_texts) - unanswered
        if not heldout_texts:
            faults.append(
                f"{spec.data.heldout}: none of its texts is known to be right ({unanswered} were wrong, nobody judged "
                f"{without_feedback}); give texts that people wrote or confirmed, or of a reward from "
                f"{spec.kto.right_from:g}"
            )
    pairs = read(spec.data.heldout, Preference) if spec.heldout_rows is RowKind.PREFERENCES else []
    tasks = read(spec.data.train, Task) if spec.train_rows is RowKind.TASKS else []
    heldout_tasks = read(spec.data.heldout, Task) if spec.heldout_rows is RowKind.TASKS else []
    for path, some in ((spec.data.train, tasks), (spec.data.heldout, heldout_tasks)):
        faults.extend(find_task_faults(path, some, agent))
    faults.extend(find_judging_faults(spec, [*tasks, *heldout_tasks], agent))
    if spec.trains_by.makes_reward_model:
        others = spec.reward_model.others
        preferences = preferences or pair_with_others(labelled, others, seed=f"{spec.seed}/train")
        pairs, heldout = pairs or pair_with_others(heldout, others, seed="heldout"), []
    data = RunData(
        labelled=labelled,
        logged=judged,
        texts=texts,
        preferences=preferences,
        replay=read(spec.data.replay, Labelled),
        heldout=heldout,
        rankings=rankings,
        unjudged=len(logged) - len(judged),
        unanswered=unanswered,
        without_feedback=without_feedback,
        heldout_texts=heldout_texts,
        heldout_pairs=pairs,
        tasks=tasks,
        heldout_tasks=heldout_tasks,
        log=read(spec.data.log, Logged, may_be_empty=True),
        # Those whose rows were erased before a second attempt are left out.
        suites={
            name: rows for name, path in spec.data.suites.items() if (rows := read(path, Labelled, may_be_empty=True))
        },
        # Whatever a run holds for right: a suite is the same for every version.
        text_suites={
            name: right
            for name, path in spec.data.text_suites.items()
            if (right := find_text_answers(read(path, Text, may_be_empty=True), RIGHT_FROM)[0])
        },
    )
    if not faults and spec.train_rows is not None:
        has = {need for need in Need if data.has(need, spec)}
        has.add(Need.REWARD_FUNCTION)  # the spec's own check knows better
        for lack in spec.trains_by.find_lacks(spec.train_rows, has):
            faults.append(f"{spec.data.train}: method {spec.method} needs {WHAT_LACKS[lack]}")
    if faults:
        raise DataError(faults)
    return data


def find_task_faults(path: str | None, tasks: Sequence[Task], agent: OutsideAgent | None = None) -> list[str]:
    """What keeps the tasks from being acted on here: environments that are not installed, facts of no use to them; or
    what the agent says of them."""
    faults: list[str] = []
    for number, task in enumerate(tasks, start=1):
        if agent is not None:
            faults += [f"{path}:{number}: {fault}" for fault in agent.find_faults(task)]
            continue
        try:
            find_environment(task.environment)().reset(task)
        except (UnknownEnvironment, BadEnvironment) as error:
            faults.append(f"{path}:{number}: environment: {error}")
        except ValueError as error:
            faults.append(f"{path}:{number}: {error}")
        except EnvironmentFault:
            continue  # it may work the next time; the run counts what does not
    left = len(faults) - FAULTS_SHOWN
    return faults[:FAULTS_SHOWN] + ([f"{path}: and {left} more"] if left > 0 else [])


def find_judging_faults(spec: RunSpec, tasks: Sequence[Task], agent: OutsideAgent | None) -> Iterator[str]:
    """What keeps the spec's judge from scoring the episodes."""
    if spec.judge is None:
        return
    if spec.judge.url is None:
        yield "judge.url: is missing; give the server's address, up to and with /v1"
    if agent is not None:
        yield "judge: episodes of an agent with a base URL are not judged; leave it out"
        return
    for name in sorted({task.environment for task in tasks}):
        try:
            judged = find_environment(name).judged
        except (UnknownEnvironment, BadEnvironment):
            continue  # find_task_faults says so
        if not judged:
            yield f"judge: environment {name!r} has no criterion that a judge scores; leave it out"


def pair_with_others(rows: Sequence[Labelled], others: int | None, *, seed: str) -> list[Preference]:
    """Of each row the right option against so many of the others, or all there are; a row's pairs are one cluster."""
    pairs: list[Preference] = []
    for row in rows:
        rest = [option for option in row.options if option != row.answer]
        wanted = others or min(max(FEWEST_OTHERS, len(row.options) // 3), MOST_OTHERS)
        worse = random.Random(f"{seed}/{row.id}").sample(rest, min(wanted, len(rest)))  # noqa: S311 - reproducible
        group = row.group or row.id
        pairs += [
            Preference(f"{row.id}/{place}", row.prompt, row.answer, one, group, system=row.system)
            for place, one in enumerate(worse)
        ]
    return pairs


def _has_content(path: Path) -> bool:
    return path.is_file() and path.stat().st_size > 0


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


def drop_tokens(prompt_ids: Sequence[int], head: int, tail: int, share: float, rng: random.Random) -> list[int]:
    """Token dropout (augmentation): deletes each token of the prompt itself with probability `share`."""
    end = len(prompt_ids) - tail
    kept = [token for token in prompt_ids[head:end] if rng.random() >= share]
    return [*prompt_ids[:head], *kept, *prompt_ids[end:]]
