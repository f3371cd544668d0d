"""One attempt from spec to result: load or make the model, train it by the spec's method, save, evaluate.

Called by `__main__` once the spec and the data are checked and the attempt's folder exists.
"""

from __future__ import annotations

import json
import shutil
import statistics
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

import msgspec
from transformers import AutoConfig

from training.engine.attempt.attempt import Attempt, Outcome
from training.engine.attempt.checkpoints import newest_checkpoint, write_synced
from training.engine.attempt.events import MEASURING
from training.engine.attempt.memory import BeginAgain, free_memory
from training.engine.classifiers.policy import is_classifier, load_classifier
from training.engine.classifiers.training import find_encoder_folder, train_classifier, weights_hash
from training.engine.data.learnt_prompts import find_learnt_forms, refuse_other_prompts
from training.engine.data.long_chats import leave_out_long_chats
from training.engine.data.reading import RunData
from training.engine.evaluation.evaluate import Evaluated, Policy, Which, evaluate, warn_of_cuts, write_lines
from training.engine.evaluation.watch import Watch
from training.engine.export.exporting import FOLDER, export
from training.engine.machine.hardware import prepare_torch
from training.engine.methods.reward_model import calibration_error, judge_pairs, load_reward_model
from training.engine.models.acting import find_acting_hash
from training.engine.models.less_memory import recompute_activations
from training.engine.models.loading import (
    ADAPTER,
    Loaded,
    attach_adapter,
    build_tiny,
    build_tokenizer,
    load_for_training,
    load_model,
    load_source,
    load_tokenizer,
    save,
    trainable_parameters,
    weights_sha256,
)
from training.engine.models.option_tokens import MANY_OPTIONS
from training.engine.models.prompts import PromptEncoder, SystemPromptTooLong, find_prompt_room, find_room
from training.engine.rows.prompt_forms import write_forms
from training.engine.rows.types import Asking, Labelled, Logged, Text, prompts_of
from training.engine.spec.base_files import is_sentence_encoder
from training.engine.spec.methods import RowKind
from training.engine.spec.result import RewardSpread, RunResult
from training.engine.spec.run_spec import Evaluate, ModelSource, RunSpec

PLAIN_TEMPLATE = "the base has no chat template, so it gets a plain one, which is saved with its tokenizer"
BY_AN_AGENT = "training.engine.served.grpo:train"
"""What trains where an outside agent acts."""
Train = Callable[[Attempt, Loaded, RunData], Outcome]
"""What a method's entry point is: trains the loaded model in place."""


