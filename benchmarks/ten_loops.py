"""Whole loops of the demo world, one seed after another, each on an instance of its own: does every one promote?

    python -m benchmarks.ten_loops [--seeds 10] [--first 0] [--keep FOLDER]

Prints a row a seed and one JSON object as the last line; exits 1 unless every loop ended in a promotion. A loop takes
some minutes.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]


def run_loop(seed: int, var: Path) -> dict[str, Any]:
    """The demo's result with the seconds from start to stop; {"error", "code"} where it gave none."""
    began = time.monotonic()
    done = subprocess.run(
        [sys.executable, "manage.py", "up", "--once"],
        cwd=ROOT,
        env=os.environ | {"RECKONER_VAR": str(var), "RECKONER_DEMO_SEED": str(seed)},
        capture_output=True,
        text=True,
        check=False,
    )
    lines = [line for line in done.stdout.splitlines() if line.startswith("{")]
    found = json.loads(lines[-1]) if lines else {"error": done.stderr[-2000:]}
    return found | {"code": done.returncode, "seconds": round(time.monotonic() - began)}


def write_row(seed: int, found: dict[str, Any]) -> str:
    if "scores" not in found:
        return f"{seed:>4}  {found}"
    base, trained = (found["scores"][model]["accuracy"]["mean"] for model in ("base", "trained"))
    experiment = found["experiment"] or {"state": "none", "verdict": "", "units_control": 0, "units_treatment": 0}
    units = experiment["units_control"] + experiment["units_treatment"]
    return (
        f"{seed:>4}  {base:.3f}  {trained:.3f}  {experiment['state']:<12} {units:>5}  {found['loop_seconds']:>6.0f}"
        f"  {found['seconds']:>6}  {experiment['verdict']}"
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--keep", type=Path, help="leave the instances' data here, for their predictions")
    given = parser.parse_args()
    print("seed   base  trained experiment   units  loop s  all s  verdict", flush=True)
    found = {}
    with tempfile.TemporaryDirectory(prefix="loops-") as scratch:
        for seed in range(given.first, given.first + given.seeds):
            found[seed] = run_loop(seed, (given.keep or Path(scratch)) / f"seed-{seed}")
            print(write_row(seed, found[seed]), flush=True)
    promoted = sum(bool(one.get("better")) for one in found.values())
    passed = promoted == given.seeds
    print(json.dumps({"benchmark": "ten_loops", "loops": given.seeds, "promoted": promoted, "passed": passed}))
    return 0 if passed else 1


if __name__ == "__main__":
    sys.exit(main())
