"""Types of `spec.json` and `result.json`: what a run is given, and what it answers.

Both the launcher in Django, which has no torch, and the engine, which has no Django, read this module, so it imports
neither.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

from decisions.rewards.components import COMPONENTS
from decisions.rewards.components.rules import InvalidRule, component_of

SCHEMA_VERSION = 1
HUB_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*(/[A-Za-z0-9][A-Za-z0-9._-]*)?")

Method = Literal["pretrain", "posterior", "reward_weighted", "grpo", "ppo", "merge", "evaluate"]
LEARNS_FROM_LABELS = frozenset({"pretrain"})
LEARNS_FROM_LOGS = frozenset({"posterior", "reward_weighted"})
LEARNS_ONLINE = frozenset({"grpo", "ppo"})

# Exit codes of `python -m training.engine`, after sysexits.h where it has a word for it.
EXIT_OK = 0
EXIT_FAILED = 1
EXIT_BAD_SPEC = 2
EXIT_STOPPED = 75  # asked to stop; a checkpoint was left and the run can be resumed


class Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


class TinyShape(Strict):
    """A Qwen2-shaped model small enough to be made on the spot, about 650k parameters.

    `vocabulary` counts byte-level BPE tokens trained on the run's own labelled rows.
    """

    vocabulary: int = Field(default=2000, ge=300, le=32_000)
    hidden: int = Field(default=128, ge=16, le=4096)
    layers: int = Field(default=2, ge=1, le=64)
    heads: int = Field(default=4, ge=1, le=64)
    key_value_heads: int = Field(default=2, ge=1, le=64)
    initializer_range: float = Field(default=0.08, gt=0, le=1)
    max_positions: int = Field(default=512, ge=64, le=32_768)

    @model_validator(mode="after")
    def _divides(self) -> TinyShape:
        if self.hidden % (2 * self.heads) or self.heads % self.key_value_heads:
            raise ValueError("hidden must be a multiple of 2 · heads, and heads a multiple of key_value_heads")
        return self


class ModelSource(Strict):
    """Where weights come from: a folder or hub id, optionally with a LoRA adapter on top, or a tiny shape.

    Exactly one of `path` and `tiny`. `adapter` is a folder that peft can load over `path`. Folders are absolute, so
    that they mean the same to the engine and to who wrote the spec.
    """

    path: str | None = None
    adapter: str | None = None
    tiny: TinyShape | None = None

    @model_validator(mode="after")
    def _one_source(self) -> ModelSource:
        if (self.path is None) == (self.tiny is None):
            raise ValueError("give exactly one of path and tiny")
        if self.adapter is not None and self.path is None:
            raise ValueError("an adapter needs the path of its base")
        if self.path is not None and not self.path.startswith("/") and not HUB_ID.fullmatch(self.path):
            raise ValueError("path is neither an absolute folder nor a hub id (owner/name)")
        if self.adapter is not None and not self.adapter.startswith("/"):
            raise ValueError("adapter is no absolute folder")
        return self


class Lora(Strict):
    """Low-rank adapter (Hu et al. 2021). Absent from a spec means full fine-tuning."""

    r: int = Field(default=8, ge=1, le=256)
    alpha: int = Field(default=16, ge=1, le=1024)
    dropout: float = Field(default=0.0, ge=0, lt=1)
    targets: Literal["all-linear", "attention"] = "all-linear"


class Optimiser(Strict):
    """AdamW under a OneCycle schedule (10 % warm-up, cosine), gradients clipped by norm."""

    learning_rate: float = Field(default=2e-3, gt=0, le=1)
    epochs: int = Field(default=3, ge=1, le=1000)
    batch_size: int = Field(default=64, ge=1, le=4096)
    weight_decay: float = Field(default=0.01, ge=0, le=1)
    clip_norm: float = Field(default=1.0, gt=0)
    token_dropout: float = Field(default=0.0, ge=0, lt=1, description="share of prompt tokens dropped as augmentation")


class Pretrain(Strict):
    """`calibration_share` of the rows is never trained on; the temperature that fits it best goes into the weights.

    0 trains on every row and leaves the model as sure as it became.
    """

    calibration_share: float = Field(default=0.2, ge=0, le=0.5)


class Posterior(Strict):
    """Targets are the posterior over the right option given what was tried (docs/learning.md).

    `feedback_noise` is η, the chance that feedback says the opposite of the truth.
    """

    feedback_noise: float = Field(default=0.05, ge=0, lt=0.5)
    folds: int = Field(default=3, ge=2, le=20)
    epochs: int = Field(default=6, ge=1, le=100)


class RewardWeighted(Strict):
    """Log-likelihood of logged actions weighted by reward / propensity, the weight capped."""

    weight_cap: float = Field(default=10.0, ge=1)


class Online(Strict):
    """GRPO (Shao et al. 2024) and PPO (Schulman et al. 2017) on decisions made fresh by the weights in training."""

    steps: int = Field(default=60, ge=1, le=100_000)
    prompts_per_step: int = Field(default=32, ge=1, le=4096)
    group: int = Field(default=8, ge=2, le=256, description="GRPO: actions drawn for one prompt")
    clip: float = Field(default=0.2, gt=0, lt=1)
    kl: float = Field(default=0.01, ge=0, description="weight of the exact KL to the starting policy")
    inner_epochs: int = Field(default=2, ge=1, le=20, description="PPO: passes over one batch of decisions")
    gamma: float = Field(default=1.0, ge=0, le=1)
    gae_lambda: float = Field(default=0.95, ge=0, le=1)


class RewardRule(Strict):
    """A rule (docs/rewards.md) and the range that its value keeps."""

    text: str
    low: float
    high: float


class RewardComponent(Strict):
    """One line of a reward spec, as `decisions.rewards.components` names it, or with a `rule` the spec's own."""

    name: str
    weight: float = 1.0
    parameters: dict[str, float | str | bool] = Field(default_factory=dict)
    rule: RewardRule | None = None


