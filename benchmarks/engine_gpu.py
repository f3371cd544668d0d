"""Training with the engine at Qwen2.5-0.5B's shape: speed, memory, and whether it does on a GPU what it does on a CPU.

    python -m benchmarks.engine_gpu [--quick] [--shape half-billion|tiny] [--methods posterior,…] [--batch-size N]

Runs every method through the engine's entry point, stops one by SIGTERM and resumes it, and compares the scores of
options between devices and precisions. Uses CUDA where there is one. Prints one JSON object as the last line; exits 1
when a run fails, its loss does not fall (a reward is only reported: from random weights few steps earn little), or it
does not change the weights.
"""

import argparse
import contextlib
import gc
import json
import os
import signal
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from datetime import datetime
from itertools import pairwise
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file

from tools.big_model import SHAPES, Task, make_base, write_rows
from training.engine.__main__ import main as engine
from training.engine.machine.hardware import choose_device
from training.engine.models.actions import ActionScorer
from training.engine.models.loading import load_model, load_tokenizer, silence_progress_bars
from training.engine.spec.run_spec import EXIT_OK, EXIT_STOPPED

METHODS = ("pretrain", "posterior", "reward_weighted", "grpo", "ppo")
ONLINE = {"grpo", "ppo"}
PROMPT_TOKENS = 64
STEADY_FROM = 5
"""Steps before this one warm up kernels and caches and are not timed."""