def run_attempt(attempt: Attempt, data: RunData, threads: int) -> RunResult | None:
    """Does the work and writes `result.json`. Raises Stopped when asked to stop.

    Of several processes the main one does so alone; for the others there is no result.
    """
    began = time.monotonic()
    spec = attempt.spec
    prepare_torch(spec.seed, attempt.device)
    attempt.spec = spec = fit_prompts(spec, _texts_of(data))
    _refuse_long_system_prompts(spec, data)
    data = refuse_other_prompts(spec, data, attempt.events.warn)
    attempt.spec = spec = fit_completions(spec, [*data.texts, *data.heldout_texts])
    attempt.resume = newest_checkpoint(attempt.folder.parent, spec, attempt.events)
    resumed_from = str(attempt.resume.path.relative_to(attempt.folder.parent)) if attempt.resume else None
    attempt.events.write(
        "started",
        method=spec.method,
        device=str(attempt.device),
        threads=threads,
        processes=attempt.processes.count,
        attempt=attempt.number,
        resumed_from=resumed_from,
    )
    outcome, facts = Outcome(0, 0), dict[str, Any]()
    if spec.method == "export":
        if not attempt.processes.is_main:
            return None
        facts = _export(attempt, data)
    elif spec.trains_by.makes_classifier:
        facts, outcome = _make_classifier(attempt, data)
    elif spec.method != "evaluate":
        loaded, outcome = _trained(attempt, data)
        attempt.stop.check(outcome.steps)
        if not attempt.processes.is_main:
            return None
        facts = _save(attempt, loaded, outcome, data)
        del loaded
    elif not attempt.processes.is_main:
        return None
    found = Evaluated()
    if not spec.trains_by.makes_reward_model and spec.export is None:
        found = _evaluate(attempt, data, facts.get("output"))
    elif data.heldout_pairs and spec.evaluate is not None:
        found, measured = _judge(attempt, data, facts["output"])
        outcome = outcome.also(**measured)
    result = RunResult(
        run_id=spec.run_id,
        method=spec.method,
        attempt=attempt.number,
        steps=outcome.steps,
        rows=outcome.rows
        or len(data.heldout) + len(data.heldout_texts) + len(data.heldout_tasks)
        or _count_suites(data),
        seconds=round(time.monotonic() - began, 3),
        metrics=outcome.metrics,
        rewards=_spread_of([*outcome.rewards, *(row.reward for rows in (data.logged, data.texts) for row in rows)]),
        scores=found.scores,
        predictions=found.predictions,
        rankings=found.rankings,
        log=found.log,
        episodes=found.episodes,
        suites=found.suites,
        warnings=attempt.events.warnings,
        alarm=outcome.alarm,
        unanswered=data.unanswered if found.scores else 0,
        without_feedback=data.without_feedback if found.scores else 0,
        **facts,
    )
    write_synced(attempt.folder / "result.json", result.model_dump_json(indent=2) + "\n")
    return result


def _refuse_long_system_prompts(spec: RunSpec, data: RunData) -> None:
    """Before any weights are loaded, where there is a tokenizer already. Raises SystemPromptTooLong that names all."""
    rows: list[Asking] = [
        *data.labelled, *data.logged, *data.texts, *data.preferences, *data.replay, *data.log,
        *data.heldout, *data.heldout_texts, *data.heldout_pairs,
        *(row for suite in data.suites.values() for row in suite),
        *(row for suite in data.text_suites.values() for row in suite),
    ]  # fmt: skip
    prompts = [prompt for prompt in prompts_of(rows) if prompt.system or prompt.messages]
    if not prompts or spec.base.path is None or spec.trains_by.makes_classifier or is_classifier(spec.base):
        return
    faults = PromptEncoder(load_tokenizer(spec.base.path), spec.max_prompt_tokens).find_faults(prompts)
    if faults:
        raise SystemPromptTooLong("; ".join(faults))


def _texts_of(data: RunData) -> list[Asking]:
    """Rows whose answers are texts: to learn from, and to be measured on."""
    suites = (row for suite in data.text_suites.values() for row in suite)
    return [*data.texts, *data.heldout_texts, *suites, *data.preferences, *data.heldout_pairs]


def _count_heldout(data: RunData) -> int:
    return len(data.heldout) + len(data.heldout_texts) + len(data.heldout_tasks)


def _count_suites(data: RunData) -> int:
    return sum(len(rows) for suites in (data.suites, data.text_suites) for rows in suites.values())


def _spread_of(told: Iterable[float | None]) -> RewardSpread | None:
    rewards = [reward for reward in told if reward is not None]
    if not rewards:
        return None
    counts = [0] * 10
    for reward in rewards:
        counts[min(9, int(reward * 10 + 1e-9))] += 1  # 0.3 is 0.29999… of ten tenths
    return RewardSpread(
        rows=len(rewards),
        mean=statistics.fmean(rewards),
        deviation=statistics.pstdev(rewards),
        minimum=min(rewards),
        median=statistics.median(rewards),
        maximum=max(rewards),
        counts=counts,
    )


