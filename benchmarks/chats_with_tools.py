"""A text agent with tools, taught by chats of two turns: the share of right calls on held-out chats before and after.

    python -m benchmarks.chats_with_tools [--model FOLDER] [--rows N] [--heldout N] [--epochs N] [--rate R] [--lora]
                                          [--quick]

The customer says in the first turn which article it is, and in the second what is wanted, in words that no row to learn
from has about that article: the right call needs both, and the tools on offer. `--model` is a folder with a causal
language model in safetensors, with a chat template or without one, such as the Gemma 3 270M that
`benchmarks.real_base` fetches into var/real-base/gemma-3-270m (Google's Gemma Terms of Use); by default a tiny model is
made, whose start knows nothing. `sft` learns from the chats as the ledger gives them to a run: messages, tools, and a
reply that calls. A call is right where its tool and its arguments are, by value. Prints the shares, their difference
with its paired 95 % interval, and one JSON object as the last line; passes where the interval lies above 0. `--quick`
learns from fewer chats.
"""

from __future__ import annotations

import argparse
import json
import random
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from itertools import product
from pathlib import Path
from typing import Any

from benchmarks.suggestions import ROOT
from models_registry.backends.chat_rows import chat_as_text, reply_as_text
from models_registry.statistics.intervals import clustered_mean, paired_difference
from tools.report import Report, log

ARTICLES = "kettle lamp desk chair radio clock mirror basket blanket printer camera guitar".split()  # noqa: SIM905
WISHES = {
    "refund": ("I want my money back.", "Please pay me back.", "Can I be refunded?", "Return the payment to me."),
    "replace": ("Send me a new one.", "I would like another one.", "Please exchange it.", "Can it be replaced?"),
    "cancel": ("I do not need it any more.", "Please stop the order.", "Call it off.", "Do not send it at all."),
    "track": ("Where is it now?", "When does it come?", "Has it been sent yet?", "Why is it so late?"),
}
PARAMETERS = {"type": "object", "properties": {"article": {"type": "string"}}, "required": ["article"]}
TOOLS = [{"type": "function", "function": {"name": name, "parameters": PARAMETERS}} for name in WISHES]
PROMPT_TOKENS = 128
COMPLETION_TOKENS = 32


def make_rows(seed: int) -> Iterator[dict[str, Any]]:
    """Every article with every wording, in random order."""
    cases = [(article, name, wish) for article, (name, said) in product(ARTICLES, WISHES.items()) for wish in said]
    random.Random(f"chats/{seed}").shuffle(cases)
    for article, name, wish in cases:
        messages = [
            {"role": "system", "content": "You serve the customers of a shop. Call the tool that fits."},
            {"role": "user", "content": f"Hello, I ordered a {article} last week."},
            {"role": "assistant", "content": "Thank you. What can I do for you?"},
            {"role": "user", "content": wish},
        ]
        call = {"id": "1", "type": "function", "function": {"name": name, "arguments": {"article": article}}}
        reply = {"role": "assistant", "content": "", "tool_calls": [call]}
        texts = {"prompt": chat_as_text(messages), "completion": reply_as_text(reply)}
        yield (
            {"id": f"{article}/{wish}", "group": article, "source": "human", "messages": messages}
            | texts
            | {
                "tools": TOOLS,
                "reply": reply,
            }
        )


def train(
    folder: Path, method: str, base: dict[str, Any], rows: Sequence[Any], heldout: Sequence[Any], **more: Any
) -> Path:
    """Runs the engine in a process of its own. Raises CalledProcessError."""
    (folder / "data").mkdir(parents=True)
    for name, some in (("train", rows), ("heldout", heldout)):
        (folder / "data" / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in some))
    data = {"train": "data/train.jsonl", "heldout": "data/heldout.jsonl", "rows": "text", "heldout_rows": "text"}
    limits = {"max_prompt_tokens": PROMPT_TOKENS, "max_completion_tokens": COMPLETION_TOKENS, "samples": 0}
    spec = {"run_id": folder.name, "method": method, "base": base, "data": data, "evaluate": {"batch_size": 16}}
    spec["checkpoint_every_seconds"] = 300
    (folder / "spec.json").write_text(json.dumps(spec | limits | more))
    subprocess.run([sys.executable, "-m", "training.engine", str(folder)], check=True, cwd=ROOT)
    return folder / "attempts" / "1"


def read_correct(attempt: Path, model: str) -> list[bool]:
    """Reads whether each held-out chat was answered right, in the order of the file."""
    lines = map(json.loads, (attempt / "predictions.jsonl").read_text().splitlines())
    return [bool(line["correct"]) for line in lines if line["model"] == model]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", type=Path)
    parser.add_argument("--rows", type=int, default=120)
    parser.add_argument("--heldout", type=int, default=60)
    parser.add_argument("--epochs", type=int)
    parser.add_argument("--rate", type=float)
    parser.add_argument("--lora", action="store_true", help="train an adapter, not every weight but the embeddings")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--quick", action="store_true")
    options = parser.parse_args()
    rows = list(make_rows(options.seed))
    heldout = rows[: 24 if options.quick else options.heldout]
    taught = rows[len(heldout) :][: 96 if options.quick else options.rows]
    report = Report("chats with tools")
    with tempfile.TemporaryDirectory(prefix="chats-") as place:
        base = {"path": str(options.model)}
        if options.model is None:
            tiny = {"tiny": {"vocabulary": 500, "hidden": 64, "max_positions": 1024}}
            once = {"learning_rate": 1e-5, "epochs": 1, "batch_size": 16}
            log("making a tiny model, which knows nothing")
            made = train(Path(place) / "tiny", "pretrain", tiny, taught[:16], heldout[:1], optimiser=once)
            base = {"path": str(made / "model")}
        optimiser = {
            "learning_rate": options.rate or (5e-5 if options.model else 5e-3),
            "epochs": options.epochs or (3 if options.model else 12),
            "batch_size": 2 if options.model else 8,
            "accumulate": 4 if options.model else 1,
        }
        more = {"lora": {"r": 16}} if options.lora else {"freeze_embeddings": options.model is not None}
        attempt = train(Path(place) / "sft", "sft", base, taught, heldout, optimiser=optimiser, **more)
        before, after = (read_correct(attempt, model) for model in ("base", "trained"))
        result = json.loads((attempt / "result.json").read_text())
    places = list(range(len(heldout)))
    for name, correct in (("before", before), ("after", after)):
        share = clustered_mean(correct, places)
        report.add(
            f"right calls of {len(heldout)} held-out chats, {name}", bound="-", figure=f"{share.mean:.3f}", passed=True
        )
    gain = paired_difference(after, before, places)
    shown = f"{gain.mean:.3f} [{gain.low:.3f}, {gain.high:.3f}]"
    report.add(f"gain by {len(taught)} chats", bound="interval above 0", figure=shown, passed=gain.low > 0)
    return report.finish(optimiser=optimiser, seconds=result["seconds"], warnings=result["warnings"])


if __name__ == "__main__":
    sys.exit(main())
