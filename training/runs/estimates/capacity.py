"""Whether a run fits this machine: reads its base and what the machine has, and says what is short and what would fit.

Called before a run is queued. The machine is that of the process which asks; where workers stand elsewhere, theirs
decides in the end: an engine whose GPU is full takes smaller batches (training.engine.updates.accumulate).
"""

from __future__ import annotations

import json
import math
import os
import shutil
import statistics
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from django.conf import settings

from models_registry.artifacts.opening import artifact_path
from models_registry.models import ModelVersion
from training.engine.machine.facts import (
    ROWS_AN_UPDATE,
    TIER_TOKENS,
    Machine,
    Profile,
    Recommended,
    list_smaller,
    recommend,
    this_machine,
    why_no_quantisation,
)
from training.engine.spec.methods import RowKind
from training.engine.spec.run_spec import RunSpec
from training.engine.spec.settings import Lora
from training.models import DatasetSnapshot, TrainingRun
from training.rows.parts import ROWS_FILE
from training.run_states import TERMINAL_STATES, RunState
from training.runs.estimates.needs import (
    TOKENS_PER_WORD,
    Estimate,
    ModelShape,
    Rate,
    estimate_run,
    find_in_hub_cache,
    read_shape,
    say_count,
    shape_of_name,
    shape_of_tiny,
)
from workspaces.errors import FieldFault
from workspaces.templatetags.show import size

RUNS_MEASURED = 10
SAMPLED = 200
CHARACTERS_PER_TOKEN = 3
"""Of JSON and plain text, on the safe side."""
ALIKE = 4
"""Earlier runs tell the rate of bases up to so many times smaller or larger."""


PROMPT_SPREAD = 2
"""How many times as long as the mean the longest prompt is taken to be, where the agent does not limit it."""


@dataclass(frozen=True, slots=True)
class Load:
    """What is to be calculated: the base (a version, or the name of a model), how many rows are learnt from and
    measured on, and about how long their prompts and the longest of their texts are in tokens, as far as that is
    known. `episode_steps`: of tasks, the actions that an episode has at most. `folder`: where a run without an instance
    is written; nothing is known of earlier runs then, and nothing is reserved for others. `without_propensity`: some of
    the logged rows have none."""

    base_version: ModelVersion | None
    base_model: str
    rows: int
    heldout: int
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    episode_steps: int | None = None
    folder: Path | None = None
    without_propensity: bool = False


def count_prompt_tokens(rows: Iterable[Mapping[str, Any]]) -> int | None:
    """The mean over the first rows, by their words; None of rows without a prompt."""
    words = [
        sum(len(str(row.get(name) or "").split()) for name in ("prompt", "system", "tools"))
        for row in islice(rows, SAMPLED)
        if "prompt" in row
    ]
    return math.ceil(TOKENS_PER_WORD * statistics.mean(words)) if words else None


def count_completion_tokens(rows: Iterable[Mapping[str, Any]]) -> int | None:
    """Of the longest text among the first rows, by its characters; None of rows without one."""
    longest = max((len(str(row["completion"])) for row in islice(rows, SAMPLED) if "completion" in row), default=0)
    return math.ceil(longest / CHARACTERS_PER_TOKEN) or None


def sample_prompt_tokens(dataset: DatasetSnapshot) -> int | None:
    """The mean over its first rows, by their words; None where its file is not here, or yet to be made."""
    if dataset.artifact_id is None:
        return None
    try:
        with (artifact_path(dataset.artifact.digest) / ROWS_FILE).open(encoding="utf-8") as file:
            return count_prompt_tokens(map(json.loads, file))
    except (OSError, ValueError):
        return None


def sample_completion_tokens(dataset: DatasetSnapshot) -> int | None:
    """Of the longest among its first rows of text, by their characters; None of other rows, or without its file."""
    if dataset.row_kind is not RowKind.TEXT or dataset.artifact_id is None:
        return None
    try:
        with (artifact_path(dataset.artifact.digest) / ROWS_FILE).open(encoding="utf-8") as file:
            return count_completion_tokens(map(json.loads, file))
    except (OSError, ValueError):
        return None


def find_shape(spec: RunSpec, load: Load) -> ModelShape | None:
    """Of the base; None where its files are not here and its name does not tell."""
    if spec.base.tiny is not None:
        return shape_of_tiny(spec.base.tiny)
    if load.base_version is not None:
        return read_shape(artifact_path(load.base_version.weights.stored.digest))
    return find_shape_of_model(load.base_model)


