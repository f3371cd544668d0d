"""Runs of chats with tools: every method on texts learns from the whole chat, and is measured by the calls it makes."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest
import torch
from chat_templates import BLOCKS, TURNS
from engine_world import engine, read_result, write_run

from models_registry.backends.chat_rows import chat_as_text, reply_as_text
from tests.once import made_once
from training.engine.models.loading import Loaded, build_tiny, build_tokenizer, save
from training.engine.spec.run_spec import TinyShape

COLOURS = ("red", "green", "blue", "black")
PARAMETERS = {"type": "object", "properties": {"colour": {"enum": list(COLOURS)}}, "required": ["colour"]}
TOOLS = [
    {"type": "function", "function": {"name": "send", "parameters": PARAMETERS}},
    {"type": "function", "function": {"name": "wait"}},
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
        colour, other = rng.sample(COLOURS, 2)
        messages = [
            {"role": "system", "content": "You keep a shop."},
            {"role": "user", "content": f"Customer {rng.randint(10, 99)} likes {colour} and not {other}."},
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
    """Two answers to each chat: the right call, and that of the colour that is not liked."""
    log = []
    for row in rows:
        wrong = sends(row["messages"][1]["content"].split()[-1].strip("."))
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


@pytest.fixture(scope="module", params=["blocks", "turns"])
def base(request: pytest.FixtureRequest) -> Path:
    """A model that knows nothing, with a template that shows tools or with one that has them written out."""

    def make(folder: Path) -> None:
        torch.manual_seed(0)
        shape = TinyShape(vocabulary=500, hidden=64, max_positions=512)
        texts = [json.dumps([row["messages"], row["tools"], row["reply"]]) for row in chats(50, 9)]
        tokenizer = build_tokenizer(texts, [], shape.vocabulary)
        tokenizer.chat_template = TEMPLATES[request.param]
        save(Loaded(build_tiny(shape, tokenizer), tokenizer), folder / "model")

    return made_once(f"chats-{request.param}", make) / "model"


@pytest.fixture(scope="module")
def writer(base: Path) -> Path:
    """A run of it that has learnt to call the tool, for most colours the right way."""

    def make(folder: Path) -> None:
        spec = {
            "method": "sft",
            "base": {"path": str(base)},
            "optimiser": {"learning_rate": 5e-3, "epochs": 6, "batch_size": 8},
            "evaluate": {},
            "samples": 3,
        }
        run = write_run(folder / "run", OF_CHATS | spec, train=chats(96, 1), heldout=known(chats(24, 2)))
        assert engine(run) == 0

    return made_once(f"chats-sft-{base.parent.name}", make) / "run"


@pytest.mark.slow
def test_sft_learns_what_an_earlier_turn_says_and_calls_the_tool(writer: Path) -> None:
    result = read_result(writer)
    before, after = result["scores"]["base"], result["scores"]["trained"]
    assert before["accuracy"] == 0 and after["valid_share"] == 1 and after["accuracy"] > 0.5
    lines = [json.loads(line) for line in (writer / "attempts/1/predictions.jsonl").read_text().splitlines()]
    said = [line["action"] for line in lines if line["model"] == "trained"]
    assert all(json.loads(text)[0]["name"] == "send" for text in said)
    right = {row["id"]: row["completion"] for row in chats(24, 2)}
    assert all(line["correct"] == (line["action"] == right[line["id"]]) for line in lines)
    samples = json.loads((writer / "attempts/1/samples.json").read_text())
    assert samples["rows"][0]["prompt"].startswith("System: You keep a shop.\n\nUser: Customer")
    assert any(reply["right"] for reply in samples["newest"]["replies"])