class Data(Strict):
    """Paths relative to the run's folder, JSON lines each. docs/engine.md describes the rows."""

    train: str | None = None
    replay: str | None = None
    heldout: str | None = None


class Serving(Strict):
    """The policy that will act: p^(1/temperature), mixed with epsilon of the uniform."""

    temperature: float = Field(default=1.0, gt=0, le=100)
    epsilon: float = Field(default=0.0, ge=0, le=1)


class Evaluate(Strict):
    """After training: score base and trained model on `data.heldout`, both on every row.

    `free_rows` of them are also answered by free generation, to see how often it is a valid action.
    """

    free_rows: int = Field(default=300, ge=0)
    batch_size: int = Field(default=256, ge=1)


class RunSpec(Strict):
    schema_version: Literal[1] = 1
    run_id: str = Field(min_length=1, max_length=64, pattern=r"^[A-Za-z0-9._-]+$")
    method: Method
    seed: int = Field(default=0, ge=0, lt=2**32)
    base: ModelSource
    max_prompt_tokens: int = Field(default=64, ge=4, le=131_072)
    max_completion_tokens: int = Field(default=16, ge=1, le=32_768)
    lora: Lora | None = None
    optimiser: Optimiser = Optimiser()
    pretrain: Pretrain = Pretrain()
    posterior: Posterior = Posterior()
    reward_weighted: RewardWeighted = RewardWeighted()
    online: Online = Online()
    text_weight: float | None = Field(
        default=None,
        ge=0,
        description="weight of the loss that makes free generation valid (training.engine.answers); "
        "by default 1 for pretrain, which teaches it, and 0.3 for the others, which keep it",
    )
    reward: Annotated[list[RewardComponent], Field(max_length=64)] = []
    data: Data = Data()
    serving: Serving = Serving()
    evaluate: Evaluate | None = None
    checkpoint_every_seconds: float = Field(default=30.0, gt=0, le=300)
    threads: int | None = Field(default=None, ge=1, le=1024)

    @property
    def weight_of_text(self) -> float:
        """`text_weight`, or what holds for this method without one."""
        if self.text_weight is not None:
            return self.text_weight
        return 1.0 if self.method == "pretrain" else 0.3

    @model_validator(mode="after")
    def _fits_its_method(self) -> RunSpec:
        """Gathers every fault before it speaks, one a line."""
        faults: list[str] = []
        if self.base.tiny is not None and self.method != "pretrain":
            faults.append("base.tiny: only the pretrain method makes a model; give base.path")
        if self.method not in {"merge", "evaluate"} and self.data.train is None:
            faults.append(f"data.train: method {self.method} learns from rows; give a file")
        tiny = self.base.tiny
        if tiny is not None and self.max_prompt_tokens + self.max_completion_tokens + 16 > tiny.max_positions:
            faults.append("max_prompt_tokens: prompt, template and answer do not fit into base.tiny.max_positions")
        if self.method == "evaluate" and self.data.heldout is None:
            faults.append("data.heldout: evaluate needs held-out rows")
        if self.evaluate is not None and self.data.heldout is None:
            faults.append("data.heldout: the evaluation after training needs held-out rows")
        if self.method in LEARNS_ONLINE and not self.reward:
            faults.append(f"reward: method {self.method} scores fresh decisions; name at least one component")
        if self.method == "merge" and self.lora is not None:
            faults.append("lora: merge takes base.adapter, it does not train one")
        if self.method == "merge" and self.base.adapter is None:
            faults.append("base.adapter: merge needs the adapter to merge")
        if self.method in {"pretrain", "evaluate"} and self.lora is not None:
            faults.append(f"lora: method {self.method} trains no adapter")
        if len({component.name for component in self.reward}) < len(self.reward):
            faults.append("reward: the same component twice")
        if faults:
            raise ValueError("\n".join(faults))
        return self


