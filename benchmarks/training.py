"""What scoring costs beside a bare prefill of the same prompts, and beside `generate`, with few and with many options.

    python -m benchmarks.training [--data DIR] [--quick]

Models with random weights score queries of CLINC150 among its 10 domains and its 150 intents, one at a time and 32
together. The prefill is one forward over the prompts with the logits of the last token. `generate` writes an answer as
long as the longest option, token by token and not bound to the options. The kinds take turns within a round; each
figure is the median over rounds of CPU seconds, divided by the prefill's. Prints a row for each setting and one JSON
object as the last line; exits 1 where scoring costs more than its bound.
"""

from __future__ import annotations

import argparse
import json
import random
import statistics
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import torch

from tools.report import Report
from training.engine.actions import ActionScorer, causal_of, pad_right
from training.engine.models import build_tiny, build_tokenizer
from training.engine.spec import TinyShape

ROOT = Path(__file__).resolve().parents[1]
BOUNDS = {10: 1.3, 150: 1.8}
SHAPES = {
    "tiny": TinyShape(),
    "30M": TinyShape(vocabulary=8000, hidden=512, layers=8, heads=8, key_value_heads=2),
}
MAX_PROMPT_TOKENS = 64


def read_clinc(data: Path) -> tuple[list[str], dict[int, list[str]]]:
    """Queries, and the options by their number: domains and intents."""
    found = json.loads((data / "clinc150" / "data_full.json").read_text(encoding="utf-8"))
    domains = json.loads((data / "clinc150" / "domains.json").read_text(encoding="utf-8"))
    intents = sorted(intent for some in domains.values() for intent in some)
    return [text for text, _ in found["train"]], {len(domains): sorted(domains), len(intents): intents}


@torch.no_grad()
def measure(
    model: torch.nn.Module, scorer: ActionScorer, batches: Sequence[list[str]], options: list[str], rounds: int
) -> Mapping[str, float]:
    """CPU seconds for all batches, the median over rounds, by kind."""
    encoded = [scorer.encode(batch) for batch in batches]
    pad = scorer.tokenizer.pad_token_id
    longest = max(map(len, scorer.answer_ids(options)))
    causal = causal_of(model)

    def prefill(ids: list[list[int]]) -> None:
        padded, lengths = pad_right(ids, pad, scorer.device)
        hidden = causal.model(input_ids=padded, use_cache=False).last_hidden_state
        causal.get_output_embeddings()(hidden[torch.arange(len(ids)), lengths - 1])

    def score(ids: list[list[int]]) -> None:
        scorer.score(model, ids, [options] * len(ids))

    def generate(ids: list[list[int]]) -> None:
        padded = scorer.tokenizer.pad({"input_ids": ids}, return_tensors="pt")
        causal.generate(**padded, min_new_tokens=longest, max_new_tokens=longest, do_sample=False, pad_token_id=pad)

    kinds: Mapping[str, Callable[[list[list[int]]], None]] = {"prefill": prefill, "score": score, "generate": generate}
    taken: dict[str, list[float]] = {kind: [] for kind in kinds}
    for turn in range(rounds + 1):  # the first warms up
        for kind, use in kinds.items():
            # One of them is enough of what costs many times more.
            chosen = encoded[: max(1, len(encoded) // 8)] if kind == "generate" else encoded
            began = time.process_time()
            for ids in chosen:
                use(ids)
            if turn:
                taken[kind].append((time.process_time() - began) * len(encoded) / len(chosen))
    return {kind: statistics.median(seconds) for kind, seconds in taken.items()}


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=ROOT.parent / "shared" / "data", help="folder of the real files")
    parser.add_argument("--quick", action="store_true", help="the tiny model alone, a quarter of the queries")
    given = parser.parse_args(arguments)
    if not (given.data / "clinc150").is_dir():
        parser.error(f"--data: {given.data} has no clinc150/")
    torch.set_num_threads(1)
    queries, sets = read_clinc(given.data)
    report = Report("training")
    words = [option for options in sets.values() for option in options] * 20
    for name, shape in list(SHAPES.items())[: 1 if given.quick else None]:
        torch.manual_seed(0)
        # As that of a pretrained model, which has words after an underscore but no options: those are several tokens.
        tokenizer = build_tokenizer(queries + words, [], shape.vocabulary)
        model = build_tiny(shape, tokenizer).eval()
        scorer = ActionScorer(tokenizer, MAX_PROMPT_TOKENS)
        few = 1 if name == "tiny" and not given.quick else 4
        for batch_size, count in ((1, 64 // few), (32, 256 // few)):
            texts = random.Random(0).sample(queries, count)
            batches = [texts[at : at + batch_size] for at in range(0, count, batch_size)]
            for number, options in sets.items():
                seconds = measure(model, scorer, batches, options, rounds=3 if given.quick else 5)
                share = seconds["score"] / seconds["prefill"]
                report.add(
                    f"{name}, batch {batch_size}, {number} options: scoring / prefill",
                    bound=f"<= {BOUNDS[number]}",
                    figure=f"{share:.2f} (generate / prefill {seconds['generate'] / seconds['prefill']:.1f}; "
                    f"{1000 * seconds['score'] / count:.1f} CPU ms a query, {scorer.trie(options).size} tokens behind)",
                    passed=share <= BOUNDS[number],
                )
    return report.finish()


if __name__ == "__main__":
    sys.exit(main())
