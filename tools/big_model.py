"""A model at Qwen2.5-0.5B's shape, made on the spot, and rows for it to decide: what the GPU benchmarks work on.

Weights are random and no hub is asked: speed and memory depend on shapes alone. The tokenizer is the engine's own,
trained on the rows; the vocabulary beyond it is padding, as in Qwen's own folders.
"""

import json
import random
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from peft import LoraConfig, get_peft_model
from transformers import Qwen2Config, Qwen2ForCausalLM

from training.engine.models.loading import Loaded, build_tokenizer, load_model, load_tokenizer, save

SYLLABLES = [first + vowel for first in "bdfgklmnprstvz" for vowel in "aeiou"]
RIGHT_WORDS = 3


@dataclass(frozen=True)
class Shape:
    """`vocabulary` is the model's; the tokenizer fills `tokens` of it."""

    vocabulary: int
    tokens: int
    hidden: int
    layers: int
    heads: int
    key_value_heads: int
    intermediate: int


SHAPES = {
    "half-billion": Shape(151_936, 4000, 896, 24, 14, 2, 4864),  # Qwen2.5-0.5B: 494 million parameters
    "tiny": Shape(800, 600, 32, 2, 4, 2, 96),
}


class Task:
    """Notes of `words` words to be filed under one of `options` names; three words of each give its name away."""

    def __init__(self, options: int, words: int) -> None:
        rng = random.Random(options)
        self.words = words
        # Three options share a first word, as names of tools and folders do.
        first = [make_word(rng) for _ in range(-(-options // 3))]
        self.options = [f"{first[number // 3]} {make_word(rng)} {number}" for number in range(options)]
        self.fillers = [make_word(rng) for _ in range(200)]
        self.of_option = {option: [make_word(rng) for _ in range(8)] for option in self.options}

    def labelled(self, count: int, seed: int) -> list[dict[str, Any]]:
        rng = random.Random(seed)
        rows = []
        for number in range(count):
            answer = rng.choice(self.options)
            words = rng.choices(self.of_option[answer], k=RIGHT_WORDS)
            words += rng.choices(self.fillers, k=self.words - RIGHT_WORDS)
            rng.shuffle(words)
            row = {"id": str(number), "prompt": " ".join(words), "options": self.options, "answer": answer}
            rows.append(row)
        return rows

    def logged(self, count: int, seed: int) -> list[dict[str, Any]]:
        """What a policy would have logged that knows every second answer and guesses the others."""
        rng = random.Random(seed + 1)
        guessed = 0.5 / len(self.options)
        rows = []
        for row in self.labelled(count, seed):
            answer = row.pop("answer")
            action = answer if rng.random() < 0.5 else rng.choice(self.options)
            right = action == answer
            rows.append(row | {"action": action, "propensity": guessed + 0.5 * right, "reward": float(right)})
        return rows


def make_word(rng: random.Random) -> str:
    return "".join(rng.choices(SYLLABLES, k=rng.randint(2, 3)))


def make_base(folder: Path, shape: Shape, tasks: list[Task]) -> Path:
    """Saves a base of random weights in bfloat16, as such models are published, with its tokenizer."""
    torch.manual_seed(0)
    # Of the prompts alone: options are words that the tokenizer was not made for, several tokens each.
    tokenizer = build_tokenizer([row["prompt"] for task in tasks for row in task.labelled(300, 7)], [], shape.tokens)
    config = Qwen2Config(
        vocab_size=shape.vocabulary,
        hidden_size=shape.hidden,
        num_hidden_layers=shape.layers,
        num_attention_heads=shape.heads,
        num_key_value_heads=shape.key_value_heads,
        intermediate_size=shape.intermediate,
        max_position_embeddings=1024,
        tie_word_embeddings=True,
        bos_token_id=None,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
    )
    save(Loaded(Qwen2ForCausalLM(config).to(torch.bfloat16).eval(), tokenizer), folder)
    return folder


def make_adapter(folder: Path, base: Path, rank: int, seed: int) -> Path:
    """Saves a LoRA adapter of random weights for all linear layers of `base`."""
    torch.manual_seed(seed)
    config = LoraConfig(r=rank, lora_alpha=2 * rank, target_modules="all-linear", task_type="CAUSAL_LM")
    adapted: Any = get_peft_model(load_model(base, torch.device("cpu"), torch.float32), config)
    for name, parameter in adapted.named_parameters():
        if ".lora_B." in name:
            torch.nn.init.normal_(parameter, std=0.02)
    save(Loaded(adapted, load_tokenizer(base)), folder)
    return folder


def write_rows(path: Path, rows: list[dict[str, Any]]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
