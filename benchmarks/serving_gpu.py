"""The model server at Qwen2.5-0.5B's shape: decisions scored and tokens generated a second, beside plain `generate`.

    python -m benchmarks.serving_gpu [--quick] [--shape half-billion|tiny] [--largest N]

Starts the server over a store with a base and two adapters and asks it over HTTP, first about the base alone, then
about all three in one batch. `generate` answers the same prompts in this process, on the same device: greedily, as many
tokens as the longest option has. Uses CUDA where there is one. Prints one JSON object as the last line.
"""

import argparse
import contextlib
import gc
import hashlib
import json
import os
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import torch

from tools import model_server
from tools.big_model import SHAPES, Task, make_adapter, make_base
from tools.ports import free_port
from training.engine.machine.hardware import choose_device
from training.engine.models.actions import ActionScorer
from training.engine.models.loading import attach_adapter, load_model, load_tokenizer, silence_progress_bars

ROOT = Path(__file__).resolve().parents[1]
PROMPT_TOKENS = 64
CHAT_TOKENS = 32
WARM_UPS = 2


def put(root: Path, folder: Path, kind: str, **meta: str) -> str:
    """Stores a copy of a folder as the registry does, and returns its digest."""
    files = {
        path.relative_to(folder).as_posix(): {
            "sha256": hashlib.sha256(path.read_bytes()).hexdigest(),
            "size": path.stat().st_size,
        }
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }
    manifest = {"schema": 1, "kind": kind, "files": files, "meta": meta}
    raw = json.dumps(manifest, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()
    digest = hashlib.sha256(raw).hexdigest()
    target = root / "sha256" / digest[:2] / digest
    shutil.copytree(folder, target)
    (target / "MANIFEST.json").write_bytes(raw)
    return digest


@contextlib.contextmanager
def running_server(root: Path) -> Iterator[httpx.Client]:
    port = free_port()
    command = [*model_server.SERVER, "--artifacts", str(root), "--port", str(port)]
    with tempfile.TemporaryFile() as log:
        process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=log)
        client = httpx.Client(
            base_url=f"http://127.0.0.1:{port}", timeout=120, trust_env=False, limits=httpx.Limits(max_connections=64)
        )
        if token := os.environ.get("RECKONER_MODEL_SERVER_TOKEN"):
            client.headers["authorization"] = f"Bearer {token}"
        try:
            wait_until_ready(client, process)
            yield client
        except Exception:
            log.seek(0)
            sys.stderr.write(log.read().decode(errors="replace"))
            raise
        finally:
            client.close()
            process.send_signal(signal.SIGTERM)
            process.wait(60)


def wait_until_ready(client: httpx.Client, process: subprocess.Popen[bytes]) -> None:
    while process.poll() is None:
        with contextlib.suppress(httpx.TransportError):
            if client.get("/readyz").status_code == 200:
                return
        time.sleep(0.1)
    raise RuntimeError(f"the server ended with status {process.returncode}")


def time_calls(call: Callable[[int], object], repeats: int) -> list[float]:
    """Seconds of each call, after some to warm up; the device is idle at the start and the end of each."""
    seconds = []
    for number in range(repeats + WARM_UPS):
        synchronise()
        began = time.perf_counter()
        call(number)
        synchronise()
        seconds.append(time.perf_counter() - began)
    return seconds[WARM_UPS:]


def synchronise() -> None:
    if torch.cuda.is_available():
        torch.cuda.synchronize()


def summarise(seconds: list[float], count: int) -> dict[str, float]:
    """Rate at the median, and latencies in milliseconds."""
    ordered = sorted(seconds)
    return {
        "per_second": round(count / statistics.median(ordered), 1),
        "p50_ms": round(statistics.median(ordered) * 1e3, 2),
        "p99_ms": round(ordered[min(len(ordered) - 1, int(0.99 * len(ordered)))] * 1e3, 2),
        "calls": len(ordered),
    }


def prompts_of(task: Task, count: int, seed: int) -> list[str]:
    return [row["prompt"] for row in task.labelled(count, seed)]


def measure_scores(
    client: httpx.Client, models: list[str], tasks: list[Task], quick: bool, largest: int
) -> dict[str, Any]:
    """Rows of a batch take the models in turn."""
    figures = {}
    for task in tasks:
        for batch, repeats in ((1, 4), (8, 2)) if quick else ((1, 60), (32, 10), (256, 6)):
            if batch > largest:
                continue
            bodies = [score_body(models, task, batch, number) for number in range(repeats + WARM_UPS)]

            def ask(number: int, bodies: list[bytes] = bodies) -> None:
                check_probabilities(client.post("/score", content=bodies[number]))

            seconds = time_calls(ask, repeats)
            figures[f"{len(task.options)}_options_batch_{batch}"] = summarise(seconds, batch)
    return figures


def score_body(models: list[str], task: Task, batch: int, seed: int) -> bytes:
    prompts = prompts_of(task, batch, seed)
    items = [
        {
            "model": models[i % len(models)],
            "prompt": prompt,
            "options": task.options,
            "max_prompt_tokens": PROMPT_TOKENS,
        }
        for i, prompt in enumerate(prompts, start=seed)
    ]
    return json.dumps({"items": items}).encode()


def check_probabilities(answer: httpx.Response) -> None:
    assert answer.status_code == 200, answer.text[:500]
    assert all(abs(sum(result["probabilities"]) - 1) < 1e-3 for result in answer.json()["results"])