def find_reward_faults(spec: RunSpec) -> list[str]:
    """What keeps the spec's reward from being calculated here: components that are not installed, rules that are none.
    The launcher looks before it queues a run, and the engine before it loads torch."""
    faults = []
    for component in spec.reward if spec.method in LEARNS_ONLINE else ():
        if component.rule is not None and not component.name.startswith("rule."):
            faults.append(f"{component.name!r} has a rule, so its name must begin with rule.")
        try:
            component_of(component.model_dump())
        except KeyError:
            faults.append(f"unknown component {component.name!r}; known: {', '.join(COMPONENTS)}")
        except InvalidRule as error:
            faults.append(f"{component.name}: {error}")
    return faults


class ModelScore(Strict):
    """Means over the held-out rows. Intervals are calculated where the rows' clusters are known.

    `accuracy` is that of the likeliest option; `probability_of_right` is the chance of the right action under
    the spec's serving policy.
    """

    rows: int
    accuracy: float
    probability_of_right: float
    valid_share: float | None = Field(
        default=None, description="share of free generations that were one of the options"
    )


class RunResult(Strict):
    """`result.json`, written last and by rename: its presence means the attempt is complete."""

    schema_version: Literal[1] = 1
    run_id: str
    method: Method
    attempt: int
    output: Literal["model", "adapter"] | None = None
    weights_sha256: str | None = Field(default=None, description="over the tensors in name order, not over the files")
    steps: int = 0
    rows: int = 0
    seconds: float = 0.0
    trainable_parameters: int = 0
    total_parameters: int = 0
    metrics: dict[str, float] = {}
    scores: dict[Literal["base", "trained"], ModelScore] = {}
    predictions: str | None = Field(default=None, description="JSON lines, one per held-out row and model")
    warnings: list[str] = []


def read_spec(run_dir: Path) -> RunSpec:
    """Raises pydantic.ValidationError with every fault, or FileNotFoundError."""
    return RunSpec.model_validate(json.loads((run_dir / "spec.json").read_text()))
