"""What scoring costs beside a bare prefill of the same prompts, and beside `generate`, with few and with many options.

    python -m benchmarks.training [--data DIR] [--quick]

Models with random weights score queries of CLINC150 among its 10 domains and its 150 intents, one at a time and 32
together. The prefill is one forward over the padded prompts with the logits of the last token. `generate` writes an
answer as long as the longest option, token by token and not bound to the options. The kinds take turns within a round;
each figure is the median over rounds of CPU seconds, divided by the prefill's. Beside it stands the share of the tokens
that are forwarded: what the figure would be if every token cost the same.

The tiny base has its options in its vocabulary: more than 32 become one token each, as they do in a pretrained base
that is given them (`option_tokens`). Otherwise they are several tokens there, and 150 of them have no bound. A prompt
is one query, or four of them.

Prints a row for each setting and one JSON object as the last line; exits 1 where scoring costs more than its bound.
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
from typing import NamedTuple

import torch

from tools.report import Report
from training.engine.models.actions import ActionScorer, causal_of, pad_right, parts_by_length
from training.engine.models.loading import build_tiny, build_tokenizer
from training.engine.models.option_tokens import MANY_OPTIONS, add_option_tokens
from training.engine.spec.run_spec import TinyShape

ROOT = Path(__file__).resolve().parents[1]
BOUNDS = {10: 1.3, 150: 1.8}
TINY, LARGER = TinyShape(), TinyShape(vocabulary=8000, hidden=512, layers=8, heads=8, key_value_heads=2)
MAX_PROMPT_TOKENS = 128


class Setting(NamedTuple):
    """`knows`: the options are in its vocabulary from the start; `given`: they are added to it."""

    name: str
    shape: TinyShape
    knows: bool = False
    given: bool = False
    queries_a_prompt: int = 1


SETTINGS = (
    Setting("tiny that knows the options", TINY, knows=True),
    Setting("tiny, given the options", TINY, given=True),
    Setting("tiny", TINY),
    Setting("30M, given the options", LARGER, given=True),
    Setting("30M", LARGER),
    Setting("30M, four queries a prompt", LARGER, queries_a_prompt=4),
)


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


def forwarded(scorer: ActionScorer, batches: Sequence[list[str]], options: list[str]) -> float:
    """Tokens that scoring puts through the model, padding included, divided by the prefill's."""
    nodes, prefilled, scored = scorer.trie(options).size, 0, 0
    for batch in batches:
        lengths = [len(ids) for ids in scorer.encode(batch)]
        prefilled += len(lengths) * max(lengths)
        scored += sum(len(rows) * (max(lengths[row] for row in rows) + nodes) for rows in parts_by_length(lengths))
    return scored / prefilled


def measure_setting(report: Report, setting: Setting, queries: list[str], options: list[str], quick: bool) -> None:
    torch.manual_seed(0)
    # As that of a pretrained model, which has words after an underscore but no options: those are several tokens.
    words = [] if setting.knows else options * 20
    tokenizer = build_tokenizer(queries + words, options if setting.knows else [], setting.shape.vocabulary)
    model = build_tiny(setting.shape, tokenizer).eval()
    if setting.given:
        add_option_tokens(model, tokenizer, options)
    scorer = ActionScorer(tokenizer, MAX_PROMPT_TOKENS)
    bound = BOUNDS[len(options)] if setting.knows or setting.given or len(options) <= MANY_OPTIONS else None
    few = 1 if setting.shape is TINY and not quick else 4
    for batch_size, count in ((1, 64 // few), (32, 256 // few)):
        drawn = iter(random.Random(0).sample(queries, count * setting.queries_a_prompt))
        texts = [" ".join(some) for some in zip(*[drawn] * setting.queries_a_prompt, strict=True)]
        batches = [texts[at : at + batch_size] for at in range(0, count, batch_size)]
        seconds = measure(model, scorer, batches, options, rounds=3 if quick else 5)
        share = seconds["score"] / seconds["prefill"]
        tokens = statistics.mean(len(ids) for ids in scorer.encode(texts))
        report.add(
            f"{setting.name}, batch {batch_size}, {len(options)} options: scoring / prefill",
            bound=f"<= {bound}" if bound else "as measured",
            figure=f"{share:.2f} (tokens {forwarded(scorer, batches, options):.2f}: {scorer.trie(options).size} behind "
            f"{tokens:.0f}; generate / prefill {seconds['generate'] / seconds['prefill']:.1f}; "
            f"{1000 * seconds['score'] / count:.1f} CPU ms a query)",
            passed=bound is None or share <= bound,
        )


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=ROOT.parent / "shared" / "data", help="folder of the real files")
    parser.add_argument("--quick", action="store_true", help="the tiny models alone, a quarter of the queries")
    given = parser.parse_args(arguments)
    if not (given.data / "clinc150").is_dir():
        parser.error(f"--data: {given.data} has no clinc150/")
    torch.set_num_threads(1)
    queries, sets = read_clinc(given.data)
    report = Report("training")
    for setting in [setting for setting in SETTINGS if setting.shape is TINY or not given.quick]:
        for options in sets.values():
            measure_setting(report, setting, queries, options, given.quick)
    return report.finish()


if __name__ == "__main__":
    sys.exit(main())
