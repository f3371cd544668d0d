"""Settings of the training methods, as a run's spec holds them. Neither torch nor Django.

A class for each subject, with a default and bounds for every field (docs/engine.md lists them).
"""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator

from training.engine.spec.architectures import Targets
from training.engine.spec.right_from import RIGHT_FROM

Precision = Literal["float32", "bfloat16", "float16"]


class Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


class Lora(Strict):
    """Low-rank adapter (Hu et al. 2021). Absent from a spec means full fine-tuning."""

    r: int = Field(default=8, ge=1, le=256)
    alpha: int = Field(default=16, ge=1, le=1024)
    dropout: float = Field(
        default=0.0,
        ge=0,
        lt=1,
        description="dropout of the adapter's inputs; not for methods that act while they learn",
    )
    targets: Targets = Field(
        default="all-linear",
        description="matrices that get an adapter: all, the four of attention, or only its queries and values",
    )


class Optimiser(Strict):
    """AdamW under a OneCycle schedule (10 % warm-up, cosine), gradients clipped by norm.

    An update is made from `accumulate` batches of `batch_size` rows, which need the memory of one.
    """

    learning_rate: float = Field(default=2e-3, gt=0, le=1)
    epochs: int = Field(default=3, ge=1, le=1000)
    batch_size: int = Field(default=64, ge=1, le=4096)
    accumulate: int = Field(default=1, ge=1, le=4096)
    weight_decay: float = Field(default=0.01, ge=0, le=1)
    clip_norm: float = Field(default=1.0, gt=0)
    token_dropout: float = Field(default=0.0, ge=0, lt=1, description="share of prompt tokens dropped as augmentation")

    @property
    def rows_an_update(self) -> int:
        return self.batch_size * self.accumulate


class Pretrain(Strict):
    """`calibration_share` of the rows is never trained on; the temperature that fits it best goes into the weights.

    0 trains on every row and leaves the model as sure as it became.
    """

    calibration_share: float = Field(default=0.2, ge=0, le=0.5)
    option_tokens: bool = Field(
        default=True,
        description="for a new tiny model: with more than 32 options, each becomes a token of its own. Not if options "
        "differ from row to row, as in the steps of an episode",
    )


class ClassifierSettings(Strict):
    """Linear weights on words, or on a frozen sentence encoder (training.engine.classifiers). `feedback_noise` is η,
    the chance that feedback says the opposite of the truth."""

    feedback_noise: float = Field(default=0.05, ge=0, lt=0.5)
    encoder: str | None = Field(
        default=None,
        description="folder of the sentence encoder; of a run by the API the ID of its version. Default: the base, "
        "where that is an encoder or a classifier over one; else words alone",
    )
    words_beside: bool = Field(default=False, description="with an encoder: learn from words as well")
    epochs: int = Field(default=20, ge=1, le=1000, description="passes over the rows, and at least 200 updates")
    penalty: float | None = Field(
        default=None,
        ge=0,
        le=1e4,
        description="of the squared weights, as a multiple of the least one that is tried; default: the best of 1, 8 "
        "and 50 on rows that were kept back",
    )


class DirectMethod(Strict):
    """The cross-fitted guess of what was right. `feedback_noise` is η, the chance that feedback says the opposite of
    the truth."""

    feedback_noise: float = Field(default=0.05, ge=0, lt=0.5)
    folds: int = Field(default=5, ge=2, le=20)


class Posterior(DirectMethod):
    """Targets are the posterior over the right option given what was tried (docs/learning.md)."""

    unjudged: float = Field(
        default=1.0,
        ge=0,
        le=100,
        description="largest number of decisions that nobody judged, as a multiple of the judged and labelled ones; "
        "their target is the guess of what was right",
    )


class AllAction(DirectMethod):
    """The expected reward over all options, on a doubly robust estimate of what each would have earned."""

    weight_cap: float = Field(default=10.0, ge=1, description="largest 1 / propensity")
    kl: float = Field(default=0.01, ge=0, description="weight of the exact KL to the starting policy")


LOG_KL = 0.2
"""Weight of the divergence from the starting policy where a log of decisions is all that there is to learn from: a
decision says something of one option, and little of the others (docs/results.md)."""


class RewardWeighted(Strict):
    """Log-likelihood of logged actions weighted by reward / propensity, the weight capped; of steps of episodes by what
    the episode earned."""

    weight_cap: float = Field(default=3.0, ge=1, description="for logged actions and texts")
    kl: float = Field(
        default=0.5, ge=0, description="for logged actions: weight of the exact KL to the starting policy"
    )
    episodes: int = Field(default=8, ge=1, le=256, description="for tasks: episodes per task, by the starting weights")


class Kto(Strict):
    """What was right against what was wrong, by their distance from the starting policy.

    `undesirable_weight` is that of all wrong actions or texts together against all right ones. A wrong one says of one
    option that it is not right, a right one which it is; under a heavy weight, small models unlearn more than they
    learn.
    """

    beta: float = Field(default=0.1, gt=0, le=10)
    balance: Literal["weights", "downsample"] = Field(
        default="weights",
        description="for choices: weight the classes whatever their numbers, or draw as many rows of the larger class "
        "as the smaller has; for texts always the latter",
    )
    right_from: float = Field(
        default=RIGHT_FROM, gt=0, le=1, description="smallest reward of a right decision, in [0, 1]"
    )
    undesirable_weight: float = Field(
        default=0.1,
        ge=0,
        le=10,
        description="weight of all wrong actions or texts together, where all right ones together weigh 1",
    )
    kl: float = Field(default=LOG_KL, ge=0, description="for choices: weight of the exact KL to the starting policy")