def write_run(
    folder: Path, method: str, base: Path, task: Task, options: argparse.Namespace, checkpoint_every: float = 300
) -> Path:
    rows = options.batch_size * options.steps // 4  # four epochs
    make = task.logged if method in {"posterior", "reward_weighted"} else task.labelled
    # A fifth of the labelled rows is kept for calibration.
    write_rows(folder / "data" / "train.jsonl", make(rows * 5 // 4 if method == "pretrain" else rows, 1))
    spec = {
        "run_id": folder.name,
        "method": method,
        "seed": 1,
        "base": {"path": str(base)},
        "lora": None if method == "pretrain" else {"r": 16, "alpha": 32},
        "max_prompt_tokens": PROMPT_TOKENS,
        "optimiser": {
            "learning_rate": 3e-4 if method == "pretrain" else 1e-3,
            "epochs": 4,
            "batch_size": options.batch_size,
        },
        "online": {"steps": options.steps, "prompts_per_step": options.batch_size // 2},
        "reward": [{"name": "matches_answer"}] if method in ONLINE else [],
        "data": {"train": "data/train.jsonl"},
        "checkpoint_every_seconds": checkpoint_every,
        "threads": 1 if options.shape == "tiny" else None,
    }
    (folder / "spec.json").write_text(json.dumps(spec))
    return folder


def read_events(run: Path, attempt: int) -> list[dict[str, Any]]:
    """Whole lines only: the engine may be writing the last one."""
    path = run / "attempts" / str(attempt) / "events.jsonl"
    lines = path.read_text().splitlines(keepends=True) if path.exists() else []
    return [json.loads(line) for line in lines if line.endswith("\n")]


@contextlib.contextmanager
def signals_kept() -> Iterator[None]:
    """The engine's entry point takes SIGTERM and SIGINT for itself."""
    handlers = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)


def run_engine(run: Path) -> int:
    free_memory()
    with signals_kept():
        return engine([str(run)])


def free_memory() -> None:
    gc.collect()
    if torch.cuda.is_available():
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()


def seconds_between(first: dict[str, Any], second: dict[str, Any]) -> float:
    return (datetime.fromisoformat(second["at"]) - datetime.fromisoformat(first["at"])).total_seconds()


def find_rates(metrics: list[dict[str, Any]]) -> list[float]:
    """Steps a second between one metric event and the next; writing one waits for the device."""
    steady = [event for event in metrics if event["step"] >= STEADY_FROM] or metrics
    return [(b["step"] - a["step"]) / seconds_between(a, b) for a, b in pairwise(steady)]


def measure_method(run: Path, method: str, *, quick: bool) -> dict[str, Any]:
    """Trains and reports; `faults` says what is wrong with the outcome."""
    status = run_engine(run)
    events = read_events(run, 1)
    if status != EXIT_OK:
        return {"faults": [f"exit code {status}: {events[-1] if events else 'nothing was written'}"]}
    result = json.loads((run / "attempts/1/result.json").read_text())
    metrics = [event for event in events if event["kind"] == "metric"]
    [checkpoint] = [event for event in events if event["kind"] == "checkpoint"]
    spec = json.loads((run / "spec.json").read_text())
    rows = spec["online"]["prompts_per_step"] if method in ONLINE else spec["optimiser"]["batch_size"]
    rates = find_rates(metrics)
    rate = statistics.median(rates) if rates else None
    name = "reward" if method in ONLINE else "loss"
    told = [event["values"][name] for event in metrics]
    some = max(1, len(told) // 4)
    first, last = statistics.mean(told[:some]), statistics.mean(told[-some:])
    faults = []
    # A short run is over before its few batches show a trend.
    if name == "loss" and not quick and not last < first:
        faults.append(f"{name} went from {first} to {last}")
    if not (result["output"] and result["weights_sha256"] and result["steps"] and result["trainable_parameters"]):
        faults.append("the result lacks what it must have")
    if not weights_changed(run, result["output"]):
        faults.append("the weights are those it began with")
    return {
        "steps": result["steps"],
        "steps_per_second": round_or_none(rate),
        "windows": len(rates),
        "rows_per_second": round_or_none(rate and rate * rows),
        "rows_per_step": rows,
        f"first_{name}": round(first, 4),
        f"last_{name}": round(last, 4),
        "seconds": result["seconds"],
        "checkpoint_seconds": round(seconds_between(metrics[-1], checkpoint), 2),
        "peak_memory_gib": peak_memory(),
        "trainable_parameters": result["trainable_parameters"],
        "faults": faults,
    }


def weights_changed(run: Path, output: str) -> bool:
    """An adapter begins with B = 0; a model begins as its base."""
    file = "adapter_model.safetensors" if output == "adapter" else "model.safetensors"
    trained = load_file(run / "attempts" / "1" / output / file)
    if output == "adapter":
        return all(bool(tensor.any()) for name, tensor in trained.items() if "lora_B" in name)
    before = load_file(Path(json.loads((run / "spec.json").read_text())["base"]["path"]) / "model.safetensors")
    return all(not torch.equal(tensor.float(), before[name].float()) for name, tensor in trained.items())


def peak_memory() -> float | None:
    return round(torch.cuda.max_memory_allocated() / 2**30, 2) if torch.cuda.is_available() else None


def round_or_none(value: float | None) -> float | None:
    return None if value is None else round(value, 3)


def measure_resuming(whole: Path, run: Path) -> dict[str, Any]:
    """Stops a copy of a finished run by SIGTERM once it is under way, resumes it, and compares the weights."""
    ended = threading.Event()

    def stop_when_under_way() -> None:
        while not any(event["kind"] == "checkpoint" and event["step"] for event in read_events(run, 1)):
            if ended.wait(0.005):
                return
        os.kill(os.getpid(), signal.SIGTERM)

    free_memory()
    with signals_kept():
        watcher = threading.Thread(target=stop_when_under_way)
        watcher.start()
        stopped = engine([str(run)])
        ended.set()
        watcher.join()
        resumed = engine([str(run)])
    faults = []
    if (stopped, resumed) != (EXIT_STOPPED, EXIT_OK):
        faults.append(f"exit codes {stopped} and {resumed}")
    events = read_events(run, 2)
    started = next((event for event in events if event["kind"] == "started"), {})
    if not started.get("resumed_from"):
        faults.append("the second attempt began anew")
    hashes = [
        json.loads(path.read_text())["weights_sha256"] if path.exists() else None
        for path in (whole / "attempts/1/result.json", run / "attempts/2/result.json")
    ]
    return {
        "stopped_at_step": read_events(run, 1)[-1].get("step"),
        "resumed_from": started.get("resumed_from"),
        "weights_equal_to_uninterrupted": hashes[0] == hashes[1],
        "faults": faults,
    }


def compare_scores(base: Path, tasks: list[Task], device: torch.device, rows: int) -> dict[str, Any]:
    """The same questions on the CPU in float32 and on the device: the largest difference, and equal choices."""
    tokenizer = load_tokenizer(base)

    def score(task: Task, where: torch.device, dtype: torch.dtype) -> torch.Tensor:
        model = load_model(base, where, dtype)
        scorer = ActionScorer(tokenizer, PROMPT_TOKENS, where)
        asked = task.labelled(rows, 3)
        with torch.inference_mode():
            ids = scorer.encode([row["prompt"] for row in asked])
            return scorer.log_probabilities(model, ids, [row["options"] for row in asked]).cpu()

    cases = {"float32": torch.float32, "bfloat16": torch.bfloat16}
    figures: dict[str, Any] = {}
    for task in tasks:
        wanted = score(task, torch.device("cpu"), torch.float32)
        for name, dtype in cases.items():
            got = score(task, device, dtype)
            figures[f"{name}_{len(task.options)}_options"] = {
                "largest_difference_of_log_p": float((got - wanted).abs().max()),
                "same_choice": float((got.argmax(1) == wanted.argmax(1)).float().mean()),
            }
    return figures


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="a quarter of the steps")
    parser.add_argument("--shape", choices=SHAPES, default="half-billion")
    parser.add_argument("--methods", default=",".join(METHODS), help="comma-separated; default: all that train")
    parser.add_argument(
        "--batch-size", type=int, default=64, help="rows a step; online methods take half as many prompts"
    )
    parser.add_argument("--steps", type=int, default=120)
    parser.add_argument("--options", type=int, default=10, help="options of a decision")
    options = parser.parse_args(arguments)
    if options.quick:
        options.steps //= 4
    silence_progress_bars()
    device = choose_device()
    began = time.monotonic()
    shape = SHAPES[options.shape]
    figures: dict[str, Any] = {"methods": {}}
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        tasks = [Task(10, 40), Task(150, 40)]
        task = next((task for task in tasks if len(task.options) == options.options), Task(options.options, 40))
        base = make_base(folder / "base", shape, [*tasks, task])
        lengths = [
            len(ids)
            for ids in ActionScorer(load_tokenizer(base), PROMPT_TOKENS).encode(
                [row["prompt"] for row in task.labelled(200, 1)]
            )
        ]
        figures["prompt_tokens"] = statistics.mean(lengths)
        for method in options.methods.split(","):
            run = write_run(folder / method, method, base, task, options)
            figures["methods"][method] = measure_method(run, method, quick=options.quick)
            print(method, json.dumps(figures["methods"][method]), flush=True)
        method = "grpo" if "grpo" in figures["methods"] else options.methods.split(",")[0]
        copy = write_run(folder / "stopped", method, base, task, options, checkpoint_every=0.05)
        figures["resuming"] = measure_resuming(folder / method, copy)
        print("resuming", json.dumps(figures["resuming"]), flush=True)
        figures["scores"] = compare_scores(base, tasks, device, 8 if options.quick else 64)
    faults = [f"{name}: {fault}" for name, of in figures["methods"].items() for fault in of["faults"]]
    faults += [f"resuming: {fault}" for fault in figures["resuming"]["faults"]]
    report = {
        "benchmark": "engine_gpu",
        "quick": options.quick,
        "shape": options.shape,
        "device": torch.cuda.get_device_name() if device.type == "cuda" else str(device),
        "torch": torch.__version__,
        "batch_size": options.batch_size,
        "options": options.options,
        "passed": not faults,
        "faults": faults,
    }
    print(json.dumps(report | {"seconds": round(time.monotonic() - began, 1), "figures": figures}))
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
