"""Every format of a dataset's rows is loaded by `datasets` and taken by the trainer of TRL that it is for."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from tests.training.engine.engine_world import QUIET_TRL
from training.engine.models.loading import build_tiny, build_tokenizer
from training.engine.spec.run_spec import TinyShape
from training.rows.trl_formats import FORMATS

pytestmark = pytest.mark.slow
TINY = TinyShape(vocabulary=300, hidden=16, layers=1, heads=2, key_value_heads=1)
PROMPTS = ("file the invoice", "file the flight", "File the invoice", "file the  flight")


def logged() -> list[dict[str, Any]]:
    """Two answers to each of two questions, one of them rewarded."""
    return [
        {"id": str(n), "prompt": prompt, "completion": f'{{"folder": {n // 2}}}', "reward": float(n < 2)}
        for n, prompt in enumerate(PROMPTS)
    ]


def paired() -> list[dict[str, Any]]:
    return [{"id": str(n), "prompt": p, "chosen": "finance", "rejected": "travel"} for n, p in enumerate(PROMPTS)]


LOOK = {
    "type": "function",
    "function": {"name": "look", "description": "", "parameters": {"type": "object", "properties": {"at": {}}}},
}


def chats() -> list[dict[str, Any]]:
    """Two answers to each of two chats, one of them rewarded: a call, and words; and one turn without tools."""
    rows: list[dict[str, Any]] = []
    for number, city in enumerate(("Oslo", "Oslo", "Bergen", "Bergen")):
        earlier = {"type": "function", "function": {"name": "look", "arguments": {"at": city, "days": number // 2}}}
        messages = [
            {"role": "system", "content": "Be brief."},
            {"role": "user", "content": f"rain in {city}"},
            {"role": "assistant", "content": "", "tool_calls": [earlier]},
            {"role": "tool", "content": "rain", "tool_call_id": "c1"},
            {"role": "user", "content": "file it"},
        ]
        call = {"type": "function", "function": {"name": "look", "arguments": {"at": city}}}
        reply = {"role": "assistant", "content": "", "tool_calls": [call]} if number % 2 == 0 else None
        row = {
            "id": str(number),
            "prompt": city,
            "messages": messages,
            "tools": [LOOK],
            "reward": float(reply is not None),
        }
        rows.append(row | {"completion": "filed", **({"reply": reply} if reply else {})})
    return [*rows, {"id": "4", "prompt": "file the flight", "system": "Be brief.", "completion": "no", "reward": 0.0}]


def pairs_of_chats() -> list[dict[str, Any]]:
    pairs = []
    for row in chats()[:4:2]:
        asked = {name: row[name] for name in ("id", "prompt", "messages", "tools")}
        pairs.append(asked | {"chosen": "filed", "rejected": "[…]", "rejected_reply": row["reply"]})
    return [*pairs, {"id": "4", "prompt": "file the flight", "chosen": "travel", "rejected": "no"}]


@pytest.mark.parametrize(
    ("name", "rows", "trainer", "changes"),
    [
        ("prompt", chats, "GRPO", {"num_generations": 2, "max_completion_length": 4, "beta": 0.0}),
        ("chat", chats, "SFT", {"max_length": None}),
        ("messages", chats, "SFT", {"max_length": None}),
        ("preference", pairs_of_chats, "DPO", {"max_length": None}),
        ("kto", chats, "KTO", {"train_sampling_strategy": "sequential", "max_length": None}),
        ("groups", chats, "GRPO", {"num_generations": 2, "max_completion_length": 4, "beta": 0.0}),
        ("prompt", logged, "GRPO", {"num_generations": 2, "max_completion_length": 4, "beta": 0.0}),
        ("completion", logged, "SFT", {}),
        ("chat", logged, "SFT", {}),
        ("messages", logged, "SFT", {}),
        ("preference", paired, "DPO", {}),
        ("chat", paired, "DPO", {}),
        ("kto", logged, "KTO", {"train_sampling_strategy": "sequential"}),
        ("groups", logged, "GRPO", {"num_generations": 2, "max_completion_length": 4, "beta": 0.0}),
    ],
)
def test_a_trainer_takes_a_format(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    name: str,
    rows: Callable[[], list[dict[str, Any]]],
    trainer: str,
    changes: dict[str, Any],
) -> None:
    import datasets
    import trl

    monkeypatch.setenv("CI", "1")  # TRL's trainers send no telemetry there
    datasets.disable_progress_bars()

    def read() -> Iterator[dict[str, Any]]:
        return iter(rows())

    file = tmp_path / "rows.jsonl"
    file.write_text("".join(json.dumps(row) + "\n" for row in FORMATS[name](read)))
    dataset = datasets.load_dataset("json", data_files=str(file), split="train", cache_dir=str(tmp_path / "cache"))
    torch.manual_seed(0)
    tokenizer = build_tokenizer(PROMPTS, [], 300)
    if "chat" in rows.__name__:
        tokenizer.chat_template = (Path(trl.__file__).parent / "chat_templates" / "qwen2_5.jinja").read_text()
    model, reference = build_tiny(TINY, tokenizer), build_tiny(TINY, tokenizer)
    own: dict[str, Any] = {}
    if trainer == "GRPO":
        own["reward_funcs"] = [lambda completions, **others: [float(len(str(text))) for text in completions]]
    elif trainer != "SFT":
        own["ref_model"] = reference
    arguments = getattr(trl, f"{trainer}Config")(
        output_dir=str(tmp_path / "out"),
        max_steps=1,
        per_device_train_batch_size=2,
        dataloader_pin_memory=False,
        **QUIET_TRL,
        **changes,
    )
    made = getattr(trl, f"{trainer}Trainer")(
        model=model, args=arguments, train_dataset=dataset, processing_class=tokenizer, **own
    )
    made.train()
    assert made.state.global_step == 1
    if "chat" in rows.__name__ and trainer != "GRPO":  # GRPO's tools are functions, given to the trainer
        _check_first(made.train_dataset[0], tokenizer)


def _check_first(row: dict[str, Any], tokenizer: Any) -> None:
    """The first row's tokens are those of the whole chat, with its tools and calls, and what is no part of it."""
    texts = {name: tokenizer.decode(ids) for name, ids in row.items() if name.endswith("ids") and ids is not None}
    whole = " ".join(texts.values())
    assert '"name": "look"' in whole.partition("<|im_start|>user")[0], texts
    assert '{"name": "look", "arguments": {"at": "Oslo", "days": 0}}' in whole
    assert "null" not in whole and "None" not in whole
    assert whole.count('{"name": "look", "arguments": {"at": "Oslo"}}') == 1
