"""What `manage.py train` is told, and the engine's spec that comes of it: what was chosen for the user is noted.

`training.local.runs` runs it. Nothing here needs an instance, a database or torch.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import msgspec
import pydantic

from training.engine.data.row_types import ROW_TYPES
from training.engine.machine.facts import this_machine, why_no_quantisation
from training.engine.spec.methods import CLASSIFIER, TRAINING, WHAT_LACKS, Need, RowKind
from training.engine.spec.run_spec import RunSpec
from training.engine.spec.settings import Online
from training.imports.exported import NO_ROW, label_choices
from training.local.classifiers import find_training_faults, makes_classifier, spec_of_classifier
from training.models import DatasetSnapshot
from training.rows.parts import Tally
from training.runs.architectures import find_base_faults, tell_unchecked
from training.runs.base_models import TINY, WORDS
from training.runs.defaults.matrices import adapt_usable_matrices
from training.runs.defaults.presets import PRESETS
from training.runs.defaults.starting import merge_settings
from training.runs.estimates.capacity import (
    Load,
    count_completion_tokens,
    count_prompt_tokens,
    estimate_load,
    find_shortages,
)
from training.runs.estimates.needs import Estimate
from training.runs.on_tasks import ONLINE, count_steps
from training.runs.services import OWN_FIELDS

ROWS, HELD_OUT = "rows.jsonl", "heldout.jsonl"
PREFERRED = "ppo"
FITTING: Mapping[RowKind, Sequence[str]] = {
    RowKind.LABELLED: (PREFERRED,),
    RowKind.LOGGED: (PREFERRED, "posterior"),
    RowKind.TEXT: ("reward_weighted", "sft"),
    RowKind.PREFERENCES: ("dpo",),
    RowKind.TASKS: ("grpo",),
}
"""Methods for rows of each kind, the first that they suffice for is taken (docs/commands.md)."""
PROMPT_TOKENS: Mapping[str, tuple[int, int]] = {"PRIORITIZER": (1024, 256)}
OTHERS_TOKENS = (512, 128)
"""Of prompt and completion, by kind of agent."""
TEMPLATE_TOKENS = 64
LORA = {"r": 16, "alpha": 32}
SAMPLING = {"temperature": 0.7, "top_k": 50, "top_p": 0.95}
EPOCHS, BATCH_SIZE, LEARNING_RATE = 3, 4, 1.41e-5


class UnusableRun(ValueError):
    """The run cannot be made; `faults` names every reason."""

    def __init__(self, faults: Sequence[str]) -> None:
        super().__init__("; ".join(faults))
        self.faults = list(faults)


@dataclass(frozen=True, slots=True)
class Rows:
    """`lines` as the engine reads them. `agent_kind` of the agent whose decisions they are, "" where the file does not
    say it; `left_out`: decisions of the file that make no row; `answers`: the right option of logged rows, by id;
    `held_out`: tasks to measure on."""

    kind: RowKind
    lines: list[dict[str, Any]]
    agent_kind: str = ""
    left_out: int = 0
    answers: Mapping[str, str] = field(default_factory=dict)
    held_out: list[dict[str, Any]] = field(default_factory=list)

    @property
    def files(self) -> dict[str, list[dict[str, Any]]]:
        """By the names that the spec gives them."""
        return {ROWS: self.lines} | ({HELD_OUT: self.held_out} if self.held_out else {})


@dataclass(frozen=True, slots=True)
class Training:
    """What `manage.py train` is told. `method` is one that trains, "" for what fits the rows; `base` is `tiny`,
    `words`, a folder or a hub id. `epochs`, `batch_size` and `learning_rate` of None are those of the `preset`, or the
    defaults. `quantised`: in 4 bits where this machine can. `settings`: fields of the engine's spec over all others.
    """

    method: str
    base: str
    agent_kind: str = ""
    epochs: int | None = None
    batch_size: int | None = None
    learning_rate: float | None = None
    quantised: bool = True
    preset: str = ""
    settings: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class LocalPlan:
    """`rows` to learn from. `notes` say what was chosen, a line each. `estimate` is None of a base of unknown size, and
    of settings that the engine will refuse. `unchecked`: what of a hub's base is checked only once it is downloaded."""

    spec: dict[str, Any]
    rows: Rows
    notes: list[str]
    estimate: Estimate | None
    unchecked: str = ""

    @property
    def method(self) -> str:
        return str(self.spec["method"])


def absolute_base(base: str) -> str:
    """A folder's whole path; a hub id as it is."""
    return str(Path(base).resolve()) if Path(base).is_dir() else base


