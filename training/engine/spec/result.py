"""Types of `result.json`: what a run answers. As training.engine.spec.run_spec, it imports neither Django nor torch."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from training.engine.spec.export_spec import ExportReport
from training.engine.spec.run_spec import MethodName
from training.engine.spec.settings import Precision, Strict


class EpisodeScore(Strict):
    """Means over the held-out tasks without a fault; `left_out` are those with one.

    Each model acts twice on a task: as the spec's serving policy draws, with its exploration, and greedily, always by
    the likeliest action. `serving_success` and `greedy_success` are the shares that were solved so; all else is of the
    serving episodes. `score` in [0, 1] is the share of a task that is done, `reward` what the environment paid, as a
    share of the most that it pays. `steps`: actions an episode. `progress`: share of the steps that earned something.
    `finished`: share of the episodes that ended before the limit of steps. `solved_by_domain`: share of solved
    episodes. Where an outside agent acted, a step is a call of the model, and `progress` and `finished` are None: only
    the whole is graded.
    """

    serving_success: float
    greedy_success: float
    score: float
    reward: float
    steps: float
    progress: float | None
    finished: float | None
    left_out: int
    solved_by_domain: dict[str, float]


class ModelScore(Strict):
    """Means over the held-out rows. Intervals are calculated where the rows' clusters are known.

    `accuracy` is that of the likeliest option; `probability_of_right` is the chance of the right action under
    the spec's serving policy. Of held-out texts that are right (`training.engine.evaluation.texts`) they are the share
    of greedy answers that equal the completion, and the chance that the model writes exactly the completion. Of tasks
    both are the serving success, and `episodes` has the greedy success beside it.
    """

    rows: int
    accuracy: float
    probability_of_right: float
    valid_share: float | None = Field(
        default=None,
        description="share of free generations that were one of the options; for texts whose completions are JSON, "
        "share of the answers that are JSON of the same kind",
    )
    log_p: float | None = Field(
        default=None, description="for texts: mean log-probability of a whole completion, in nats"
    )
    milliseconds: float | None = Field(
        default=None, ge=0, description="for rows with options: time a row took, scored in batches on this machine"
    )
    episodes: EpisodeScore | None = Field(default=None, description="for tasks")


class SuiteAnswers(Strict):
    """How the newest model answered a suite: a line of `predictions` per row, in their order; of texts per row that is
    right. `valid_share` is as of `ModelScore`."""

    predictions: str
    valid_share: float | None = None
    free_rows: int = Field(default=0, description="number of rows that `valid_share` is measured on")


class RewardSpread(Strict):
    """Of the rewards, in [0, 1], of the rows that a run learnt from; those without one are not counted.

    `deviation`: of the population. `counts`: rows whose reward is in [0, 0.1), [0.1, 0.2), …, [0.9, 1].
    """

    rows: int
    mean: float
    deviation: float
    minimum: float
    median: float
    maximum: float
    counts: list[int]


class AlarmRaised(Strict):
    """Why the training stopped before its time, after how many updates, and after how many the weights are from that it
    kept."""

    reason: str
    step: int
    kept_step: int


class RunResult(Strict):
    """`result.json`, written last and by rename: its presence means the attempt is complete."""

    schema_version: Literal[1] = 1
    run_id: str
    method: MethodName
    attempt: int
    output: Literal["model", "adapter", "classifier", "export"] | None = None
    weights_sha256: str | None = Field(default=None, description="of the tensors in name order, not of the files")
    acting_sha256: str | None = Field(
        default=None,
        description="of what acts with them, as trajectories carry it: of a model `weights_sha256`, of an adapter the "
        'SHA-256 of "base+adapter", of the base\'s and its own `weights_sha256`',
    )
    steps: int = 0
    rows: int = 0
    seconds: float = 0.0
    trainable_parameters: int = 0
    total_parameters: int = 0
    precision: Precision | None = Field(default=None, description="precision of matrix products in training")
    metrics: dict[str, float] = {}
    rewards: RewardSpread | None = Field(default=None, description="rewards of the training rows; null without rewards")
    scores: dict[Literal["base", "trained"], ModelScore] = {}
    predictions: str | None = Field(default=None, description="JSON lines, one per held-out row and model")
    rankings: str | None = Field(
        default=None,
        description="JSON lines, {id, group, model, items, scores, relevant} of each held-out ranking and model",
    )
    log: str | None = Field(default=None, description="JSON lines, {id, p} of each row of `data.log`")
    episodes: str | None = Field(default=None, description="JSON lines, one per held-out episode and model")
    suites: dict[str, SuiteAnswers] = {}
    warnings: list[str] = []
    alarm: AlarmRaised | None = Field(default=None, description="what stopped the training early")
    unanswered: int = Field(
        default=0,
        description="number of held-out decisions left out because they were wrong and do not name the right action",
    )
    without_feedback: int = Field(
        default=0, description="number of held-out decisions left out because nobody judged them"
    )
    export: ExportReport | None = Field(default=None, description="for the method export")
