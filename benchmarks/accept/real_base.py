"""A real pretrained base, scored, trained by LoRA and rehearsed on a few hundred texts, as a user would: by `rehearse`.

    python -m benchmarks.accept.real_base [--cache DIR] [--data DIR] [--quick]

The base is that of benchmarks/real_base.py, whose terms hold; what is fetched stays in `--cache`. Where it cannot be
had, a row says so and fails: nothing was shown.
"""

from __future__ import annotations

import argparse
import csv
import json
import random
import shutil
import sys
import tempfile
from pathlib import Path

from benchmarks.accept.rehearse import rehearse
from benchmarks.real_base import CACHE, Absent, fetch_base
from benchmarks.suggestions import ROOT, read_queries
from tools.instance import Instance
from tools.report import Report, log

TEXTS, QUICK_TEXTS = 900, 400
SEED_SHARE = 0.15


def run(report: Report, cache: Path, data: Path, texts: int) -> None:
    try:
        base = fetch_base(cache)
    except Absent as reason:
        report.add("the real base", bound="fetched", figure=str(reason), passed=False)
        return
    place = Path(tempfile.mkdtemp(prefix="reckoner-accept-"))
    instance = Instance(place / "instance", RECKONER_BASE_MODELS=str(base))
    try:
        path = place / "queries.csv"
        with path.open("w", newline="", encoding="utf-8") as handle:
            writer = csv.writer(handle)
            writer.writerow(["text", "domain"])
            writer.writerows(random.Random(0).sample(list(read_queries(data)), texts))
        instance.start("--no-demo")
        code, found = rehearse(
            instance, path, "text", "domain", "--base", str(base), "--lora", "--seed-share", str(SEED_SHARE),
            "--rounds", "2", "--noise", "0.05", "--missing", "0.15", "--temperature", "0.25",
        )  # fmt: skip
        if "of_ceiling" not in found:
            report.add("a real base, rehearsed by LoRA", bound="with a report", figure=found, passed=False)
            return
        log(json.dumps(found))
        before, after, words = found["base"]["mean"], found["final"]["mean"], found["plain"]["accuracy"]["mean"]
        report.add(
            f"a real base, rehearsed by LoRA on {texts} texts: held-out accuracy after the labels, after the rounds",
            bound="exit code as the report; told",
            figure=f"{before:.3f} → {after:.3f}, ceiling {found['ceiling']['mean']:.3f}, words {words:.3f}; "
            f"exit {code}, {found['seconds']:.0f} s",
            passed=(code == 0) == found["better"] and after > before,
        )
        [(adapters,)] = instance.query("SELECT count(*) FROM models_registry_modelversion WHERE base_id IS NOT NULL")
        report.add("  versions that are adapters", bound=">= 2", figure=adapters, passed=adapters >= 2)
    finally:
        if instance.process is not None:
            instance.stop()
        shutil.rmtree(place, ignore_errors=True)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cache", type=Path, default=CACHE, help="folder for the base")
    parser.add_argument("--data", type=Path, default=ROOT.parent / "shared" / "data", help="folder of the real files")
    parser.add_argument("--quick", action="store_true", help=f"{QUICK_TEXTS} texts instead of {TEXTS}")
    options = parser.parse_args()
    options.cache.mkdir(parents=True, exist_ok=True)
    report = Report("real base")
    run(report, options.cache.resolve(), options.data, QUICK_TEXTS if options.quick else TEXTS)
    return report.finish()


if __name__ == "__main__":
    sys.exit(main())
