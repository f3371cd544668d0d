"""How fast fresh decisions train a model: our GRPO, which scores options, beside TRL's GRPOTrainer, which writes them.

    python -m benchmarks.training_speed [--data DIR] [--pairs N] [--quick] [--rates]

CLINC150's queries are filed by an object in canonical JSON, `{"domain":"travel"}`, one of ten, six to eight tokens long
with the end of the text. In each pair (five; one with --quick) a tiny base learns from 2,000 labels, of which 60 % name
any domain, so that it knows the form and is rightly unsure of the rest; every run starts from its weights. The reward
is `matches_answer` for all: 1 for the right domain, else 0.

*TRL*: the method `grpo` on rows of text, which is TRL's GRPOTrainer under the engine's optimiser: AdamW, a cosine with
a tenth of warm-up, gradients clipped at 1. One update a batch, no Kullback–Leibler divergence and so no reference
model; the rest are TRL's defaults. It takes 480 prompts once each, 8 a step, and writes 8 texts of at most 16 tokens
for each: 3,840 evaluations of the reward.

*Equal evaluations*: our `grpo` on labelled rows takes the same prompts once each, 8 a step, and draws 8 actions for
each: as many evaluations. What differs is that ours knows the options. It scores them in one forward and one backward
a prompt, and draws from the scores; TRL writes 64 texts token by token and learns from each of them, and its model has
to keep the form of the texts, too. Ours does so by the loss on an eighth of the rows that it has by default.

*Cheap rewards*: the same method and prompts where evaluations cost nothing: 64 draws for each prompt, in 30 steps of
16. Only the time to TRL's held-out reward counts.

A figure is TRL's processor seconds divided by ours, for the whole training of a loaded model: the preparation of its
rows and the last checkpoint are inside, imports, loading and evaluation are not. Everything runs on one thread, in one
process that was warmed up by a short run of each; the order changes from pair to pair. The held-out reward is what an
action drawn from the model's probabilities earns on average for 1,000 other queries, among the options for TRL's model
as well, which can only gain by it. Ours must earn as much as TRL's at the end of a run of fixed length, and takes no
credit for what it earns beyond. The learning rates are those with the highest held-out reward in `--rates`, which tries
the same ones for each recipe on a base that no pair uses.

Prints a row for each comparison and one JSON object as the last line; exits 1 where the median of the pairs misses its
bound, or where the mean of our held-out rewards is below that of TRL's.
"""

from __future__ import annotations

import argparse
import importlib
import json
import random
import statistics
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import torch

from decisions.agents.canonical import canonical
from tools.report import Report, log
from training.engine.__main__ import main as engine
from training.engine.attempt.attempt import Attempt
from training.engine.attempt.events import Events
from training.engine.attempt.stop import StopFlag
from training.engine.data.reading import RunData
from training.engine.machine.hardware import prepare_torch
from training.engine.models.actions import ActionScorer
from training.engine.models.loading import Loaded, load_for_training
from training.engine.rows.types import Labelled, Text
from training.engine.scoring.rows import score_rows
from training.engine.spec.run_spec import RunSpec

ROOT = Path(__file__).resolve().parents[1]
CPU = torch.device("cpu")
LABELS, HELD_OUT = 2_000, 1_000
RANDOM = 0.6
"""Share of the base's labels that name any domain: it knows the form, and is rightly unsure of the rest."""
TUNING_WORLD = 1_000
BASE = {
    "base": {"tiny": {}},
    "optimiser": {"learning_rate": 3e-3, "epochs": 4, "batch_size": 32},
    # Calibration divides the logits of free texts as well, and TRL's model would write noise.
    "pretrain": {"calibration_share": 0},
    "text_weight": 3.0,
}
RATES = (2.5e-4, 5e-4, 1e-3, 2e-3)


class Recipe(NamedTuple):
    """`rows`: labelled for ours, text for TRL's."""

    rows: str
    learning_rate: float
    steps: int
    prompts: int
    group: int