def check_training(asked: Training) -> None:
    """What can be said before any row is read. Raises UnusableRun."""
    method = asked.method or (PRESETS[asked.preset].method if asked.preset else "")
    faults = []
    if asked.base == TINY and method and not TRAINING[method].makes_model:
        faults.append(f"--model: {method} cannot begin with a new tiny model")
    faults += find_training_faults(asked)
    for name in sorted(set(asked.settings) & {*OWN_FIELDS, "base"}):
        faults.append(f"--set: {name} is filled in by the command; leave it out")
    if faults:
        raise UnusableRun(faults)


def make_plan(asked: Training, rows: Rows, output: Path) -> LocalPlan:
    """Raises UnusableRun for a method that cannot learn from such rows, and where the machine has too little memory or
    disk space; what the rows lack besides, the engine names."""
    check_training(asked)
    asked = replace(asked, agent_kind=asked.agent_kind or rows.agent_kind)
    notes: list[str] = []
    method = asked.method or (PRESETS[asked.preset].method if asked.preset else _choose_method(asked, rows, notes))
    if rows.left_out:
        notes.append(f"{rows.left_out} decisions of the file make no row: {NO_ROW}")
    rows = _fit_rows(rows, method, notes)
    if rows.kind not in TRAINING[method].learns_from:
        others = ", ".join(name for name, one in TRAINING.items() if rows.kind in one.learns_from)
        raise UnusableRun([f"--method: {method} cannot learn from {rows.kind} rows; these methods can: {others}"])
    without = _count_without_propensity(rows) if method == PREFERRED else 0
    if without and Need.PROPENSITY_OR_MODEL in _find_has(rows):
        notes.append(
            f"method {method}: {without:,} of {len(rows.lines):,} decisions have no propensity, so the model acts "
            "afresh on all prompts, paid by a cross-fitted reward model of the same decisions"
        )
    spec = _make_spec(asked, method, rows, notes)
    estimate = _estimate(asked, spec, rows, output)
    if estimate is None and not makes_classifier(method) and not Path(asked.base).is_dir():
        notes.append(f"needs: unknown, as the name {asked.base} does not show the size of the base")
    return LocalPlan(spec, rows, notes, estimate, tell_unchecked(absolute_base(asked.base)))


def _fit_rows(rows: Rows, method: str, notes: list[str]) -> Rows:
    """Exported choices as labelled rows for a method that learns from right options alone."""
    learns_from = TRAINING[method].learns_from
    if rows.kind is not RowKind.LOGGED or RowKind.LOGGED in learns_from or RowKind.LABELLED not in learns_from:
        return rows
    try:
        labelled = [msgspec.to_builtins(row) for row in label_choices(rows.lines, rows.answers)]
    except msgspec.ValidationError:
        return rows
    if not labelled:
        return rows
    notes.append(f"{len(labelled)} of {len(rows.lines)} rows, those whose right option is known: {method} needs it")
    return Rows(RowKind.LABELLED, labelled, rows.agent_kind)


def _choose_method(asked: Training, rows: Rows, notes: list[str]) -> str:
    """The preferred one where it can learn from the rows, else the first that fits them. Notes why."""
    if asked.base == TINY:
        notes.append("method pretrain: only it makes a new tiny model")
        return "pretrain"
    if asked.base == WORDS:
        notes.append(f"method {CLASSIFIER}: only it learns from words alone")
        return CLASSIFIER
    has = _find_has(rows)
    fits = [name for name in FITTING[rows.kind] if not TRAINING[name].find_lacks(rows.kind, has)]
    chosen = (fits or [FITTING[rows.kind][-1]])[0]
    if chosen == PREFERRED:
        return chosen
    if rows.kind not in TRAINING[PREFERRED].learns_from:
        notes.append(f"method {chosen}: {PREFERRED} cannot learn from {rows.kind} rows")
    else:
        lacks = TRAINING[PREFERRED].find_lacks(rows.kind, has)
        notes.append(f"method {chosen}: {PREFERRED} needs {' and '.join(WHAT_LACKS[lack] for lack in lacks)}")
    return chosen


def _count_without_propensity(rows: Rows) -> int:
    """Of logged rows; 0 of others."""
    return sum(line.get("propensity") is None for line in rows.lines) if rows.kind is RowKind.LOGGED else 0


def _find_has(rows: Rows) -> frozenset[Need]:
    """What the rows have; all there is where they are not what they should be: the engine names line and field."""
    kind: Any = ROW_TYPES[rows.kind]
    try:
        msgspec.convert(rows.lines, list[kind])
    except msgspec.ValidationError:
        return frozenset(Need)
    tally = Tally()
    for line in rows.lines:
        tally.add(line)
    dataset = DatasetSnapshot(kind=rows.kind, rows=tally.rows, statistics=tally.as_plain())
    return dataset.find_has() | {Need.REWARD_FUNCTION}