def find_shape_of_model(name: str) -> ModelShape | None:
    """Of a folder, or of a hub id: from its downloaded files, else from its name."""
    folder = find_folder_of_model(name)
    shape = read_shape(folder) if folder is not None else None
    return shape or (None if name.startswith("/") else shape_of_name(name))


def find_folder_of_model(name: str) -> Path | None:
    """The folder itself, or where a hub id's files have been downloaded to; None where they have not."""
    return Path(name) if name.startswith("/") else find_in_hub_cache(name, _hub_caches())


def is_downloaded(name: str) -> bool:
    """Whether the model's weights are here: of a hub id, its config.json alone may be."""
    folder = find_folder_of_model(name)
    return folder is not None and any(folder.glob("*.safetensors"))


def _hub_caches() -> list[Path]:
    """Where an engine's transformers keeps what it has downloaded."""
    home = Path(os.environ.get("HF_HOME") or Path.home() / ".cache" / "huggingface")
    named = os.environ.get("HF_HUB_CACHE")
    return [*([Path(named)] if named else []), home / "hub"]


def estimate_load(spec: RunSpec, load: Load, machine: Machine | None = None) -> Estimate | None:
    """What the run will need on the machine, by default this one; None of a base of unknown size, and of a classifier,
    whose heads are small beside everything else."""
    if spec.trains_by.makes_classifier:
        return None
    machine = machine or this_machine()
    shape = find_shape(spec, load)
    if shape is None:
        return None
    if load.completion_tokens is not None and "max_completion_tokens" not in spec.model_fields_set:
        spec = spec.model_copy(update={"max_completion_tokens": load.completion_tokens})  # as the engine will have it
    if load.completion_tokens is not None and "max_prompt_tokens" not in spec.model_fields_set:
        longest = PROMPT_SPREAD * load.prompt_tokens if load.prompt_tokens is not None else spec.max_prompt_tokens
        spec = spec.model_copy(update={"max_prompt_tokens": max(longest, spec.max_prompt_tokens)})
    device = _device_of(machine)
    return estimate_run(
        shape,
        spec,
        rows=load.rows,
        heldout=load.heldout,
        prompt_tokens=load.prompt_tokens,
        episode_steps=load.episode_steps,
        without_propensity=load.without_propensity,
        device=device,
        cores=machine.cores,
        rate=measure_rate(device, shape.parameters) if load.folder is None else None,
        bf16=machine.accelerator is None or machine.accelerator.bf16,
    )


def _device_of(machine: Machine) -> str:
    return machine.accelerator.kind if machine.accelerator is not None else "cpu"


def measure_rate(device: str, parameters: int) -> Rate | None:
    """The median of this instance's newest runs on such a device with a base of about that size, in one attempt."""
    runs = TrainingRun.objects.filter(
        state=RunState.SUCCEEDED,
        job__attempts=1,
        metrics__seconds__gt=0,
        estimate__device=device,
        estimate__parameters__gte=parameters // ALIKE,
        estimate__parameters__lte=parameters * ALIKE,
    ).order_by("-id")
    told = list(runs.values_list("estimate__work", "metrics__seconds")[:RUNS_MEASURED])
    return Rate(statistics.median(work / seconds for work, seconds in told), len(told)) if told else None


def find_shortages(spec: RunSpec, load: Load, estimate: Estimate, machine: Machine | None = None) -> list[FieldFault]:
    """Faults of the fields `memory` and `disk`, each with its figures and what would fit."""
    machine = machine or this_machine()
    faults = list(_find_memory_shortage(spec, load, estimate, machine))
    free = measure_free_disk(load.folder or Path(settings.RUNS))
    reserved = measure_reserved_disk() if load.folder is None else 0
    if estimate.disk_bytes > free - reserved:
        kept = f", of which {size(reserved)} are for runs under way" if reserved else ""
        reason = f"the run needs {size(estimate.disk_bytes)} of disk space, and {size(free)} are free{kept}"
        faults.append(FieldFault("disk", reason, "an adapter (lora), a smaller base, or more free disk space"))
    return faults


def _find_memory_shortage(spec: RunSpec, load: Load, estimate: Estimate, machine: Machine) -> Iterator[FieldFault]:
    room = memory_of(machine)
    if estimate.memory_bytes <= room or _will_shrink(spec, load, machine, room):
        return
    largest = sorted(estimate.parts.items(), key=lambda part: -part[1])[:3]
    parts = ", ".join(f"{name} {size(part)}" for name, part in largest)
    about = "needs" if estimate.exact else "needs about"
    reason = (
        f"the run {about} {size(estimate.memory_bytes)} of {'GPU ' if machine.accelerator else ''}memory "
        f"({parts}; {say_count(estimate.parameters)} weights), but there are only {size(room)}"
    )
    yield FieldFault("memory", reason, _find_what_fits(spec, load, machine, room))