RECIPES: Mapping[str, Recipe] = {
    "TRL": Recipe("text", 1e-3, steps=60, prompts=8, group=8),
    "equal evaluations": Recipe("labelled", 1e-3, steps=60, prompts=8, group=8),
    "cheap rewards": Recipe("labelled", 2e-3, steps=30, prompts=16, group=64),
}
BOUNDS = {"equal evaluations": 2.5, "cheap rewards": 8.0}


def read_queries(data: Path) -> list[tuple[str, str]]:
    """Each query with its domain."""
    found = json.loads((data / "clinc150" / "data_full.json").read_text(encoding="utf-8"))
    domains = json.loads((data / "clinc150" / "domains.json").read_text(encoding="utf-8"))
    domain_of = {intent: domain for domain, intents in domains.items() for intent in intents}
    return [(text, domain_of[intent]) for part in ("train", "val", "test") for text, intent in found[part]]


class World:
    """One base, the prompts that every recipe learns from, and the queries that it is measured on."""

    def __init__(self, folder: Path, queries: Sequence[tuple[str, str]], seed: int) -> None:
        self.folder, self.seed = folder, seed
        options = tuple(canonical({"domain": domain}) for domain in sorted({domain for _, domain in queries}))
        most = max(recipe.steps * recipe.prompts for recipe in RECIPES.values())
        rows = [
            Labelled(id=str(n), prompt=text, options=options, answer=canonical({"domain": domain}))
            for n, (text, domain) in enumerate(random.Random(seed).sample(queries, LABELS + most + HELD_OUT))
        ]
        taught, self.stream, self.held_out = rows[:LABELS], rows[LABELS:-HELD_OUT], rows[-HELD_OUT:]
        rng = random.Random(f"{seed}/labels")
        said = [rng.choice(options) if rng.random() < RANDOM else row.answer for row in taught]
        labels = [msgspec.structs.replace(row, answer=answer) for row, answer in zip(taught, said, strict=True)]
        self.base = self._make_base(labels)

    def _make_base(self, rows: Sequence[Labelled]) -> Path:
        folder = self.folder / "base"
        folder.mkdir(parents=True)
        (folder / "rows.jsonl").write_bytes(b"\n".join(map(msgspec.json.encode, rows)))
        (folder / "spec.json").write_text(self.spec("pretrain", **BASE).model_dump_json(), encoding="utf-8")
        if code := engine([str(folder), "--attempt", "1"]):
            raise RuntimeError(f"the base ended with {code}")
        return folder / "attempts" / "1" / "model"

    def spec(self, method: str, *, rows: str = "labelled", **others: Any) -> RunSpec:
        fields = {
            "run_id": "x",
            "method": method,
            "seed": self.seed,
            "threads": 1,
            "max_prompt_tokens": 40,
            "data": {"train": "rows.jsonl", "rows": rows},
            "reward": [{"name": "matches_answer"}],
            "checkpoint_every_seconds": 300,  # neither leaves one before the end
        }
        return RunSpec.model_validate(fields | others)

    def learn(self, recipe: Recipe) -> tuple[float, float]:
        """(held-out reward in [0, 1], CPU seconds of the training)."""
        spec = self.spec(
            "grpo",
            base={"path": str(self.base)},
            rows=recipe.rows,
            optimiser={"learning_rate": recipe.learning_rate},
            online={"steps": recipe.steps, "prompts_per_step": recipe.prompts, "group": recipe.group, "kl": 0.0},
        )
        rows = self.stream[: recipe.steps * recipe.prompts]
        texts = [Text(id=row.id, prompt=row.prompt, completion=row.answer) for row in rows]
        data = RunData(texts=texts) if recipe.rows == "text" else RunData(labelled=rows)
        prepare_torch(self.seed, CPU)
        loaded = load_for_training(spec.base, None, CPU)
        module, _, name = spec.trains_by.entry_for(spec.train_rows).partition(":")
        train = getattr(importlib.import_module(module), name)
        with tempfile.TemporaryDirectory(dir=self.folder) as folder:
            attempt = Attempt(spec, 1, Path(folder), CPU, Events(Path(folder) / "events.jsonl"), StopFlag())
            began = time.process_time()
            outcome = train(attempt, loaded, data)
            seconds = time.process_time() - began
            assert outcome.steps == recipe.steps
            return self.reward_of(attempt, loaded), seconds

    def reward_of(self, attempt: Attempt, loaded: Loaded) -> float:
        """The expected reward of an action that the model draws among the options, mean over the held-out rows."""
        scorer = ActionScorer(loaded.tokenizer, attempt.spec.max_prompt_tokens, CPU)
        rows = self.held_out
        prompts = scorer.encode([row.prompt for row in rows])
        log_p = score_rows(attempt, loaded.model, scorer, prompts, [row.options for row in rows])
        right = torch.tensor([row.options.index(row.answer) for row in rows])
        return float(log_p.exp().gather(1, right[:, None]).mean())