def _make_spec(asked: Training, method_name: str, rows: Rows, notes: list[str]) -> dict[str, Any]:
    method = TRAINING[method_name]
    data: dict[str, Any] = {"run_id": f"train-{_digest(rows.lines)}", "data": {"train": ROWS, "rows": rows.kind}}
    if method.makes_classifier:
        own = spec_of_classifier(replace(asked, method=method_name), absolute_base(asked.base))
        return merge_settings(data | own, asked.settings)
    whole = asked.base == TINY or not method.trains_adapter or asked.settings.get("lora", LORA) is None
    quantised = asked.quantised and not whole
    if quantised and (lack := why_no_quantisation(this_machine())):
        notes.append(f"weights in full, not in 4 bits: {lack}")
        quantised = False
    prompt, completion = PROMPT_TOKENS.get(asked.agent_kind, OTHERS_TOKENS)
    of_tasks = rows.kind is RowKind.TASKS
    online = Need.REWARD_FUNCTION in method.needs(rows.kind)
    epochs = asked.epochs or EPOCHS
    fresh = online or (Need.REWARDED_GROUPS in method.needs(rows.kind) and bool(asked.settings.get("reward")))
    spec: dict[str, Any] = {
        **data,
        "method": method_name,
        "base": {"path": absolute_base(asked.base)},
        "max_prompt_tokens": prompt,
        "max_completion_tokens": completion,
        "lora": None if whole else adapt_usable_matrices({"lora": LORA}, absolute_base(asked.base))["lora"],
        "quantisation": "4bit" if quantised else None,
        "optimiser": {"epochs": epochs, "batch_size": BATCH_SIZE, "learning_rate": LEARNING_RATE},
        "epoch_checkpoints": not (fresh or (of_tasks and method.settings == "online") or method.makes_reward_model),
        "sampling": SAMPLING,
        "serving": {"temperature": SAMPLING["temperature"]},
    }
    if online:
        passes = math.ceil(len(rows.lines) * epochs / Online().prompts_per_step)
        spec |= {"online": {"steps": passes}, "reward": [{"name": "matches_answer"}]}
    if of_tasks and method.settings == "online":
        spec |= {"online": dict(ONLINE)}
    if rows.held_out:
        spec["data"] |= {"heldout": HELD_OUT}
        spec |= {"evaluate": {"free_rows": 0}}
    if asked.preset:
        spec = merge_settings(spec, PRESETS[asked.preset].settings)
    given = {"epochs": asked.epochs, "batch_size": asked.batch_size, "learning_rate": asked.learning_rate}
    spec = merge_settings(spec, {"optimiser": {name: value for name, value in given.items() if value is not None}})
    spec = merge_settings(spec, asked.settings)
    if asked.base == TINY:
        tokens = [spec["max_prompt_tokens"], spec["max_completion_tokens"], TEMPLATE_TOKENS]
        spec["base"] = {"tiny": {"max_positions": sum(one for one in tokens if isinstance(one, int))}}
    return spec


def _digest(lines: Sequence[Mapping[str, Any]]) -> str:
    """Other rows are another run, even in the same folder."""
    return hashlib.sha256(json.dumps(lines, sort_keys=True).encode()).hexdigest()[:16]


def _estimate(asked: Training, spec: Mapping[str, Any], rows: Rows, output: Path) -> Estimate | None:
    """Raises UnusableRun for what this machine has no room for."""
    try:
        checked = RunSpec.model_validate(spec)
    except pydantic.ValidationError:
        return None
    completion = count_completion_tokens(rows.lines) if rows.kind is RowKind.TEXT else None
    steps = count_steps(sorted({str(line["environment"]) for line in rows.lines if "environment" in line}))
    load = Load(
        None,
        absolute_base(asked.base),
        len(rows.lines),
        0,
        prompt_tokens=count_prompt_tokens(rows.lines),
        completion_tokens=completion,
        episode_steps=steps,
        folder=output.resolve(),
        without_propensity=_count_without_propensity(rows) > 0,
    )
    if faults := find_base_faults(checked, load):
        raise UnusableRun(
            [f"{one.field.removeprefix('settings.')}: {one.reason}; right would be {one.expected}" for one in faults]
        )
    estimate = estimate_load(checked, load)
    if estimate is not None and (faults := find_shortages(checked, load, estimate)):
        raise UnusableRun([f"{one.field}: {one.reason}; what would fit: {one.expected}" for one in faults])
    return estimate