def memory_of(machine: Machine) -> int:
    """Bytes that an engine has for a run: the GPU's where it takes one."""
    return machine.accelerator.memory_bytes if machine.accelerator is not None else machine.memory_bytes


def _will_shrink(spec: RunSpec, load: Load, machine: Machine, room: int) -> bool:
    """Whether an engine that finds its GPU full gets along with smaller batches by itself. Of the computer's own memory
    it is not told in time: the kernel ends it."""
    _, smallest = next(_with_less_memory(spec, machine))
    found = estimate_load(smallest, load, machine) if machine.accelerator is not None else None
    return found is not None and found.memory_bytes <= room


def _find_what_fits(spec: RunSpec, load: Load, machine: Machine, room: int) -> str:
    for says, less in _with_less_memory(spec, machine):
        found = estimate_load(less, load, machine)
        if found is not None and found.memory_bytes <= room:
            return f"{says}, which needs {size(found.memory_bytes)}"
    return "a smaller base"


def _with_less_memory(spec: RunSpec, machine: Machine) -> Iterator[tuple[str, RunSpec]]:
    """The same run with less and less memory: first what learns the same, then an adapter instead of every weight."""
    rows = spec.optimiser.rows_an_update
    one = spec.optimiser.model_copy(update={"batch_size": 1, "accumulate": rows})
    less = spec.model_copy(update={"optimiser": one})
    says = f"batch_size 1 with accumulate {rows}"
    yield says, less
    less, says = less.model_copy(update={"gradient_checkpointing": True}), f"{says} and gradient_checkpointing"
    yield says, less
    if spec.trains_by.trains_adapter and spec.base.tiny is None:
        less, says = less.model_copy(update={"lora": spec.lora or Lora()}), f"lora, {says}"
        if spec.lora is None:
            yield says, less
        if not why_no_quantisation(machine):
            yield f"quantisation 4bit, {says}", less.model_copy(update={"quantisation": "4bit"})


def recommend_here() -> Recommended:
    """What suits this machine, by the instance's profile; by AUTO_DETECT where the machine lacks what that needs."""
    try:
        return recommend_fitting(this_machine(), Profile(settings.HARDWARE_PROFILE))
    except ValueError:  # NoSuchHardware, or a word that is no profile
        return recommend_fitting(this_machine())


def recommend_fitting(machine: Machine, profile: Profile = Profile.AUTO_DETECT) -> Recommended:
    """As `recommend`, with the largest model that a run would not be refused for want of memory: labelled rows of 512
    tokens, under an adapter; the smallest where none has room. Raises NoSuchHardware."""
    told = recommend(machine, profile)
    offers = [told, *list_smaller(told)]
    return next((one for one in offers if _fits(one, machine)), offers[-1])


def _fits(told: Recommended, machine: Machine) -> bool:
    spec = spec_of_recommended(told)
    load = Load(None, told.model, rows=0, heldout=0, folder=Path(settings.RUNS))
    estimate = estimate_load(spec, load, machine)
    return estimate is not None and not any(_find_memory_shortage(spec, load, estimate, machine))


def spec_of_recommended(told: Recommended) -> RunSpec:
    """A run with the recommended settings on the recommended model."""
    tiny = told.model == "tiny"
    lora = None if tiny else {"r": told.lora_r, "alpha": told.lora_alpha}
    return RunSpec.model_validate(
        {
            "run_id": "recommended",
            "method": "pretrain" if tiny else "sft",
            "base": {"tiny": {"max_positions": 2 * TIER_TOKENS}} if tiny else {"path": told.model},
            "data": {"train": "rows"},
            "lora": lora,
            "max_prompt_tokens": TIER_TOKENS,
            "optimiser": {"batch_size": told.batch_size, "accumulate": max(1, ROWS_AN_UPDATE // told.batch_size)},
        }
    )


def measure_free_disk(place: Path) -> int:
    """Bytes that are free where this folder is, or will be."""
    while not place.exists():
        place = place.parent
    return shutil.disk_usage(place).free


def measure_reserved_disk() -> int:
    """Bytes that runs which have not ended were promised; what they have written already counts twice."""
    under_way = TrainingRun.objects.exclude(state__in=[state.value for state in TERMINAL_STATES])
    return sum(int(promised.get("disk_bytes", 0)) for promised in under_way.values_list("estimate", flat=True))
