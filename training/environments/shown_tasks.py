"""What the page of a dataset shows of an environment's tasks: the first ones, and how many there are of each making."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import islice

import msgspec

from models_registry.artifacts.opening import artifact_path
from training.datasets.preview import by_count
from training.engine.environments.tasks import Task
from training.models import DatasetSnapshot
from training.rows.parts import ROWS_FILE

SHOWN = 25
COUNTED = (("templates", "By template"), ("levels", "By level"), ("domains", "By domain"))


@dataclass(frozen=True, slots=True)
class ShownTasks:
    """`counts`: for each thing that is counted its title and pairs of a name and a count; nothing where all tasks are
    alike in it and have no name for it."""

    first: Sequence[Task]
    counts: Sequence[tuple[str, Sequence[tuple[str, int]]]]


def show_tasks(dataset: DatasetSnapshot) -> ShownTasks | None:
    """None of a dataset of other rows."""
    if not dataset.is_of_tasks:
        return None
    counts = []
    for name, title in COUNTED:
        told: Mapping[str, int] = dataset.statistics.get(name, {})
        if told and set(told) != {""}:
            order = sorted if name == "levels" else by_count
            counts.append((title, [(one or "–", count) for one, count in order(told.items())]))
    return ShownTasks(read_tasks(dataset, SHOWN), counts)


def read_tasks(dataset: DatasetSnapshot, most: int) -> list[Task]:
    """The first so many; none where the files are gone."""
    path = artifact_path(dataset.artifact.digest) / ROWS_FILE
    if not path.is_file():
        return []
    decoder = msgspec.json.Decoder(Task)
    with path.open("rb") as lines:
        return [decoder.decode(line) for line in islice(lines, most)]
