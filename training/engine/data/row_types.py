"""The type of a row, by its kind. No torch."""

from __future__ import annotations

from collections.abc import Mapping

from training.engine.environments.tasks import Task
from training.engine.rows.types import Labelled, Logged, Preference, Text
from training.engine.spec.methods import RowKind

ROW_TYPES: Mapping[RowKind, type[Labelled] | type[Logged] | type[Text] | type[Preference] | type[Task]] = {
    RowKind.LABELLED: Labelled,
    RowKind.LOGGED: Logged,
    RowKind.TEXT: Text,
    RowKind.PREFERENCES: Preference,
    RowKind.TASKS: Task,
}
