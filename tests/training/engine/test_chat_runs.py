"""Runs of chats with tools: every method on texts learns from the whole chat, and is measured by the calls it makes."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest
import torch
from chat_templates import BLOCKS, TURNS
from engine_world import engine, read_events, read_result, write_run
from torch import Tensor, nn

from models_registry.backends.chat_rows import chat_as_text, reply_as_text
from tests.once import made_once
from training.engine.models.loading import Loaded, build_tiny, build_tokenizer, load_tokenizer, save
from training.engine.models.prompts import PromptEncoder
from training.engine.rows.types import Text
from training.engine.spec.run_spec import TinyShape

PAD_ID = 0
"""Of the tiny model's tokenizer."""
COLOURS = ("red", "green", "blue", "black")
PARAMETERS = {"type": "object", "properties": {"colour": {"type": "string"}}}
TOOLS = [
    {"type": "function", "function": {"name": "send", "parameters": PARAMETERS}},
]
TEMPLATES = {
    "blocks": BLOCKS.replace("<|im_start|>", "# ").replace("<|im_end|>", "<|end|>"),
    "turns": TURNS.replace("{{- bos_token }}", "").replace("<turn>", "# ").replace("</turn>", "<|end|>"),
}
"""With the tiny model's own end of a turn."""
OF_CHATS = {"max_prompt_tokens": 64, "data": {"rows": "text"}, "threads": 2}


def sends(colour: str) -> dict[str, Any]:
    call = {"id": "call_1", "type": "function", "function": {"name": "send", "arguments": {"colour": colour}}}
    return {"role": "assistant", "content": "", "tool_calls": [call]}


def chats(count: int, seed: int) -> list[dict[str, Any]]:
    """What is right stands in the first turn: the last one is the same in every chat."""
    rng = random.Random(seed)
    rows = []
    for number in range(count):
        colour = rng.choice(COLOURS)
        messages = [
            {"role": "system", "content": "Keep shop."},
            {"role": "user", "content": f"Customer {rng.randint(1, 9)} likes {colour}."},
            {"role": "assistant", "content": "Noted."},
            {"role": "user", "content": "Send one."},
        ]
        reply = sends(colour)
        rows.append(
            {
                "id": f"{seed}-{number}",
                "prompt": chat_as_text(messages),
                "completion": reply_as_text(reply),
                "messages": messages,
                "tools": TOOLS,
                "reply": reply,
            }
        )
    return rows