def fit_prompts(spec: RunSpec, rows: Sequence[Asking]) -> RunSpec:
    """The spec with room for the longest prompt of these rows of text, where it does not say how much there is, and no
    more than the base's positions leave beside the answer."""
    if not rows or "max_prompt_tokens" in spec.model_fields_set or spec.base.path is None:
        return spec
    tokenizer, config = load_tokenizer(spec.base.path), AutoConfig.from_pretrained(spec.base.path)
    limit = spec.max_completion_tokens if "max_completion_tokens" in spec.model_fields_set else None
    room = find_prompt_room(tokenizer, config, limit, rows)
    return spec.model_copy(update={"max_prompt_tokens": room})


def fit_completions(spec: RunSpec, texts: Sequence[Text]) -> RunSpec:
    """The spec with room for the longest of the texts and its end, where it does not say how much there is, and no more
    than the base's positions leave beside the prompt."""
    if not texts or "max_completion_tokens" in spec.model_fields_set or spec.base.path is None:
        return spec
    tokenizer, config = load_tokenizer(spec.base.path), AutoConfig.from_pretrained(spec.base.path)
    room = find_room(tokenizer, config, spec.max_prompt_tokens, texts)
    return spec.model_copy(update={"max_completion_tokens": room})


def _trained(attempt: Attempt, data: RunData) -> tuple[Loaded, Outcome]:
    while True:
        try:
            return _train(attempt, data)
        except BeginAgain as full:
            before, fewer = full.before, full.fewer
        # Only here, without the error: its traceback holds the model and what filled the memory.
        _prepare_again(attempt, before, fewer)


def _prepare_again(attempt: Attempt, before: int, fewer: int) -> None:
    """For a training with half as many rows at once: from its newest checkpoint, or with the draws of its beginning."""
    attempt.halved += 1
    attempt.watch = attempt.save_epoch = None
    free_memory()
    prepare_torch(attempt.spec.seed, attempt.device)
    attempt.resume = newest_checkpoint(attempt.folder.parent, attempt.spec, attempt.events)
    goes_on = f"continues after step {attempt.resume.step}" if attempt.resume is not None else "begins again"
    attempt.events.warn(
        f"out of memory with {before} rows at once: the training {goes_on} with {fewer} at once, accumulated more "
        "times; an update has the same rows"
    )


def _train(attempt: Attempt, data: RunData) -> tuple[Loaded, Outcome]:
    spec = attempt.spec
    if spec.trains_by.makes_model:
        loaded = _grown(attempt, data)
    else:
        loaded = _load(attempt, data)
        if spec.base.adapter is not None and spec.lora is not None:
            attempt.events.warn("base.adapter is trained further as it is: the spec's lora settings do not change it")
    _warn_of(attempt, loaded)
    data = leave_out_long_chats(loaded, spec.max_prompt_tokens, data, attempt.events.warn)
    learnt: list[Asking] = [*data.labelled, *data.logged, *data.texts, *data.preferences]
    warn_of_cuts(attempt, loaded, prompts_of(learnt), "rows to learn from")
    warn_of_cuts(attempt, loaded, prompts_of(data.replay), "replayed rows")
    if data.unjudged:
        attempt.events.warn(f"{data.unjudged} rows that nobody judged are left out: {spec.method} needs a reward")
    if spec.gradient_checkpointing:
        recompute_activations(loaded.model)
    if spec.epoch_checkpoints and attempt.processes.is_main:
        attempt.save_epoch = partial(_save_epoch, attempt, loaded, data)
    assert spec.train_rows is not None
    entry = spec.trains_by.entry_for(spec.train_rows) if attempt.agent is None else BY_AN_AGENT
    module, function = entry.split(":")
    train: Train = getattr(import_module(module), function)
    shown = not spec.trains_by.makes_reward_model and spec.train_rows is not RowKind.TASKS
    if spec.samples and attempt.processes.is_main and shown:
        attempt.watch = watch = Watch(attempt, loaded, data)
        outcome = train(attempt, loaded, data)
        watch.close()
        return loaded, outcome
    return loaded, train(attempt, loaded, data)


def _warn_of(attempt: Attempt, loaded: Loaded) -> Loaded:
    """What the run should say of a model that it has loaded; returns the model."""
    if loaded.plain_template:
        attempt.events.warn(PLAIN_TEMPLATE)
    return loaded


