"""A model that writes its calls learns in one of our environments through TRL's GRPOTrainer."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import torch
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast

from tests.training.engine.engine_world import QUIET_TRL
from tests.training.engine.test_environment_factory import SOLVED, TASK
from training.engine.environments.factory import environment_factory
from training.engine.models.loading import build_tiny
from training.engine.spec.run_spec import TinyShape

STEPS, GROUP = 3, 4
TEMPLATE = """
{%- for message in messages -%}
<|{{ message.role }}|> {{ message.content }}
{%- for call in message.tool_calls or [] %} <call>{{ call.function | tojson }}</call>{% endfor %} <|end|>
{%- endfor -%}
{%- if add_generation_prompt -%}<|assistant|>{%- endif -%}"""
RESPONSE = {
    "defaults": {"role": "assistant"},
    "start_anchor": "<|assistant|>",
    "fields": {
        "tool_calls": {
            "open": "<call>",
            "close_pattern": "</call>",
            "repeats": True,
            "content": "json",
            "transform": {"type": "function", "function": "{content}"},
        },
        "content": {"close_pattern": r"<\|end\|>", "content": "text"},
    },
}
"""What TRL reads calls with; it brings that of known families, such as Qwen3."""


def make_tokenizer() -> Any:
    """Each call is one token, and so is every other word: what a model without weights writes can be read as calls."""
    roles = ["<|user|>", "<|assistant|>", "<|tool|>"]
    calls = [f"<call>{json.dumps({'name': 'act', 'arguments': {'action': action}})}</call>" for action in SOLVED]
    tokenizer = Tokenizer(models.WordLevel({"<|pad|>": 0, "<|end|>": 1, "<|word|>": 2}, unk_token="<|word|>"))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    tokenizer.add_tokens([*roles, *calls])
    made: Any = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, pad_token="<|pad|>", eos_token="<|end|>", padding_side="left"
    )
    made.chat_template, made.response_template = TEMPLATE.strip(), RESPONSE
    return made


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # TRL's own: the interface is experimental
def test_updates_learn_from_what_the_calls_earned(tmp_path: Path) -> None:
    trl, datasets = pytest.importorskip("trl"), pytest.importorskip("datasets")

    class Trainer(trl.GRPOTrainer):  # type: ignore[misc]
        """Keeps what each rollout wrote and earned."""

        def _calculate_rewards(self, inputs: Any, prompts: Any, completions: Any, ids: Any) -> Any:
            rewards = super()._calculate_rewards(inputs, prompts, completions, ids)
            kept.extend(zip(completions, rewards[:, 0].tolist(), strict=True))
            return rewards

    kept: list[tuple[list[dict[str, Any]], float]] = []
    torch.manual_seed(3)
    tokenizer = make_tokenizer()
    shape = TinyShape(hidden=16, layers=1, heads=2, key_value_heads=1, max_positions=512)
    factory = environment_factory("equations")
    row = {"prompt": [{"role": "user", "content": ""}], "task": json.dumps(TASK)}
    trainer = Trainer(
        model=build_tiny(shape, tokenizer),
        environment_factory=factory,
        args=trl.GRPOConfig(
            output_dir=str(tmp_path),
            num_generations=GROUP,
            per_device_train_batch_size=GROUP,
            max_completion_length=256,
            max_tool_calling_iterations=2,
            max_steps=STEPS,
            learning_rate=1e-2,
            logging_steps=1,
            **QUIET_TRL,
        ),
        train_dataset=datasets.Dataset.from_list([row] * STEPS),
        processing_class=tokenizer,
    )
    before = {name: weight.detach().clone() for name, weight in trainer.model.named_parameters()}
    trainer.train()

    assert [earned for _, earned in kept] == pytest.approx([replay(factory, written) for written, _ in kept])
    assert len({earned for _, earned in kept}) > 1  # some calls earned more than others
    told = [one for one in trainer.state.log_history if "reward" in one]
    means = [sum(earned for _, earned in kept[at : at + GROUP]) / GROUP for at in range(0, len(kept), GROUP)]
    assert [one["rewards/EquationsCalls/mean"] for one in told] == pytest.approx(means) and len(means) == STEPS
    changed = [name for name, weight in trainer.model.named_parameters() if not torch.equal(weight, before[name])]
    assert len(changed) == len(before)


def replay(factory: Any, written: list[dict[str, Any]]) -> float | None:
    """What the calls that were answered earn in an episode of their own."""
    world = factory()
    world.reset(task=TASK)
    for message, after in pairwise(written):
        for call in message.get("tool_calls") or [] if after["role"] == "tool" else []:
            world.act(**call["function"]["arguments"])
    earned: float | None = world.get_reward()
    return earned