def warm_up(world: World) -> None:
    """Two steps of each, so that what is done once a process is in no figure."""
    for recipe in RECIPES.values():
        world.learn(recipe._replace(steps=2))


def try_rates(world: World) -> None:
    for name, recipe in RECIPES.items():
        for rate in RATES:
            reward, seconds = world.learn(recipe._replace(learning_rate=rate))
            print(f"{name:<20} {rate:<8} held-out reward {reward:.3f}, {seconds:.1f} CPU s", flush=True)


def compare(report: Report, found: Mapping[str, Sequence[tuple[float, float]]]) -> None:
    """`found`: by recipe, (held-out reward, CPU seconds) of each pair."""
    theirs = found["TRL"]
    for name, bound in BOUNDS.items():
        ratios = [trl / ours for (_, trl), (_, ours) in zip(theirs, found[name], strict=True)]
        rewards = [statistics.mean(reward for reward, _ in runs) for runs in (theirs, found[name])]
        shares = ", ".join(f"{ratio:.1f}" for ratio in ratios)
        seconds = [statistics.median(seconds for _, seconds in runs) for runs in (theirs, found[name])]
        report.add(
            f"{name}: CPU seconds of TRL / ours, to TRL's reward",
            bound=f">= {bound}, reward >= TRL's",
            figure=f"{statistics.median(ratios):.2f} (pairs {shares}; {seconds[0]:.1f} s and {seconds[1]:.1f} s); "
            f"held-out reward {rewards[0]:.3f} and {rewards[1]:.3f}",
            passed=statistics.median(ratios) >= bound and rewards[1] >= rewards[0],
        )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=ROOT.parent / "shared" / "data", help="folder of the real files")
    parser.add_argument("--pairs", type=int, default=5, help="how many bases, each with a run of every recipe")
    parser.add_argument("--quick", action="store_true", help="one pair")
    parser.add_argument("--rates", action="store_true", help="try learning rates instead")
    options = parser.parse_args()
    if not (options.data / "clinc150").is_dir():
        parser.error(f"--data: {options.data} has no clinc150/")
    queries = read_queries(options.data)
    report = Report("training_speed")
    found: dict[str, list[tuple[float, float]]] = {name: [] for name in RECIPES}
    with tempfile.TemporaryDirectory(prefix="training-speed-") as folder:
        if options.rates:
            try_rates(World(Path(folder), queries, TUNING_WORLD))
            return 0
        for pair in range(1 if options.quick else options.pairs):
            world = World(Path(folder) / str(pair), queries, pair)
            if pair == 0:
                warm_up(world)
            for name in list(RECIPES)[:: -1 if pair % 2 else 1]:
                found[name].append(world.learn(RECIPES[name]))
                log(f"pair {pair}: {name} {found[name][-1][0]:.3f} in {found[name][-1][1]:.1f} CPU s")
    compare(report, found)
    return report.finish()


if __name__ == "__main__":
    sys.exit(main())