class Dpo(Strict):
    """Better against worse texts; `beta` is how dearly distance from the starting model is paid for."""

    beta: float = Field(default=0.1, gt=0, le=10)


class Sampling(Strict):
    """How fresh texts are drawn: from p^(1/temperature) over the `top_k` likeliest tokens, of those the fewest that
    reach a probability of `top_p`. 0 and 1 leave both out."""

    temperature: float = Field(default=1.0, gt=0, le=10)
    top_k: int = Field(default=0, ge=0, le=100_000)
    top_p: float = Field(default=1.0, gt=0, le=1)


FEWEST_OTHERS, MOST_OTHERS = 3, 16


class RewardModel(Strict):
    """Of a labelled row the right option is the better text against so many `others`, drawn by the seed."""

    others: int | None = Field(
        default=None, ge=1, le=64, description="default: a third of the options, at least 3 and at most 16"
    )


CurriculumOrder = Literal["easy_first", "uncertain"]


class Curriculum(Strict):
    """Which prompts a run decides on next, by the model's success on them (training.engine.methods.curriculum).

    `stages` and `pass_at` are of `easy_first` alone.
    """

    order: CurriculumOrder = "easy_first"
    stages: int = Field(default=4, ge=2, le=100)
    pass_at: float = Field(default=0.7, gt=0, le=1, description="mean success needed to pass a stage")


class Alarms(Strict):
    """What stops a run that learns by acting (training.engine.episodes.alarms)."""

    every: int = Field(default=5, ge=1, le=1000, description="number of updates between two looks")
    tasks: int = Field(default=64, ge=8, le=4096, description="number of held-out tasks per look")
    margin: float = Field(default=0.05, ge=0, le=1, description="share of right answers that a suite may lose")


class Online(Strict):
    """GRPO (Shao et al. 2024) and PPO (Schulman et al. 2017). On logged rows `clip` and `kl` count alone: a run passes
    over them as its optimiser says. Of tasks `prompts_per_step` are acted on, each in `group` episodes."""

    steps: int = Field(default=60, ge=1, le=100_000)
    prompts_per_step: int = Field(default=32, ge=1, le=4096)
    group: int = Field(default=8, ge=2, le=256, description="GRPO: actions drawn per prompt")
    clip: float = Field(default=0.2, gt=0, lt=1)
    kl: float | None = Field(
        default=None,
        ge=0,
        description=f"weight of the exact KL to the starting policy; default: 0.01, and {LOG_KL} on logged rows",
    )
    inner_epochs: int = Field(default=2, ge=1, le=20, description="PPO: passes over one batch of decisions")
    gamma: float = Field(default=1.0, ge=0, le=1)
    gae_lambda: float = Field(default=0.95, ge=0, le=1)
    curriculum: Curriculum | None = Field(default=None, description="for labelled rows and tasks; null: random order")
    ranked: bool = Field(
        default=False,
        description="GRPO on fresh texts: the reward is the rank in the group, for a judge without a fixed scale",
    )
    credit: Literal["return_to_go", "episode"] = Field(
        default="return_to_go",
        description="for tasks: compare each step with the group's visits of the same state, or whole episodes",
    )
    alarms: Alarms | None = Field(
        default=Alarms(),
        description="for tasks with held-out tasks or suites: checks that may stop the run; null: none",
    )

    @property
    def kl_of_fresh(self) -> float:
        return 0.01 if self.kl is None else self.kl

    @property
    def kl_of_log(self) -> float:
        return LOG_KL if self.kl is None else self.kl


class Judge(Strict):
    """A judge model that scores what each episode on tasks made, in [0, 1] (docs/judges.md).

    `prompt` asks it; {task} and {work} are filled in, and it answers with the number alone or {"score": number}. Of a
    run by the API `backend` names the server, and the run fills in `url`, `key_variable`, `timeout_seconds` and
    `calibration`, the ID of the measurement by which the judge may be used.
    """

    metric: str = Field(min_length=1, max_length=64, description="metric of the judge's scores in the ledger")
    model: str = Field(min_length=1, max_length=200, description="its name on the server")
    prompt: str = Field(min_length=1, max_length=20_000)
    share: float = Field(default=0.0, ge=0, le=1, description="share of the reward that the judge decides; 0: none")
    backend: str = Field(default="", max_length=63)
    url: str | None = Field(default=None, max_length=500, description="address up to and including /v1")
    key_variable: str = Field(default="", max_length=100, description="environment variable that holds the key")
    timeout_seconds: float = Field(default=60.0, gt=0, le=3600)
    calibration: str | None = None

    @field_validator("prompt")
    @classmethod
    def _holds_the_work(cls, prompt: str) -> str:
        if "{work}" not in prompt:
            raise ValueError("must contain {work}, which stands for the work")
        return prompt
