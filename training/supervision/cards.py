"""Model cards: README.md in the folder of every trained or exported version, in the form that model hubs read.

It names the base that the version's first ancestor came from, whose terms apply, and the command that loads it. A
folder that becomes a base itself, such as an export or what `manage.py train` wrote, passes that name on.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from models_registry.models import ArtifactKind, GateVerdict, ModelVersion
from training.evaluation.measures import titles_for
from training.models import ExportFormat, TrainingRun
from training.runs.base_models import MADE_HERE, TINY
from training.supervision.model_card import LICENCES, card_lines, say_gate, say_scores, say_verdict

CARD = "README.md"
NEW_TINY = "a new tiny model"
_BASE = re.compile(r"^- Base model: (.+?)(?:; its terms apply)?$", re.MULTILINE)


def name_base(base_model: str) -> str:
    """A hub id as it is. Of a folder what its card says that it began with, or else its name, for its place means
    nothing elsewhere."""
    if not base_model.startswith("/"):
        return base_model
    card = Path(base_model) / CARD
    told = _BASE.search(card.read_text(encoding="utf-8", errors="replace")) if card.is_file() else None
    if told is None:
        return Path(base_model).name
    return TINY if told[1] == NEW_TINY else told[1]


def find_base_name(run: TrainingRun) -> str:
    """The model that the first of the run's ancestors was made from: `tiny`, a hub id or a folder's name; "" for a
    version that was imported."""
    if run.base_version is None:
        return name_base(run.base_model)
    if run.base_version.base_model:
        return run.base_version.base_model
    # A version that is older than its note of the base.
    earlier = TrainingRun.objects.filter(produced_version=run.base_version)
    made_by = earlier.select_related("base_version__artifact").first()
    return find_base_name(made_by) if made_by is not None else ""


def card_of_run(
    run: TrainingRun,
    *,
    kind: ArtifactKind,
    scores: Mapping[str, Any] | None = None,
    by_log: GateVerdict | None = None,
) -> Mapping[str, str]:
    """Of what a run has made: the card's text by its file's name. `scores`: of the new model on held-out rows;
    `by_log`: the estimate from logged decisions. Its page and its export have the whole card
    (`training.supervision.model_card`).
    """
    facts = [("Trained by", run.method), ("on", f"{run.dataset}, SHA-256 {run.dataset.artifact.digest}")]
    if run.dataset.environment:
        facts.append(("Environment", run.dataset.environment))
    facts += say_scores(scores or {}, titles_for(run.heldout))
    if by_log is not None:
        facts.append((say_gate(by_log), say_verdict(by_log)))
    if run.base_version is not None:
        facts.append(("Starts from", f"{run.base_version}, {run.base_version.stored.digest}"))
    return {CARD: _write(f"{run.agent.slug}: {run.method} on {run.dataset}", find_base_name(run), facts, kind)}


def card_of_export(version: ModelVersion, format: str, report: Mapping[str, Any]) -> Mapping[str, str]:
    """Of a version's files in another format, with what their comparison found (`ExportReport` as JSON): the card's
    text by its file's name."""
    parity = report["parity"]
    facts = [
        ("Exported from", str(version)),
        ("Format", format),
        (
            "Compared with the version",
            f"{parity['equal_decisions']:.4f} of {parity['decisions']} decisions are the same in {parity['runtime']} "
            "(parity.json)",
        ),
    ]
    kind = ArtifactKind.ADAPTER if format == ExportFormat.LORA else ArtifactKind.MODEL
    how = _load_files(format, report["files"])
    if version.is_classifier:
        kind, how = ArtifactKind.CLASSIFIER, report["details"]["use"]
    text = _write(str(version), version.base_model, facts, kind, how=how)
    return {CARD: "\n".join([text, *card_lines(version)])}


def _load_files(format: str, files: Iterable[str]) -> list[str] | None:
    """How a file of this format is opened; None for what transformers loads."""
    if format == ExportFormat.ONNX:
        return ["import onnxruntime", "", 'session = onnxruntime.InferenceSession("THIS FOLDER/model.onnx")']
    if format == ExportFormat.GGUF:
        name = next(file for file in files if file.endswith(".gguf"))
        return ["# llama-server --model THIS-FOLDER/" + name]
    return None


def card_of_folder(base_model: str, *, method: str, rows: int, kind: ArtifactKind) -> str:
    """Of what `manage.py train` wrote; `base_model` is what it was told, a folder by its whole path."""
    facts = [("Trained by", method), ("on", f"{rows:,} rows of a file")]
    return _write(f"{name_base(base_model)}: {method}", name_base(base_model), facts, kind)


def _write(
    title: str,
    base: str,
    facts: Sequence[tuple[str, str]],
    kind: ArtifactKind,
    how: Sequence[str] | None = None,
) -> str:
    """`how`: lines of Python that load it, where transformers does not."""
    if kind is ArtifactKind.REWARD_MODEL:
        facts = [("Kind", "reward model: it scores texts for training (reward_model.json) and is not a policy"), *facts]
    if kind is ArtifactKind.CLASSIFIER:
        files = "" if how is not None else " (classifier.json)"
        facts = [("Kind", f"classifier: linear weights on words or on a sentence encoder{files}"), *facts]
    is_adapter = kind is ArtifactKind.ADAPTER
    head = ["tags: [reckoner]"]
    if kind is not ArtifactKind.CLASSIFIER:  # no library of a hub loads one
        head.append(f"library_name: {'peft' if is_adapter else 'transformers'}")
    if base and base not in MADE_HERE:
        head.append(f"base_model: {json.dumps(base, ensure_ascii=False)}")
        if base in LICENCES:
            head.append(f"license: {LICENCES[base].lower()}")
        facts = [("Base model", f"{base}; its terms apply"), *facts]
    elif base == TINY:
        facts = [("Base model", NEW_TINY), *facts]
    load = ["from transformers import AutoModelForCausalLM, AutoTokenizer", ""]
    if how is not None:
        load = list(how)
    elif is_adapter:
        load = [
            "from peft import PeftModel",
            *load,
            'model = AutoModelForCausalLM.from_pretrained("FOLDER OF THE VERSION THAT IT STARTS FROM")',
            'model = PeftModel.from_pretrained(model, "THIS FOLDER")',
        ]
    else:
        load.append('model = AutoModelForCausalLM.from_pretrained("THIS FOLDER")')
    if how is None:
        load.append('tokenizer = AutoTokenizer.from_pretrained("THIS FOLDER")')
    if kind is ArtifactKind.REWARD_MODEL:  # its head is ours to read, and the weights alone mean nothing
        load = ["# python -m training.engine RUN, with this folder as the source of the reward component `model`"]
    if kind is ArtifactKind.CLASSIFIER and how is None:
        load = ["from safetensors.numpy import load_file", "", 'tensors = load_file("THIS FOLDER/head.safetensors")']
    lines = ["---", *head, "---", "", f"# {title}", "", *(f"- {name}: {value}" for name, value in facts), ""]
    return "\n".join([*lines, "```python", *load, "```", ""])
