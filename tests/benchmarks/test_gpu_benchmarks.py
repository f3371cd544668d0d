"""The GPU's benchmarks on a very small model, so that they do not rot, and what only a GPU can show."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest
import torch

from tools.big_model import SHAPES, Task, make_adapter, make_base
from tools.warm import stand_in
from training.engine.attempt.checkpoints import newest_checkpoint, write_checkpoint
from training.engine.attempt.events import Events
from training.engine.models.actions import ActionScorer
from training.engine.models.adapters import BASE, adapters_by_row
from training.engine.models.loading import attach_adapter, load_model, load_tokenizer
from training.engine.spec.run_spec import Data, ModelSource, RunSpec

ROOT = Path(__file__).resolve().parents[2]
CPU, CUDA = torch.device("cpu"), torch.device("cuda")
needs_cuda = pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no CUDA device")
pytestmark = [
    pytest.mark.filterwarnings("ignore::FutureWarning"),  # transformers' own deprecations, about itself
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
]


def run(module: str, *arguments: str) -> dict[str, Any]:
    environment = os.environ | {"RECKONER_DEVICE": "cpu", "OMP_NUM_THREADS": "1"}
    program = stand_in(Path(os.environ["RECKONER_VAR"]), str(Path(__file__).with_name("with_warm_server.py")))
    done = subprocess.run(
        [*program, f"benchmarks.{module}", "--quick", "--shape", "tiny", *arguments],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    report: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return report


@pytest.mark.slow
def test_the_engines_benchmark_trains_stops_and_resumes() -> None:
    report = run("engine_gpu", "--methods", "grpo", "--steps", "120", "--batch-size", "32")
    assert report["passed"] and report["device"] == "cpu"
    grpo = report["figures"]["methods"]["grpo"]
    assert grpo["steps"] == 30 and grpo["rows_per_step"] == 16 and grpo["trainable_parameters"] > 0
    assert report["figures"]["resuming"]["weights_equal_to_uninterrupted"]
    assert report["figures"]["scores"]["float32_10_options"]["largest_difference_of_log_p"] < 1e-4


@pytest.mark.slow
def test_the_servers_benchmark_asks_a_server_and_generate() -> None:
    figures = run("serving_gpu")["figures"]
    for of in (figures["base"], figures["base_and_two_adapters"]):
        assert of["score"].keys() == of["score_over_generate"].keys() and len(of["score"]) == 4
        assert all(case["per_second"] > 0 for kind in ("score", "chat", "generate") for case in of[kind].values())


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_base(tmp_path_factory.mktemp("base") / "base", SHAPES["tiny"], [Task(30, 20)])


@needs_cuda
@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float32, 1e-3), (torch.bfloat16, 0.1)])
def test_a_gpu_scores_as_the_cpu_does(base: Path, tmp_path: Path, dtype: torch.dtype, tolerance: float) -> None:
    adapter = make_adapter(tmp_path / "adapter", base, 4, 1)
    rows = Task(30, 20).labelled(6, 2)
    names = [BASE, "one", "one", BASE, "one", BASE]

    def score(device: torch.device, dtype: torch.dtype) -> torch.Tensor:
        model = attach_adapter(load_model(base, device, dtype), adapter, "one")
        scorer = ActionScorer(load_tokenizer(base), 32, device)
        with torch.inference_mode(), adapters_by_row(model, names):
            ids = scorer.encode([row["prompt"] for row in rows])
            return scorer.log_probabilities(model, ids, [row["options"] for row in rows]).cpu()

    assert (score(CUDA, dtype) - score(CPU, torch.float32)).abs().max() < tolerance


@needs_cuda
def test_a_gpus_checkpoint_is_read_into_the_computers_memory(tmp_path: Path) -> None:
    spec = RunSpec(run_id="x", method="pretrain", base=ModelSource(path="/base"), data=Data(train="rows"))
    state = {"weights": torch.arange(5.0, device=CUDA)}
    write_checkpoint(tmp_path / "1" / "checkpoints", 3, state, spec)
    events = Events(tmp_path / "events.jsonl")
    found = newest_checkpoint(tmp_path, spec, events)
    events.close()
    assert found is not None and found.state["weights"].device == CPU
    assert torch.equal(found.state["weights"], state["weights"].cpu())
