"""Method `export`: writes a version in one format, loads it again in that format's runtime, and compares both.

The files lie in the attempt's folder `export`, its report is part of the result. An export that misses its bound is
written all the same: whoever asked decides what becomes of it by `report.parity.refusals`.
"""

from __future__ import annotations

import time
from importlib import import_module
from pathlib import Path
from typing import Any, TypeVar

import torch

from training.engine.attempt.attempt import Attempt
from training.engine.attempt.stop import watched
from training.engine.classifiers.policy import is_classifier
from training.engine.data.reading import RunData
from training.engine.export.classifiers import compare_classifier, write_classifier
from training.engine.export.hard_texts import HARD_TEXTS, find_hard_texts
from training.engine.export.ordinary_texts import find_ordinary_texts
from training.engine.export.parity import Probe, compare
from training.engine.export.runtimes import TorchRuntime, tokenise
from training.engine.models.prompts import PromptEncoder
from training.engine.rows.types import prompts_of
from training.engine.spec.export_formats import Format
from training.engine.spec.export_spec import ExportPlan, ExportReport, Parity

R = TypeVar("R")
FOLDER = "export"
WRITERS = {
    Format.LORA: "training.engine.export.lora",
    Format.MERGED: "training.engine.export.merged",
    Format.ONNX: "training.engine.export.onnx",
    Format.GGUF: "training.engine.export.gguf_export",
}
"""Each has `write(source, folder, plan) -> details` and `load(source, folder, plan) -> Runtime`."""
RENDERED = 20
"""So many prompts are compared as texts, in the chat template."""


def export(attempt: Attempt, data: RunData) -> ExportReport:
    """Raises Stopped when asked to stop between two prompts; while files are written or loaded the process ends."""
    spec, plan = attempt.spec, attempt.spec.export
    assert plan is not None
    folder = attempt.folder / FOLDER
    folder.mkdir()
    began = time.monotonic()
    if is_classifier(spec.base):
        with watched(attempt.stop, attempt.events, 0, f"writing {plan.format}"):
            classifier, details = write_classifier(attempt, data, folder)
        written = time.monotonic()
        parity = compare_classifier(attempt, data, classifier, folder, details["use"])
        return _report(attempt, folder, began, written, parity, details)
    writer = import_module(WRITERS[plan.format])
    with (
        watched(attempt.stop, attempt.events, 0, f"writing {plan.format}"),
        torch.inference_mode(plan.format is not Format.ONNX),  # the tracer wants ordinary tensors
    ):
        details = writer.write(spec.base, folder, plan)
    written = time.monotonic()
    attempt.stop.check()
    with watched(attempt.stop, attempt.events, 0.5, "loading both models"):
        version = TorchRuntime(str(spec.base.path), spec.base.adapter)
        runtime = writer.load(spec.base, folder, plan)
    parity = _compare(attempt, data, version, runtime, plan)
    return _report(attempt, folder, began, written, parity, details)


def _report(
    attempt: Attempt, folder: Path, began: float, written: float, parity: Parity, details: dict[str, Any]
) -> ExportReport:
    """What is said of the files: written from `began` to `written`, by time.monotonic(), and compared until now."""
    plan = attempt.spec.export
    assert plan is not None
    files = {str(path.relative_to(folder)): path.stat().st_size for path in sorted(folder.rglob("*")) if path.is_file()}
    return ExportReport(
        plan=plan,
        bytes=sum(files.values()),
        files=files,
        seconds_written=round(written - began, 3),
        seconds_compared=round(time.monotonic() - written, 3),
        parity=parity,
        details=details,
        warnings=attempt.events.warnings,
    )


def _compare(attempt: Attempt, data: RunData, version: TorchRuntime, export: Any, plan: ExportPlan) -> Parity:
    probes = make_probes(version.tokenizer, data, attempt.spec.max_prompt_tokens, plan.parity_rows)
    held_out = bool(probes)
    if not held_out:
        # With the token that the tokenizer puts first: Gemma's predictions are useless without it.
        texts = [*HARD_TEXTS, *find_ordinary_texts()]
        probes = [Probe(ids, 0) for ids in version.tokenizer(texts)["input_ids"] if ids]
    rendered = [probe.text for probe in probes if probe.text][:RENDERED]
    offered = {option for row in data.heldout for option in row.options}

    def on_probe(done: int) -> None:
        attempt.stop.check(done)
        if attempt.events.due():
            attempt.events.progress(50 + 50 * done // len(probes), 100, f"compared {done} of {len(probes)}")

    return compare(
        version,
        export,
        probes=probes,
        held_out=held_out,
        texts=find_hard_texts(version.tokenizer, version.rows, offered, rendered),
        plan=plan,
        on_probe=on_probe,
    )


def make_probes(tokenizer: Any, data: RunData, max_prompt_tokens: int, most: int) -> list[Probe]:
    """Of the held-out rows, at most so many, evenly over the file; none where there are no rows with a prompt."""
    encoder = PromptEncoder(tokenizer, max_prompt_tokens)
    end = tokenizer.eos_token_id

    def answers(texts: list[str]) -> list[list[int]]:
        return [[*ids, end] for ids in tokenizer(texts, add_special_tokens=False)["input_ids"]]

    choices = _spread([row for row in data.heldout if len(row.options) > 1], most)
    made = []
    for text, row in zip(encoder.render(prompts_of(choices)), choices, strict=True):
        ids = tokenise(tokenizer, text)
        made.append(Probe(ids, len(ids) - 1, answers(list(row.options)), text, row.options.index(row.answer)))
    prompts, replies = encoder.encode_rows(_spread(data.heldout_texts, most))
    return made + [Probe([*ids, *reply[:-1]], len(ids) - 1) for ids, reply in zip(prompts, replies, strict=True)]


def _spread(rows: list[R], most: int) -> list[R]:
    return [rows[place * len(rows) // most] for place in range(most)] if len(rows) > most else rows
