"""How far the estimate of a run's memory and time is from what the engine takes, for bases of several sizes.

`python -m benchmarks.estimates [--quick]`: each run is a process of the engine on made-up rows of full length, with
every weight or an adapter trained. The last line is one JSON object; exit code 1 where a run takes more memory than was
estimated, or a third of it.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from training.engine.machine.facts import this_machine
from training.engine.spec.result import RunResult
from training.engine.spec.run_spec import RunSpec
from training.runs.estimates.needs import Estimate, estimate_run, read_shape, shape_of_tiny

SHAPES = {"small": {"hidden": 256, "layers": 4}, "middle": {"hidden": 512, "layers": 4}}
ROWS, EPOCHS = 128, 1
WORDS = [f"word{n}" for n in range(400)]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--quick", action="store_true", help="the small base alone")
    quick = parser.parse_args().quick
    found = []
    with tempfile.TemporaryDirectory(prefix="reckoner-estimates-") as folder:
        for name in ["small"] if quick else list(SHAPES):
            found += measure(name, Path(folder) / name)
    for one in found:
        print(json.dumps(one))
    bad = [one for one in found if not 1 / 3 <= one["memory_taken_of_estimated"] <= 1]
    print(json.dumps({"runs": found, "outside": len(bad)}))
    return 1 if bad else 0


def measure(name: str, folder: Path) -> list[dict[str, Any]]:
    """The base is made by one run; the next trains an adapter over it, one with gradient checkpointing."""
    tiny = {"vocabulary": 2000, "heads": 8, "key_value_heads": 4, **SHAPES[name]}
    settings = {"optimiser": {"epochs": EPOCHS, "batch_size": 64}, "text_weight": 0.3}
    made = run(folder / "whole", {"method": "pretrain", "base": {"tiny": tiny}, **settings})
    base = {"path": str(folder / "whole" / "attempts" / "1" / "model")}
    lora = {"method": "posterior", "base": base, "lora": {"r": 16}, **settings}
    adapter = run(folder / "adapter", lora)
    less = run(folder / "less", {**lora, "gradient_checkpointing": True})
    return [{"base": name, "run": what, **one} for what, one in (("whole", made), ("lora", adapter), ("less", less))]


def run(folder: Path, spec: dict[str, Any]) -> dict[str, Any]:
    folder.mkdir(parents=True)
    rng = random.Random(0)
    rows = []
    for number in range(ROWS):
        row = {"id": str(number), "prompt": " ".join(rng.choices(WORDS, k=60)), "options": ["finance", "travel"]}
        told: dict[str, Any] = {"answer": rng.choice(row["options"])}
        if spec["method"] == "posterior":
            told = {"action": told["answer"], "propensity": 0.5, "reward": float(rng.random() < 0.5)}
        rows.append(json.dumps(row | told))
    (folder / "train.jsonl").write_text("\n".join(rows) + "\n")
    full = {"run_id": "estimate", "data": {"train": "train.jsonl"}, **spec}
    (folder / "spec.json").write_text(json.dumps(full))
    estimate = estimate_of(RunSpec.model_validate(full))
    process = subprocess.Popen([sys.executable, "-m", "training.engine", str(folder)])
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    assert process.returncode == 0
    result = RunResult.model_validate_json((folder / "attempts/1/result.json").read_text())
    taken = usage.ru_maxrss * 1024
    return {
        "parameters": estimate.parameters,
        "memory_estimated_mb": round(estimate.memory_bytes / 1e6),
        "memory_taken_mb": round(taken / 1e6),
        "memory_taken_of_estimated": round(taken / estimate.memory_bytes, 2),
        "seconds_estimated": round(estimate.seconds, 1),
        "seconds_taken": round(result.seconds, 1),
        "gflops": round(estimate.work / result.seconds / 1e9, 1),
    }


def estimate_of(spec: RunSpec) -> Estimate:
    shape = shape_of_tiny(spec.base.tiny) if spec.base.tiny is not None else read_shape(Path(str(spec.base.path)))
    assert shape is not None
    cores = this_machine().cores
    return estimate_run(shape, spec, rows=ROWS, heldout=0, device="cpu", cores=cores, rate=None)


if __name__ == "__main__":
    sys.exit(main())