def measure_chats(client: httpx.Client, models: list[str], task: Task, quick: bool) -> dict[str, Any]:
    """Completion tokens a second; a batch is that many callers at once."""
    figures = {}
    tokens = 8 if quick else CHAT_TOKENS
    with ThreadPoolExecutor(32) as callers:
        for batch in (1, 4) if quick else (1, 32):

            def ask(number: int, batch: int = batch) -> None:
                def one(i: int) -> int:
                    body = {
                        "model": models[(i + number) % len(models)],
                        "messages": [{"role": "user", "content": prompts_of(task, 1, 1000 * number + i)[0]}],
                        "max_tokens": tokens,
                        "seed": i,
                    }
                    answer = client.post("/v1/chat/completions", json=body)
                    assert answer.status_code == 200, answer.text[:500]
                    generated: int = answer.json()["usage"]["completion_tokens"]
                    return generated

                got = sum(callers.map(one, range(batch)))
                assert got >= 0.9 * batch * tokens, got

            seconds = time_calls(ask, 1 if quick else 2)
            figures[f"batch_{batch}"] = summarise(seconds, batch * tokens)
    return figures


def measure_generate(
    base: Path, adapters: list[Path], device: torch.device, tasks: list[Task], quick: bool, largest: int
) -> dict[str, Any]:
    """The same with transformers' `generate`; with adapters, through peft's adapter_names."""
    model: Any = load_model(base, device)
    names = ["__base__"]
    for number, folder in enumerate(adapters):
        names.append(f"adapter{number}")
        model = attach_adapter(model, folder, names[-1])
    tokenizer = load_tokenizer(base)
    scorer = ActionScorer(tokenizer, PROMPT_TOKENS)

    def answer(task: Task, batch: int, number: int, tokens: int, sample: bool) -> None:
        ids = scorer.encode(prompts_of(task, batch, number))
        padded = tokenizer.pad({"input_ids": ids}, return_tensors="pt").to(device)
        more = {"adapter_names": [names[i % len(names)] for i in range(batch)]} if adapters else {}
        with torch.inference_mode():
            out = model.generate(
                input_ids=padded["input_ids"],
                attention_mask=padded["attention_mask"],
                max_new_tokens=tokens,
                min_new_tokens=tokens,
                do_sample=sample,
                pad_token_id=tokenizer.pad_token_id,
                **more,
            )
        tokenizer.batch_decode(out[:, padded["input_ids"].shape[1] :], skip_special_tokens=True)

    figures = {}
    for task in tasks:
        longest = max(len(ids) for ids in scorer.answer_ids(task.options))
        for batch, repeats in ((1, 1), (8, 1)) if quick else ((1, 4), (32, 3), (256, 2)):
            if batch > largest:
                continue
            seconds = time_calls(
                lambda number, task=task, batch=batch, longest=longest: answer(task, batch, number, longest, False),
                1 if quick else repeats,
            )
            name = f"{len(task.options)}_options_batch_{batch}"
            figures[name] = summarise(seconds, batch) | {"tokens": longest}
    tokens = 8 if quick else CHAT_TOKENS
    for batch in (1, 4) if quick else (1, 32):
        seconds = time_calls(
            lambda number, batch=batch: answer(tasks[0], batch, number, tokens, True), 1 if quick else 2
        )
        figures[f"chat_batch_{batch}"] = summarise(seconds, batch * tokens)
    return figures


def memory_used() -> float:
    """GiB of the whole device, whoever holds it."""
    if not torch.cuda.is_available():
        return 0.0
    free, total = torch.cuda.mem_get_info()
    return (total - free) / 2**30


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="few calls and short answers")
    parser.add_argument("--shape", choices=SHAPES, default="half-billion")
    parser.add_argument("--largest", type=int, default=256, help="leave out batches of more rows than this")
    options = parser.parse_args(arguments)
    silence_progress_bars()
    device = choose_device()
    began = time.monotonic()
    tasks = [Task(10, 40), Task(150, 40)]
    figures: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        base = make_base(folder / "base", SHAPES[options.shape], tasks)
        adapters = [make_adapter(folder / f"adapter{seed}", base, 16, seed) for seed in (1, 2)]
        root = folder / "store"
        digest = put(root, base, "model")
        models = [digest, *(put(root, adapter, "adapter", base=digest) for adapter in adapters)]
        before = memory_used()
        with running_server(root) as client:
            for name, asked in (("base", models[:1]), ("base_and_two_adapters", models)):
                figures[name] = {
                    "score": measure_scores(client, asked, tasks, options.quick, options.largest),
                    "chat": measure_chats(client, asked, tasks[0], options.quick),
                }
                figures[name]["server_memory_gib"] = round(memory_used() - before, 2)
                print(name, json.dumps(figures[name]), flush=True)
        for name, under in (("base", []), ("base_and_two_adapters", adapters)):
            figures[name]["generate"] = measure_generate(base, under, device, tasks, options.quick, options.largest)
            print(name, json.dumps(figures[name]["generate"]), flush=True)
            gc.collect()
    for of in figures.values():
        of["score_over_generate"] = {
            case: round(one["per_second"] / of["generate"][case]["per_second"], 2) for case, one in of["score"].items()
        }
        of["chat_over_generate"] = {
            case: round(one["per_second"] / of["generate"][f"chat_{case}"]["per_second"], 2)
            for case, one in of["chat"].items()
        }
    report = {
        "benchmark": "serving_gpu",
        "quick": options.quick,
        "shape": options.shape,
        "device": torch.cuda.get_device_name() if device.type == "cuda" else str(device),
        "torch": torch.__version__,
    }
    print(json.dumps(report | {"seconds": round(time.monotonic() - began, 1), "figures": figures}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
