"""The bridge to TRL: runs one of its trainers as a method of ours is run (docs/adr/0026-trl-behind-a-bridge.md).

TRL owns the loop. A callback maps its logs to events, the stop flag to its control, and the spec's pace to its
checkpoints, which are folders of transformers' own form under `attempts/<n>/checkpoints`. A resumed run goes on from
their weights, moments, schedule and generators. Unlike for methods of ours, it is not promised that it ends with the
same bits as an uninterrupted one. Where memory runs out, it begins again with fewer rows at once (`parts`). Nothing is
reported or sent anywhere; every file lies in the attempt's folder.
"""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import datasets
import huggingface_hub.constants
import torch
import trl.trainer.utils
from transformers import PrinterCallback, TrainerCallback, TrainerControl, TrainerState

from training.engine.attempt.attempt import Attempt, Outcome
from training.engine.attempt.checkpoints import mark_complete
from training.engine.attempt.memory import BeginAgain, is_out_of_memory
from training.engine.models.loading import Loaded
from training.engine.models.prompts import PromptEncoder
from training.engine.rows.types import Text
from training.engine.spec.run_spec import CHECKPOINTS_KEPT
from training.engine.text.parts import Parts
from training.engine.updates.fit import Diverged, pause_for

huggingface_hub.constants.HF_HUB_DISABLE_TELEMETRY = True  # TRL's trainers send some when they are made
datasets.disable_progress_bars()
_scores_replies_alone = trl.trainer.utils._use_triton


def _skips_prompts(device: torch.device) -> bool:
    """Decides whether TRL's output layer reads the replies alone. TRL has it read the prompts, too, wherever a kernel
    might be compiled for each size. On processors none is, and with a large vocabulary that takes most of the time."""
    return device.type == "cpu" or _scores_replies_alone(device)


trl.trainer.utils._use_triton = _skips_prompts

REFERENCE = "ref"
"""The adapter that TRL adds to a model under LoRA: a copy of the one in training, as it was at the start."""
UNTOLD = {"epoch", "num_tokens", "num_input_tokens_seen", "total_flos", "step_time"}
"""Logs that say nothing of the training."""
MUST_BE_FINITE = ("loss", "grad_norm")


class Lesson(NamedTuple):
    """A row, the tokens of what it asks, and those of its reply, up to the end of the turn."""

    row: Text
    prompt_ids: list[int]
    reply_ids: list[int]


class Bridge(TrainerCallback):
    """Follows one training. `metrics` are the last that were told."""

    def __init__(self, attempt: Attempt, message: str) -> None:
        self.attempt = attempt
        self.message = message
        self.metrics: dict[str, float] = {}
        self._due = time.monotonic() + attempt.spec.checkpoint_every_seconds
        self._began = 0.0

    def on_train_begin(self, args: Any, state: TrainerState, control: TrainerControl, **kwargs: Any) -> None:
        self.attempt.events.progress(state.global_step, state.max_steps, self.message)

    def on_step_end(self, args: Any, state: TrainerState, control: TrainerControl, **kwargs: Any) -> None:
        """Says what is to follow this step. Logs come before the checkpoint, so weights that diverged leave none; an
        epoch's weights come before both, so a run that goes on from the checkpoint has them."""
        if self.attempt.save_epoch is not None and state.epoch is not None and float(state.epoch).is_integer():
            self.attempt.save_epoch(int(state.epoch))
        self._began = time.monotonic()
        stopping = self.attempt.hear_stop()
        # Saving and logging are done by all processes together.
        saving, telling = self.attempt.processes.any(self._began >= self._due, self.attempt.events.due())
        control.should_training_stop = control.should_training_stop or stopping
        control.should_save = control.should_training_stop or saving
        last = state.global_step == state.max_steps
        control.should_log = control.should_save or last or telling or state.global_step == 1

    def on_log(self, args: Any, state: TrainerState, control: TrainerControl, **kwargs: Any) -> None:
        logs: Mapping[str, Any] = kwargs["logs"]
        if "train_runtime" in logs:  # a summary, after the last step
            return
        told = {name: float(value) for name, value in logs.items() if isinstance(value, int | float)}
        lost = [name for name in MUST_BE_FINITE if not math.isfinite(told.get(name, 0.0))]
        if lost:
            raise Diverged(f"{', '.join(lost)} not finite after step {state.global_step}: lower the learning rate")
        # Of a batch without wrong rows, TRL gives their mean as nan.
        self.metrics = {
            name.replace("/", "_"): value for name, value in told.items() if name not in UNTOLD and math.isfinite(value)
        }
        watch, last = self.attempt.watch, state.global_step == state.max_steps
        seen = watch.measure(state.global_step, last=last) if watch is not None else {}
        self.attempt.events.metric(state.global_step, {**seen, **self.metrics})
        self.attempt.events.progress(state.global_step, state.max_steps, self.message)

    def on_save(self, args: Any, state: TrainerState, control: TrainerControl, **kwargs: Any) -> None:
        folder = Path(args.output_dir) / f"checkpoint-{state.global_step}"
        self.attempt.processes.wait()  # each has put its generators' states into it
        if self.attempt.processes.is_main:
            mark_complete(folder, state.global_step, self.attempt.spec)
        path = str(folder.relative_to(self.attempt.folder))
        self.attempt.events.write("checkpoint", step=state.global_step, path=path)
        now = time.monotonic()
        self._due = now + pause_for(now - self._began, self.attempt.spec.checkpoint_every_seconds)


