"""Named settings of runs, for recipes that people ask for by what they are known for. PURE.

`manage.py train`, `runs start` and the form that starts a run offer them; a setting that somebody gives stands over one
of a preset.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from training.engine.spec.methods import RowKind


@dataclass(frozen=True, slots=True)
class Preset:
    """`rows`: the kind that it was made for. `settings` are fields of the engine's spec."""

    name: str
    does: str
    method: str
    rows: RowKind
    settings: Mapping[str, Any]


_TABLE = (
    Preset(
        "reward-weighted-lora",
        "reward_weighted on texts with a small adapter of queries and values, one text per update",
        "reward_weighted",
        RowKind.TEXT,
        {
            "lora": {"r": 8, "alpha": 16, "dropout": 0.1, "targets": "query-value"},
            "optimiser": {"batch_size": 1, "accumulate": 1, "learning_rate": 1e-4, "epochs": 3},
            # 512 tokens of prompt and completion together.
            "max_prompt_tokens": 384,
            "max_completion_tokens": 128,
        },
    ),
)
PRESETS: Mapping[str, Preset] = {preset.name: preset for preset in _TABLE}
HELP = "; ".join(f"{preset.name}: {preset.does}" for preset in _TABLE)
"""Of a command's option that names one."""