def known(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [row | {"source": "human"} for row in rows]


def tried(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Two answers to each chat: the right call, and one of another colour."""
    log = []
    for row in rows:
        wrong = sends(next(colour for colour in COLOURS if colour not in row["completion"]))
        for reply, reward in ((row["reply"], 1.0), (wrong, 0.0)):
            told = {"id": f"{row['id']}/{reward}", "reply": reply, "completion": reply_as_text(reply), "reward": reward}
            log.append(row | told)
    return log


def paired(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    pairs = []
    for right, wrong in zip(*[iter(tried(rows))] * 2, strict=True):
        common = {name: right[name] for name in ("id", "prompt", "messages", "tools")}
        replies = {"chosen_reply": right["reply"], "rejected_reply": wrong["reply"]}
        pairs.append(common | replies | {"chosen": right["completion"], "rejected": wrong["completion"]})
    return pairs


def teach(name: str) -> Path:
    """The run of a tiny model with this template that has learnt to call the tool."""

    def make(folder: Path) -> None:
        torch.manual_seed(0)
        shape = TinyShape(vocabulary=500, hidden=64, max_positions=512)
        texts = [json.dumps([row["messages"], row["tools"], row["reply"]]) for row in chats(50, 9)]
        tokenizer = build_tokenizer(texts, [], shape.vocabulary)
        tokenizer.chat_template = TEMPLATES[name]
        save(Loaded(build_tiny(shape, tokenizer), tokenizer), folder / "model")
        spec = {
            "method": "sft",
            "base": {"path": str(folder / "model")},
            "optimiser": {"learning_rate": 4e-3, "epochs": 6, "batch_size": 4},
            "evaluate": {},
            "samples": 3,
        }
        run = write_run(folder / "run", OF_CHATS | spec, train=chats(96, 1), heldout=known(chats(24, 2)))
        assert engine(run) == 0

    return made_once(f"chats-{name}", make) / "run"


@contextmanager
def reading() -> Iterator[set[tuple[int, ...]]]:
    """The rows of tokens that the model reads to learn from them, without padding."""
    forward, seen = nn.Embedding.forward, set[tuple[int, ...]]()

    def note(self: nn.Embedding, ids: Tensor) -> Tensor:
        if torch.is_grad_enabled():
            seen.update(tuple(token for token in row if token != PAD_ID) for row in ids.tolist())
        return forward(self, ids)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(nn.Embedding, "forward", note)
        yield seen


@pytest.mark.slow
@pytest.mark.parametrize("name", TEMPLATES)
def test_sft_learns_what_an_earlier_turn_says_and_calls_the_tool(name: str) -> None:
    """By a template that shows tools, and by one that has them written out."""
    run = teach(name)
    result = read_result(run)
    before, after = result["scores"]["base"], result["scores"]["trained"]
    assert before["accuracy"] == 0 and after["valid_share"] == 1 and after["accuracy"] > 0.6
    lines = [json.loads(line) for line in (run / "attempts/1/predictions.jsonl").read_text().splitlines()]
    right = {row["id"]: row["completion"] for row in chats(24, 2)}
    for line in lines:
        assert line["correct"] == (line["action"] == right[line["id"]])
        assert line["model"] == "base" or json.loads(line["action"])[0]["name"] == "send"
    samples = json.loads((run / "attempts/1/samples.json").read_text())
    assert samples["rows"][0]["prompt"].startswith("System: Keep shop.\n\nUser: Customer")
    assert all(reply["valid"] for reply in samples["newest"]["replies"])


REWARD = [{"name": "matches_answer"}]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("method", "changes"),
    [
        ("sft", {}),
        ("kto", {}),
        ("grpo", {}),
        ("grpo", {"reward": REWARD}),
        ("reward_weighted", {}),
        ("dpo", {}),
        ("reward_model", {}),
    ],
    ids=["sft", "kto", "stored groups", "fresh texts", "reward_weighted", "dpo", "reward_model"],
)
def test_every_method_reads_the_tokens_that_are_served(method: str, changes: dict[str, Any], tmp_path: Path) -> None:
    base = teach("blocks") / "attempts/1/model"
    of_pairs = method in ("dpo", "reward_model")
    rows, heldout = chats(8, 3), known(chats(4, 4))
    train = paired(rows) if of_pairs else rows if "reward" in changes else tried(rows)
    spec = {
        "method": method,
        "base": {"path": str(base)},
        "optimiser": {"learning_rate": 1e-4, "epochs": 1, "batch_size": 8},
        "online": {"prompts_per_step": 4, "group": 2, "steps": 2},
        "evaluate": {},
    }
    kinds = {"rows": "preferences" if of_pairs else "text", "heldout_rows": "text"}
    if method == "reward_model":
        heldout, kinds["heldout_rows"] = paired(chats(4, 4)), "preferences"
    run = write_run(tmp_path / "run", OF_CHATS | spec | changes | {"data": kinds}, train=train, heldout=heldout)
    with reading() as seen:
        assert engine(run) == 0
    result = read_result(run)
    encoder = PromptEncoder(load_tokenizer(base), OF_CHATS["max_prompt_tokens"])  # type: ignore[arg-type]
    told = [msgspec.convert(row, Text) for row in tried(rows)]
    prompts, replies = encoder.encode_rows(told)
    if "reward" in changes:  # the model's own texts follow
        begins = {tuple(prompt) for prompt in prompts}
        assert seen and all(any(row[: len(begin)] == begin for begin in begins) for row in seen)
        (last,) = [event["values"] for event in read_events(run) if event["kind"] == "metric"][-1:]
        assert last["valid_share"] > 0.5 and last["reward"] > 0
    else:
        whole = {(*prompt, *reply) for prompt in prompts for reply in replies}
        assert seen and seen <= whole
    if method != "reward_model":
        assert result["scores"]["trained"]["valid_share"] == 1