def share_of_batch(attempt: Attempt, rows: int) -> int:
    """How many of the `rows` a batch holds in each process: as many as the spec says, equally many."""
    return max(1, min(attempt.spec.optimiser.batch_size, rows) // attempt.processes.count)


def common_arguments(attempt: Attempt, loaded: Loaded, parts: Parts) -> dict[str, Any]:
    """What every trainer of TRL is told: the spec's optimiser, seed, device and precision, and that the bridge decides
    when to log and when to save."""
    spec, optimiser = attempt.spec, attempt.spec.optimiser
    return {
        "output_dir": str(attempt.folder / "checkpoints"),
        "per_device_train_batch_size": parts.at_once,
        "gradient_accumulation_steps": parts.accumulated,
        "num_train_epochs": optimiser.epochs,
        "learning_rate": optimiser.learning_rate,
        "weight_decay": optimiser.weight_decay,
        "adam_beta2": 0.98,
        "max_grad_norm": optimiser.clip_norm,
        "lr_scheduler_type": "cosine",
        "warmup_steps": 0.1,
        "seed": spec.seed,
        "use_cpu": attempt.device.type == "cpu",
        "bf16": attempt.precision_of(loaded.model) is torch.bfloat16,
        "fp16": attempt.precision_of(loaded.model) is torch.float16,
        "gradient_checkpointing": False,
        "dataloader_pin_memory": attempt.device.type == "cuda",
        "logging_strategy": "no",
        "logging_nan_inf_filter": False,
        "save_strategy": "no",
        "save_total_limit": CHECKPOINTS_KEPT,
        "report_to": "none",
        "disable_tqdm": True,
    }


class Conversations:
    """Rows as the tokens of chats: what a model reads and writes everywhere (training.engine.models.prompts). TRL's
    trainers get tokens, and render nothing themselves."""

    def __init__(self, attempt: Attempt, loaded: Loaded) -> None:
        self.encoder = PromptEncoder(loaded.tokenizer, attempt.spec.max_prompt_tokens)
        self.attempt = attempt
        self.longest = attempt.spec.max_completion_tokens

    def read_fitting(self, rows: Sequence[Text]) -> list[Lesson]:
        """The rows whose replies the model could write within the spec's longest completion, their ends included; a
        warning says how many it could not. Raises ValueError where it could none."""
        prompts, replies = self.encoder.encode_rows(rows)
        lessons = [Lesson(*told) for told in zip(rows, prompts, replies, strict=True)]
        kept = [lesson for lesson in lessons if len(lesson.reply_ids) <= self.longest]
        left_out = f"{len(rows) - len(kept)} of {len(rows)} rows hold texts of over {self.longest} tokens"
        if not kept:
            raise ValueError(f"{left_out}: raise max_completion_tokens")
        if len(kept) < len(rows):
            self.attempt.events.warn(f"{left_out} (max_completion_tokens) and were left out")
        return kept


def run_trainer(attempt: Attempt, loaded: Loaded, trainer: Any, parts: Parts, rows: int, message: str) -> Outcome:
    """Trains `loaded` in place, from the attempt's checkpoint where there is one. Raises Stopped when asked to stop,
    after a checkpoint, and Diverged when the loss stops being a number. Where memory runs out: BeginAgain, or
    torch.OutOfMemoryError with the reason why fewer rows at once are no way out."""
    bridge = Bridge(attempt, message)
    trainer.add_callback(bridge)
    trainer.remove_callback(PrinterCallback)
    attempt.stop.check()
    if not _trains_to_its_end(attempt, trainer):
        # Only here, without the error: its traceback holds the tensors that filled the memory.
        raise _answer_full_memory(attempt, parts)
    step = int(trainer.state.global_step)
    attempt.stop.check(step)
    if loaded.adapts and REFERENCE in loaded.model.peft_config:
        loaded.model.delete_adapter(REFERENCE)
    loaded.model.eval()
    return Outcome(step, rows, bridge.metrics).also(**_compare_ends(trainer.state))


def _trains_to_its_end(attempt: Attempt, trainer: Any) -> bool:
    """False where memory ran out on the way."""
    try:
        trainer.train(resume_from_checkpoint=str(attempt.resume.path) if attempt.resume is not None else None)
    except RuntimeError as error:  # torch.OutOfMemoryError is one
        if not is_out_of_memory(error):
            raise
        return False
    return True


def _answer_full_memory(attempt: Attempt, parts: Parts) -> Exception:
    rows = f"{parts.at_once} rows" if parts.at_once > 1 else "1 row"
    count, full = attempt.processes.count, f"out of memory with {rows} at once"
    if count > 1:
        return torch.OutOfMemoryError(
            f"{full} in one of {count} processes, which cannot restart by itself: start the run with fewer rows at "
            "once (batch_size, for grpo prompts_per_step) and more accumulated"
        )
    if parts.fewer is None:
        return torch.OutOfMemoryError(
            f"{full}, and method {attempt.spec.method} cannot learn from fewer: shorten max_prompt_tokens or "
            "max_completion_tokens, train an adapter (lora), or set gradient_checkpointing"
        )
    return BeginAgain(parts.at_once, parts.fewer)


def _compare_ends(state: TrainerState) -> dict[str, float]:
    """The first step's loss, and the mean of the last ones that was told. The state is in every checkpoint."""
    told = [float(logs["loss"]) for logs in state.log_history if "loss" in logs]
    return {"loss_at_start": told[0], "loss_at_end": told[-1]} if told else {}


def make_dataset(**columns: Sequence[Any]) -> Any:
    """A dataset in memory: nothing of it is written to the disk."""
    return datasets.Dataset.from_dict({name: list(values) for name, values in columns.items()})
