"""The prompts of datasets and of what versions learnt from: whether a model can be measured on rows."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path

from models_registry.artifacts.opening import artifact_path
from models_registry.models import ModelVersion
from training.engine.rows.prompt_forms import PromptForm, find_mismatch, form_of, read_forms
from training.engine.rows.types import Prompt
from training.models import DatasetSnapshot
from training.rows.parts import ROWS_FILE

SAMPLED = 2_000
"""So many of a dataset's first rows tell how its prompts begin."""


def find_form(dataset: DatasetSnapshot | None) -> PromptForm | None:
    """Of its prompts; None of tasks, of files that are gone, and of a dataset that is yet to be made."""
    if dataset is None or dataset.artifact_id is None:
        return None
    path = artifact_path(dataset.artifact.digest) / ROWS_FILE
    return form_of(_read_prompts(path)) if path.is_file() else None


def _read_prompts(path: Path) -> Iterator[Prompt]:
    with path.open(encoding="utf-8") as lines:
        for row in map(json.loads, islice((line for line in lines if line.strip()), SAMPLED)):
            if isinstance(row.get("prompt"), str):
                yield Prompt(row["prompt"], row.get("system") or "", tuple(row.get("messages") or ()))


def find_forms_of_version(version: ModelVersion | None) -> list[PromptForm]:
    """What it learnt from, and its base before; nothing of a remote one, and of one whose files are gone."""
    stored = [one.artifact for one in (version, version.base if version is not None else None) if one is not None]
    return read_forms(*(artifact_path(artifact.digest) for artifact in stored if artifact is not None))


def find_other_prompts(
    heldout: DatasetSnapshot | None, learnt: Sequence[DatasetSnapshot | None], base: ModelVersion | None
) -> str | None:
    """Why the held-out rows say nothing of a model that learns from these datasets over the base."""
    if (asked := find_form(heldout)) is None:
        return None
    own = [form for form in map(find_form, learnt) if form is not None]
    return find_mismatch([*own, *find_forms_of_version(base)], asked)