def _load(attempt: Attempt, data: RunData) -> Loaded:
    spec = attempt.spec
    learnt_from: list[Labelled | Logged] = [*data.labelled, *data.logged, *data.replay]
    return load_for_training(
        spec.base,
        spec.lora,
        attempt.device,
        freeze_embeddings=spec.freeze_embeddings,
        quantised=spec.quantisation is not None,
        options={option for row in learnt_from for option in row.options} if spec.option_tokens else (),
    )


def _grown(attempt: Attempt, data: RunData) -> Loaded:
    """The model that pretraining starts from: a fresh tiny one, or the one that the spec names."""
    shape = attempt.spec.base.tiny
    if shape is None:
        return _load(attempt, data)
    options = sorted({option for row in data.labelled for option in row.options})
    read = [
        text for prompt in prompts_of([*data.labelled, *data.texts]) for text in (prompt.text, prompt.system) if text
    ]
    if len(options) > MANY_OPTIONS and not attempt.spec.pretrain.option_tokens:
        read, options = [*read, *options], []
    tokenizer = build_tokenizer([*read, *(row.completion for row in data.texts)], options, shape.vocabulary)
    return Loaded(build_tiny(shape, tokenizer).to(attempt.device).eval(), tokenizer)


def _save_epoch(attempt: Attempt, loaded: Loaded, data: RunData, epoch: int) -> None:
    """checkpoint-epoch-N/, whole or not there: what `from_pretrained` of transformers or peft loads. A training that
    began again may have left one."""
    folder = attempt.folder / f"checkpoint-epoch-{epoch}"
    unfinished = attempt.folder / f".unfinished-epoch-{epoch}"
    save(loaded, unfinished)
    write_forms(unfinished, find_learnt_forms(attempt.spec, data))
    if folder.exists():
        shutil.rmtree(folder)
    unfinished.rename(folder)


def _export(attempt: Attempt, data: RunData) -> dict[str, Any]:
    report = export(attempt, data)
    return {"output": FOLDER, "export": report}


def _save(attempt: Attempt, loaded: Loaded, outcome: Outcome, data: RunData) -> dict[str, Any]:
    """Saves the model or adapter and returns what the result says of it."""
    output = "adapter" if loaded.adapts else "model"
    folder = attempt.folder / output
    attempt.events.progress(0, 1, f"saving the {output}", MEASURING)
    save(loaded, folder)
    if not attempt.spec.trains_by.makes_reward_model:
        write_forms(folder, find_learnt_forms(attempt.spec, data))
    if outcome.save_beside is not None:
        outcome.save_beside(folder)
    return {
        "output": output,
        "weights_sha256": weights_sha256(folder),
        "acting_sha256": find_acting_hash(loaded, output, folder),
        "trainable_parameters": sum(p.numel() for p in trainable_parameters(loaded.model).values()),
        "total_parameters": sum(p.numel() for p in loaded.model.parameters()),
        "precision": str(attempt.precision_of(loaded.model)).removeprefix("torch."),
    }


def _make_classifier(attempt: Attempt, data: RunData) -> tuple[dict[str, Any], Outcome]:
    """Trains and saves it; what the result says of it, and what the training did."""
    if data.unjudged:
        attempt.events.warn(f"{data.unjudged} rows that nobody judged are left out: a classifier needs a reward")
    classifier, outcome = train_classifier(attempt, data)
    folder = attempt.folder / "classifier"
    classifier.save(folder)
    write_forms(folder, find_learnt_forms(attempt.spec, data))
    weights = weights_hash(classifier)
    learnt = sum(tensor.size for tensor in classifier.tensors().values())
    facts = {
        "output": "classifier",
        "weights_sha256": weights,
        "acting_sha256": weights,
        "trainable_parameters": learnt,
        "total_parameters": learnt + (classifier.encoder.parameters if classifier.encoder is not None else 0),
        "precision": "float32",
    }
    return facts, outcome


