"""The few names of openpipe-art 0.5.23 that our program uses, with the real ones' signatures.

`train` puts the token sequences together as the package's preprocessing/tokenize.py does (a Choice whose prompt begins
with what stands there goes on with it, another begins anew), refuses what that would refuse, and keeps them in a file.
"""

ART = """
from typing import Any, Literal
from .trajectories import LegacyHistory, Trajectory, TrajectoryGroup

class TrainableModel:
    def __init__(
        self, *, name: str, run_name: str, project: str, entity=None, id=None, run_id=None, config=None,
        base_model: str, lora_config=None, base_path: str = ".art", report_metrics=None, _internal_config=None,
    ) -> None:
        self.name, self.run_name, self.project, self.base_model = name, run_name, project, base_model
        self.backend = None

    async def register(self, backend, _openai_client_config=None) -> None:
        self.backend = backend
"""
TRAJECTORIES = """
from openai.types.chat.chat_completion import Choice

def _check(items):
    assert all(isinstance(item, Choice) or item["role"] in ("user", "system", "tool") for item in items), items

class LegacyHistory:
    def __init__(self, *, messages_and_choices, tools=None):
        _check(messages_and_choices)
        self.messages_and_choices, self.tools = messages_and_choices, tools

class Trajectory:
    def __init__(self, *, exchanges=None, messages_and_choices=(), tools=None, additional_histories=(), reward=0.0,
                 initial_policy_version=None, final_policy_version=None, metrics=None, metadata=None, logs=()):
        _check(messages_and_choices)
        assert all(isinstance(one, LegacyHistory) for one in additional_histories) and isinstance(reward, float)
        assert all(isinstance(value, (float, int, bool)) for value in (metrics or {}).values())
        self.messages_and_choices, self.additional_histories = messages_and_choices, additional_histories
        self.reward, self.metadata = reward, metadata

class TrajectoryGroup:
    def __init__(self, trajectories=(), *, exceptions=(), metadata=None, metrics=None, logs=None):
        assert all(isinstance(one, Trajectory) for one in trajectories)
        self.trajectories, self.metadata = list(trajectories), metadata
"""
LOCAL = """
import json, os, pathlib
from dataclasses import dataclass, field
from openai.types.chat.chat_completion import Choice

@dataclass
class LocalTrainResult:
    step: int
    metrics: dict = field(default_factory=dict)
    checkpoint_path: str | None = None

class LocalBackend:
    def __init__(self, *, in_process=False, path=None, gpu_cost_per_hour_usd=None, enable_expert_replay=True):
        self.path = pathlib.Path(path)
        self.path.mkdir(parents=True, exist_ok=True)

    async def __aenter__(self):
        return self

    async def __aexit__(self, *error):
        pass

    async def train(self, model, trajectory_groups, *, learning_rate: float = 5e-6, loss_fn="cispo"):
        assert model.backend is self and not [name for name in os.environ if name == "WANDB_API_KEY"]
        lines = [
            {"task": group.metadata["task"], "reward": one.reward, "sequences": list(assemble(one))}
            for group in trajectory_groups for one in group.trajectories
        ]
        (self.path / "sequences.json").write_text(json.dumps(lines))
        return LocalTrainResult(1, {"loss": learning_rate}, str(self.path / model.base_model.strip("/")))

def assemble(trajectory):
    for history in [trajectory, *trajectory.additional_histories]:
        ids, log_p = [], []
        for choice in (item for item in history.messages_and_choices if isinstance(item, Choice)):
            extra = choice.model_extra
            prompt, wrote, values = (extra[k] for k in ("prompt_token_ids", "token_ids", "art_completion_logprobs"))
            assert len(wrote) == len(values), "Exact logprob length does not match completion token IDs"
            if ids and prompt[: len(ids)] != ids:
                yield ids, log_p
                ids, log_p = [], []
            log_p = log_p + [None] * (len(prompt) - len(ids)) + values
            ids = prompt + wrote
        yield ids, log_p
"""
FILES = {
    "art/__init__.py": ART,
    "art/trajectories/__init__.py": TRAJECTORIES,
    "art/local/__init__.py": "from .backend import LocalBackend\n",
    "art/local/backend.py": LOCAL,
}
PACKAGES = {"openpipe-art": "0.5.23", "unsloth": "2026.3.3"}
