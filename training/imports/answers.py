"""Files to measure a model on: labelled rows, exported decisions that chose, or texts with what should have been
written (`manage.py evaluate`)."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import msgspec

from training.engine.rows.texts import find_right_texts, is_right
from training.engine.rows.types import Text
from training.engine.spec.methods import RowKind
from training.engine.spec.right_from import RIGHT_FROM
from training.imports.exported import ExportedFile, label_choices, read_export
from training.imports.row_files import is_exported, is_labelled, read_row_file
from training.imports.row_lines import find_first, read_row_lines
from training.models import DatasetKind


@dataclass(frozen=True, slots=True)
class KnownAnswers:
    """`rows` as the engine reads them; `left_out`: texts that are not known to be right, and decisions of which the
    right option is not known. `kinds` and `agents`, by their slugs, as far as the file names them."""

    kind: RowKind
    rows: list[dict[str, Any]] = field(default_factory=list)
    left_out: int = 0
    kinds: frozenset[str] = frozenset()
    agents: frozenset[str] = frozenset()


def read_answers_file(path: Path) -> tuple[KnownAnswers, list[str]]:
    """Every row, and every fault as `file:line: reason`. Texts are rows of text in any form, or exported decisions that
    wrote one; where nothing is said of any of them, all are taken for right."""
    lines, _ = read_row_lines(path)
    first = find_first(lines)
    if first is not None and not is_labelled(first) and is_exported(lines, first):
        return _read_exported(path)
    file, faults = read_row_file(path)
    if file.kind == DatasetKind.TEXT:
        return _answers_of_texts(path, msgspec.convert(file.rows, list[Text]), faults), faults
    if file.kind == DatasetKind.LOGGED:
        return _answers_of_choices(path, ExportedFile(RowKind.LOGGED, [dict(row) for row in file.rows]), faults), faults
    if file.kind == DatasetKind.PREFERENCES:
        faults.append(f"{path}: holds preference pairs, which say what is better and not what is right")
        return KnownAnswers(RowKind.LABELLED), faults
    return KnownAnswers(RowKind.LABELLED, [dict(row) for row in file.rows]), faults


def _read_exported(path: Path) -> tuple[KnownAnswers, list[str]]:
    exported, faults = read_export(path)
    if exported.kind is RowKind.LOGGED:
        known = _answers_of_choices(path, exported, faults)
    else:
        known = _answers_of_texts(path, msgspec.convert(exported.rows, list[Text]), faults)
    return replace(known, kinds=frozenset(exported.kinds), agents=frozenset(exported.agents)), faults


def _answers_of_choices(path: Path, exported: ExportedFile, faults: list[str]) -> KnownAnswers:
    if faults:
        return KnownAnswers(RowKind.LABELLED)
    rows = label_choices(exported.rows, exported.answers)
    known = {row.id for row in rows}
    decisions = [row["id"] for row in exported.rows if (row.get("slate") or {}).get("place", 1) == 1]
    if not rows:
        faults.append(f"{path}: the right option of none of its {len(decisions)} decisions is known; judge some")
    left_out = sum(one not in known for one in decisions) + exported.left_out
    return KnownAnswers(RowKind.LABELLED, [msgspec.to_builtins(row) for row in rows], left_out)


def _answers_of_texts(path: Path, texts: list[Text], faults: list[str]) -> KnownAnswers:
    right = find_right_texts(texts, RIGHT_FROM)
    if texts and not right and not faults:
        faults.append(f"{path}: none of its texts is known to be right")
    # The engine asks again, and takes only for right what is said to be.
    known = [row.source if is_right(row, RIGHT_FROM) else "human" for row in right]
    rows = [msgspec.to_builtins(row) | {"source": source} for row, source in zip(right, known, strict=True)]
    return KnownAnswers(RowKind.TEXT, rows, len(texts) - len(right))
