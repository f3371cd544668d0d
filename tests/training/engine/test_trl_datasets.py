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


@pytest.mark.parametrize(
    ("name", "rows", "trainer", "changes"),
    [
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
