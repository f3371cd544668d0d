"""The options of `manage.py train`, from its command line and a YAML file: what the command line says comes first."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import yaml

from decisions.agents.kinds import FIVE
from training.engine.spec.methods import TRAINING, RowKind
from training.local.classifiers import makes_classifier
from training.local.plans import Training, UnusableRun
from training.runs.base_models import WORDS
from training.runs.defaults.presets import PRESETS
from training.runs.defaults.starting import merge_settings

MODEL = "meta-llama/Llama-3.1-8B-Instruct"
TASKS, HELD_OUT_TASKS = 960, 300
"""Of an environment, as `manage.py draw_tasks` draws them."""
USUAL: Mapping[str, Any] = {
    "model": MODEL,
    "method": "",
    "preset": "",
    "settings": {},
    "no_quantization": False,
    "tasks": TASKS,
    "held_out": HELD_OUT_TASKS,
}
"""Where neither says anything."""


def _text(value: Any) -> str | None:
    return None if isinstance(value, str) and value else "must be a text"


def _one_of(known: Any) -> Callable[[Any], str | None]:
    return lambda value: None if value in list(known) else f"must be one of {', '.join(known)}"


def _count(value: Any) -> str | None:
    whole = isinstance(value, int) and not isinstance(value, bool) and value >= 1
    return None if whole else "must be a whole number from 1 on"


def _rate(value: Any) -> str | None:
    number = isinstance(value, int | float) and not isinstance(value, bool) and value > 0
    return None if number else "must be a number above 0 (YAML reads 1e-5 as a text: write 1.0e-5)"


KNOWN: Mapping[str, Callable[[Any], str | None]] = {
    "agent_type": _text,
    "data": _text,
    "environment": _text,
    "tasks": _count,
    "held_out": lambda value: None if value == 0 else _count(value),
    "output": _text,
    "model": _text,
    "method": _one_of(TRAINING),
    "rows": _one_of([kind.value for kind in RowKind]),
    "preset": _one_of(PRESETS),
    "epochs": _count,
    "batch_size": _count,
    "learning_rate": _rate,
    "quantization": lambda value: None if isinstance(value, bool) else "must be true or false",
    "workspace": _text,
    "settings": lambda value: None if isinstance(value, dict) else "must be a mapping of the spec's fields",
}
"""Keys of the file, as the options are called; each says what is wrong with a value."""
SOURCES = ("data", "agent_type", "environment")
"""Where the rows come from."""


def complete_options(options: Mapping[str, Any]) -> dict[str, Any]:
    """The command's options with those of its `config` file, and the usual ones where neither says anything. The fields
    of --set stand over those of the file's `settings`, one by one. Raises UnusableRun with every fault."""
    file = read_config(options["config"]) if options.get("config") is not None else {}
    faults: list[str] = []
    told: Any = {}
    if (text := options.get("changes")) is not None:
        try:
            told = json.loads(text)
        except (ValueError, RecursionError) as error:
            faults.append(f"--set: {error}")
        if not isinstance(told, dict):
            faults.append("--set: give a JSON object")
    given = {name: value for name, value in options.items() if value is not None}
    if any(name in given for name in SOURCES):
        for name in SOURCES:
            file.pop(name, None)  # the command line names other rows
    whole: dict[str, Any] = {**options, **USUAL, **file, **given}
    if makes_classifier(whole["method"]) and "model" not in file | given:
        whole["model"] = WORDS
    for name in ("data", "output"):
        if isinstance(whole[name], str):
            whole[name] = Path(whole[name])
    named = [name for name in SOURCES if whole.get(name) is not None]
    if len(named) != 1:
        faults.append("--data or --agent-type: give one of them, or an --environment")
    if whole["output"] is None and not named:
        faults.append("--output: give a folder for the weights")
    if whole["rows"] and named != ["agent_type"]:
        faults.append("--rows: only with --agent-type; a file says itself which rows it holds")
    faults += [
        f"--{name.replace('_', '-')}: {whole[name]!r} {fault}"
        for name in ("tasks", "held_out")
        if (fault := KNOWN[name](whole[name])) is not None
    ]
    if faults:
        raise UnusableRun(faults)
    return whole | {"settings": merge_settings(file.get("settings", {}), told)}


def read_config(path: Path) -> dict[str, Any]:
    """The options that a file names, with the command's names for them. Its paths are relative to where the command is
    called. Raises UnusableRun with every fault."""
    try:
        content = yaml.safe_load(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise UnusableRun([f"--config: {path}: {error.strerror}"]) from error
    except (yaml.YAMLError, UnicodeDecodeError, RecursionError) as error:
        raise UnusableRun([f"--config: {path}: {' '.join(str(error).split())}"]) from error
    if not isinstance(content, dict):
        raise UnusableRun([f"--config: {path}: must be a mapping of options"])
    unknown = [name for name in content if name not in KNOWN]
    faults = [f"--config: {path}: {name}: is unknown; known: {', '.join(KNOWN)}" for name in unknown]
    for name, value in content.items():
        if name in KNOWN and (fault := KNOWN[name](value)) is not None:
            faults.append(f"--config: {path}: {name}: {value!r} {fault}")
    if faults:
        raise UnusableRun(faults)
    if "quantization" in content:
        content["no_quantization"] = not content.pop("quantization")
    return content


def choose_output(given: Path | None, agent_kind: str) -> Path:
    """The folder for the weights: that of the notes app for an agent of one of its kinds, where none is named. Raises
    UnusableRun."""
    if given is not None:
        return given
    if agent_kind not in FIVE:
        raise UnusableRun(["--output: give a folder for the weights"])
    return Path("models") / f"ocd-{agent_kind.lower()}-v1"


def as_training(options: Mapping[str, Any], agent_kind: str) -> Training:
    """What `complete_options` returned, as the plan of a run reads it."""
    return Training(
        method=options["method"],
        base=options["model"],
        agent_kind=agent_kind,
        epochs=options["epochs"],
        batch_size=options["batch_size"],
        learning_rate=options["learning_rate"],
        quantised=not options["no_quantization"],
        preset=options["preset"],
        settings=options["settings"],
    )