def _evaluate(attempt: Attempt, data: RunData, output: str | None) -> Evaluated:
    """What training began with as "base", what this attempt saved as "trained"; of the method evaluate base.path alone
    and base.adapter over it."""
    spec = attempt.spec
    if spec.evaluate is None and spec.method != "evaluate":
        data = msgspec.structs.replace(data, heldout=[], heldout_texts=[], heldout_tasks=[], rankings=[])
    asked = data.heldout or data.heldout_texts or data.heldout_tasks
    if not (asked or data.log or data.suites or data.text_suites):
        return Evaluated()
    measured = len(data.heldout) + len(data.heldout_texts)
    if measured and data.unanswered:
        attempt.events.warn(
            f"{data.unanswered} held-out decisions were wrong and do not name the right action. They are left out; the "
            f"scores on the other {measured} favour models that decide like the old policy"
        )
    if measured and data.without_feedback:
        attempt.events.warn(
            f"{data.without_feedback} held-out decisions have no feedback. They are left out of the scores"
        )
    return evaluate(attempt, _Saved(attempt, output), data, spec.evaluate or Evaluate())


def _judge(attempt: Attempt, data: RunData, output: str) -> tuple[Evaluated, dict[str, float]]:
    """What the reward model says of the held-out pairs, as it was saved; and what the result's metrics say of it."""
    folder = str(attempt.folder / output)
    source = ModelSource(path=folder) if output == "model" else ModelSource(path=attempt.spec.base.path, adapter=folder)
    attempt.events.progress(0, 1, "ordering the held-out pairs", MEASURING)
    lines, score = judge_pairs(load_reward_model(attempt, source), data.heldout_pairs)
    margins = [line["margin"] for line in lines]
    found = Evaluated({"trained": score}, write_lines(attempt, "predictions.jsonl", map(json.dumps, lines)))
    return found, {
        "heldout_ordered_rightly": score.accuracy,
        "heldout_margin": sum(margins) / len(margins),
        "heldout_calibration_error": calibration_error(margins),
    }


class _Saved(Mapping[Which, Policy]):
    """Loads each model when the evaluation comes to it."""

    def __init__(self, attempt: Attempt, output: str | None) -> None:
        self._attempt, self._output = attempt, output
        source = attempt.spec.base
        over = source.adapter is not None and not is_classifier(source)
        has_trained = output is not None or over
        acts = source.path is not None and (is_classifier(source) or not is_sentence_encoder(Path(source.path)))
        base: list[Which] = ["base"] if acts else []
        trained: list[Which] = ["trained"] if has_trained else []
        self._names = base + trained

    def __getitem__(self, which: Which) -> Policy:
        attempt, source = self._attempt, self._attempt.spec.base
        if self._output == "classifier" and which == "trained":
            return load_classifier(self._saved_classifier(), attempt.device)
        if is_classifier(source):
            return load_classifier(source, attempt.device)
        if which == "base":
            began = source if self._output is not None else ModelSource(path=source.path)
            return _warn_of(attempt, load_source(began, attempt.device))
        if self._output is None:
            return _warn_of(attempt, load_source(source, attempt.device))
        folder = (attempt.folder / self._output).resolve()
        if self._output == "model":
            saved = ModelSource(path=str(folder))
            return Loaded(load_model(folder, attempt.device), load_tokenizer(folder), source=saved)
        model = attach_adapter(load_model(str(source.path), attempt.device), folder, ADAPTER)
        return Loaded(model, load_tokenizer(folder), source=ModelSource(path=source.path, adapter=str(folder)))

    def _saved_classifier(self) -> ModelSource:
        """Where the classifier is that this attempt has saved, and its encoder."""
        folder, encoder = str((self._attempt.folder / "classifier").resolve()), find_encoder_folder(self._attempt.spec)
        return ModelSource(path=folder) if encoder is None else ModelSource(path=encoder, adapter=folder)

    def __iter__(self) -> Iterator[Which]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)
