"""Types of `spec.json`: what a run is given. What it answers is in `training.engine.spec.result`.

Both the launcher in Django, which has no torch, and the engine, which has no Django, read this module, so it imports
neither.
"""

from __future__ import annotations

import hashlib
import json
import re
from pathlib import Path
from typing import Annotated, Literal

from pydantic import AfterValidator, Field, model_validator

from decisions.rewards.components import COMPONENTS
from decisions.rewards.components.rules import InvalidRule, component_of
from training.engine.spec.compared import PLAIN, Compared
from training.engine.spec.export_formats import Format
from training.engine.spec.export_spec import ExportPlan
from training.engine.spec.methods import METHODS, Method, Need, RowKind
from training.engine.spec.settings import (
    AllAction,
    ClassifierSettings,
    Dpo,
    Judge,
    Kto,
    Lora,
    Online,
    Optimiser,
    Posterior,
    Precision,
    Pretrain,
    RewardModel,
    RewardWeighted,
    Sampling,
    Strict,
)

SCHEMA_VERSION = 1
HELD_OUT = (RowKind.LABELLED, RowKind.LOGGED, RowKind.TEXT, RowKind.TASKS)
"""Kinds of rows that a policy is measured on; of logged ones, on those that tell the right option."""
ORDERED = (RowKind.PREFERENCES, RowKind.LABELLED)
"""Kinds of rows that a reward model is measured on: pairs, or rows with the right option, which make pairs."""
REWARD_MODEL = "reward_model.json"
"""Marks a folder whose weights are a reward model's (training.engine.methods.reward_model), and no policy."""
CLASSIFIER = "classifier.json"
"""Marks a folder that holds a classifier's head (training.engine.classifiers)."""
LEARNED = "model"
"""The name of the reward component whose value a reward model gives."""
HUB_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*(/[A-Za-z0-9][A-Za-z0-9._-]*)?")

CHECKPOINTS_KEPT = 2
"""The newest so many of a run's attempt; older ones go when another is complete."""

# Exit codes of `python -m training.engine`, after sysexits.h where it has a word for it.
EXIT_OK = 0
EXIT_FAILED = 1
EXIT_BAD_SPEC = 2
EXIT_STOPPED = 75  # asked to stop; a checkpoint was left and the run can be resumed


def _known_method(name: str) -> str:
    if name not in METHODS:
        raise ValueError(f"{name!r} is unknown; known: {', '.join(METHODS)}")
    return name


MethodName = Annotated[str, AfterValidator(_known_method)]


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
    """Where weights come from: a folder or hub id, optionally with a LoRA adapter or a classifier's head on top, a tiny
    shape, or nothing but words.

    Exactly one of `path`, `tiny` and `words`. `adapter` is a folder that peft can load over `path`, or the head of a
    classifier whose sentence encoder is in `path`. Folders are absolute, so that they mean the same to the engine and
    to who wrote the spec.
    """

    path: str | None = None
    adapter: str | None = None
    tiny: TinyShape | None = None
    words: bool = False

    @model_validator(mode="after")
    def _one_source(self) -> ModelSource:
        if (self.path is not None) + (self.tiny is not None) + self.words != 1:
            raise ValueError("give exactly one of path, tiny and words")
        if self.adapter is not None and self.path is None:
            raise ValueError("an adapter needs the path of its base")
        if self.path is not None and not self.path.startswith("/") and not HUB_ID.fullmatch(self.path):
            raise ValueError("path is neither an absolute folder nor a hub id (owner/name)")
        if self.adapter is not None and not self.adapter.startswith("/"):
            raise ValueError("adapter is not an absolute folder")
        return self


class RewardRule(Strict):
    """A rule (docs/rewards.md) and the range that its value keeps."""

    text: str
    low: float
    high: float


class RewardComponent(Strict):
    """One line of a reward spec, as `decisions.rewards.components` names it, or with a `rule` the spec's own.

    The component `model` is a reward model's: of a run by the API `version` is the id of its version, which the
    launcher resolves to `source`, the folder that it is in.
    """

    name: str
    weight: float = 1.0
    parameters: dict[str, float | str | bool] = Field(default_factory=dict)
    rule: RewardRule | None = None
    version: str | None = None
    source: ModelSource | None = None


SuiteName = Annotated[str, Field(pattern=r"^[A-Za-z0-9._-]+$", max_length=64)]


class Data(Strict):
    """Paths relative to the run's folder, JSON lines each. docs/engine.md describes the rows.

    `rows` is the kind of those in `train`, by default the first that the method learns from, and `heldout_rows` that of
    those in `heldout`, by default text where `rows` is text, else labelled. `log` holds logged rows that the trained
    model is only asked about, for an estimate from the log; it may be empty or missing. `suites` are labelled rows by
    the name of their suite, which the trained model answers, `text_suites` rows of text, of which it is compared with
    those that are right. `compared` says which fields of texts that are JSON count then.
    """

    train: str | None = None
    rows: RowKind | None = None
    replay: str | None = None
    heldout: str | None = None
    heldout_rows: RowKind | None = None
    log: str | None = None
    suites: dict[SuiteName, str] = {}
    text_suites: dict[SuiteName, str] = {}
    compared: Compared = PLAIN

    @property
    def asks(self) -> bool:
        """Whether there is anything that a model is to answer: held-out rows, or suites."""
        return self.heldout is not None or bool(self.suites or self.text_suites)


class Serving(Strict):
    """The policy that will act: p^(1/temperature), mixed with epsilon of the uniform. exploration_budget: the most
    right decisions of 1,000 that this is expected to give up, by the model's own probabilities; None: any."""

    temperature: float = Field(default=1.0, gt=0, le=100)
    epsilon: float = Field(default=0.0, ge=0, le=1)
    exploration_budget: float | None = Field(default=None, gt=0, le=1000)


class Evaluate(Strict):
    """After training: score base and trained model on `data.heldout`, both on every row.

    `free_rows` of them are also answered by free generation, to see how often it is a valid action.
    """

    free_rows: int = Field(default=300, ge=0)
    batch_size: int = Field(default=256, ge=1)


class RunSpec(Strict):
    schema_version: Literal[1] = 1
    run_id: str = Field(min_length=1, max_length=64, pattern=r"^[A-Za-z0-9._-]+$")
    method: MethodName
    seed: int = Field(default=0, ge=0, lt=2**32)
    base: ModelSource
    max_prompt_tokens: int = Field(default=64, ge=4, le=131_072)
    max_completion_tokens: int = Field(
        default=16,
        ge=1,
        le=32_768,
        description="for rows of text, by default as many as the longest one has, up to the base's limit",
    )
    lora: Lora | None = None
    freeze_embeddings: bool = Field(
        default=False,
        description="without an adapter: do not train the embeddings, nor an output layer tied to them",
    )
    option_tokens: bool = Field(
        default=False,
        description="without an adapter: with more than 32 options, each of several tokens becomes one token",
    )
    quantisation: Literal["4bit"] | None = Field(
        default=None, description="for the weights under an adapter during training; needs CUDA and bitsandbytes"
    )
    gradient_checkpointing: bool = Field(
        default=False, description="calculate activations twice instead of keeping them: less memory, a third more time"
    )
    precision: Precision | None = Field(
        default=None,
        description="for matrix products; trained weights stay float32. Default: bfloat16 on GPUs, float16 on those "
        "that lack it, bfloat16 for models of 512 or more dimensions on processors that multiply in it, else float32",
    )
    optimiser: Optimiser = Optimiser()
    pretrain: Pretrain = Pretrain()
    classifier: ClassifierSettings = ClassifierSettings()
    posterior: Posterior = Posterior()
    reward_weighted: RewardWeighted = RewardWeighted()
    all_action: AllAction = AllAction()
    kto: Kto = Kto()
    dpo: Dpo = Dpo()
    reward_model: RewardModel = RewardModel()
    online: Online = Online()
    sampling: Sampling = Sampling()
    text_weight: float | None = Field(
        default=None,
        ge=0,
        description="weight of the loss that makes free generation valid (training.engine.updates.answers); "
        "by default 1 for pretrain and sft, which teach it, and 0.3 for the others, which keep it",
    )
    reward: Annotated[list[RewardComponent], Field(max_length=64)] = []
    judge: Judge | None = Field(
        default=None, description="for tasks: a judge model that scores the results of episodes"
    )
    data: Data = Data()
    held_back: float = Field(
        default=0.0,
        ge=0,
        le=0.5,
        description="share of the logged rows, by group, that the run does not learn from: an estimate from the log "
        "may use them. The same groups in every run",
    )
    serving: Serving = Serving()
    evaluate: Evaluate | None = None
    export: ExportPlan | None = Field(default=None, description="only for the method export: what it writes")
    checkpoint_every_seconds: float = Field(default=30.0, gt=0, le=300)
    epoch_checkpoints: bool = Field(default=False, description="keep the weights after each epoch")
    samples: int = Field(
        default=8, ge=0, le=8, description="number of rows whose answers are shown during training; 0: none"
    )
    threads: int | None = Field(default=None, ge=1, le=1024)

    @property
    def trains_by(self) -> Method:
        """The method's row in the table of methods."""
        return METHODS[self.method]

    @property
    def train_rows(self) -> RowKind | None:
        """The kind of the rows in `data.train`; None for a method that learns from none."""
        return self.data.rows or next(iter(self.trains_by.learns_from), None)

    @property
    def heldout_rows(self) -> RowKind:
        """The kind of the rows in `data.heldout`."""
        if self.data.heldout_rows is not None:
            return self.data.heldout_rows
        if self.trains_by.makes_reward_model:
            return self.train_rows or RowKind.PREFERENCES
        return self.train_rows if self.train_rows in {RowKind.TEXT, RowKind.TASKS} else RowKind.LABELLED

    @property
    def weight_of_text(self) -> float:
        """`text_weight`, or what holds for this method without one."""
        if self.text_weight is not None:
            return self.text_weight
        if self.train_rows is RowKind.TASKS:
            return 0.0  # the next action is scored among those on offer, and never written
        teaches = Need.ANSWERS in self.trains_by.needs(self.train_rows) and not self.rewards_fresh_decisions
        return 1.0 if teaches else 0.3

    @property
    def rewards_fresh_decisions(self) -> bool:
        """Whether `reward` values decisions that the run makes."""
        needs = self.trains_by.needs(self.train_rows)
        return Need.REWARD_FUNCTION in needs or (Need.REWARDED_GROUPS in needs and bool(self.reward))

    @property
    def acts_while_it_learns(self) -> bool:
        """Whether each update acts on tasks with the weights that it has changed."""
        return self.train_rows is RowKind.TASKS and self.trains_by.settings == "online"

    @model_validator(mode="after")
    def _fits_its_method(self) -> RunSpec:
        """Gathers every fault before it speaks, one a line."""
        faults: list[str] = []
        method = self.trains_by
        if method.makes_classifier and self.epoch_checkpoints:
            faults.append("epoch_checkpoints: a classifier keeps no weights of its epochs; leave it out")
        if self.base.tiny is not None and not method.makes_model:
            faults.append("base.tiny: only the pretrain method makes a model; give base.path")
        if self.base.words and not method.makes_classifier:
            faults.append(
                f"base.words: only the classifier method learns from words alone; {self.method} needs a model"
            )
        if method.learns_from and self.data.train is None:
            faults.append(f"data.train: method {self.method} learns from rows; give a file")
        if self.data.rows is not None and self.data.rows not in method.learns_from:
            known = " or ".join(method.learns_from) or "none"
            faults.append(f"data.rows: method {self.method} cannot learn from {self.data.rows} rows; it takes {known}")
        if self.data.replay is not None and not method.replays(self.train_rows):
            kind = f"{self.train_rows} rows" if self.train_rows is not None else "no rows"
            faults.append(f"data.replay: method {self.method} learns from {kind} and replays none; leave it out")
        measured_on = ORDERED if method.makes_reward_model else HELD_OUT
        if self.heldout_rows not in measured_on:
            made = "reward model" if method.makes_reward_model else "model"
            faults.append(
                f"data.heldout_rows: no {made} is measured on {self.heldout_rows} rows; give {' or '.join(measured_on)}"
            )
        if method.makes_reward_model and (self.data.log or self.data.suites or self.data.text_suites):
            faults.append("data: a reward model answers nothing; leave out log and suites")
        if method.makes_reward_model and self.epoch_checkpoints:
            faults.append("epoch_checkpoints: other programs cannot load a reward model; leave it out")
        tiny = self.base.tiny
        if tiny is not None and self.max_prompt_tokens + self.max_completion_tokens + 16 > tiny.max_positions:
            faults.append("max_prompt_tokens: prompt, template and answer do not fit into base.tiny.max_positions")
        if set(self.data.suites) & set(self.data.text_suites):
            faults.append("data.text_suites: a suite of this name has labelled rows; give it another name")
        if self.method == "evaluate" and not self.data.asks:
            faults.append("data.heldout: evaluate needs held-out rows, or suites")
        if self.evaluate is not None and not self.data.asks:
            faults.append("data.heldout: the evaluation after training needs held-out rows")
        if self.rewards_fresh_decisions and not self.reward:
            faults.append(f"reward: method {self.method} scores fresh decisions; name at least one component")
        afresh = self.rewards_fresh_decisions and self.train_rows is RowKind.LABELLED
        if self.online.curriculum is not None and not (afresh or self.acts_while_it_learns):
            faults.append(
                "online.curriculum: only for labelled rows and tasks on which the run makes new decisions; leave it out"
            )
        if self.online.ranked and not (self.train_rows is RowKind.TEXT and self.rewards_fresh_decisions):
            faults.append("online.ranked: only for fresh texts, of grpo on texts with a reward; leave it out")
        if self.train_rows is RowKind.TASKS and self.reward:
            faults.append("reward: for tasks the environment gives the reward; leave it out")
        if self.judge is not None and self.train_rows is not RowKind.TASKS:
            faults.append("judge: only episodes on tasks are judged; leave it out")
        if (self.method == "export") != (self.export is not None):
            faults.append("export: the method export needs it, and no other method takes it")
        if self.export is not None and self.export.format is Format.LORA and self.base.adapter is None:
            faults.append("base.adapter: the model has no adapter to export as lora")
        if self.freeze_embeddings and tiny is not None:
            faults.append("freeze_embeddings: a new tiny model has yet to learn its embeddings; leave it out")
        if self.option_tokens and self.lora is not None:
            faults.append("option_tokens: an adapter keeps its base's vocabulary; leave out option_tokens or lora")
        if self.lora is not None and not method.trains_adapter:
            faults.append(f"lora: method {self.method} trains no adapter")
        if self.quantisation is not None and self.lora is None:
            faults.append("quantisation: only weights under an adapter can be in 4 bits; give lora as well")
        if self.epoch_checkpoints and (self.rewards_fresh_decisions or self.acts_while_it_learns):
            fresh = {RowKind.TEXT: "texts", RowKind.TASKS: "episodes"}.get(
                self.train_rows or RowKind.LABELLED, "decisions"
            )
            faults.append(f"epoch_checkpoints: method {self.method} on fresh {fresh} has steps instead of epochs")
        if len({component.name for component in self.reward}) < len(self.reward):
            faults.append("reward: the same component twice")
        if faults:
            raise ValueError("\n".join(faults))
        return self


def is_held_back(row: str, group: str | None, share: float) -> bool:
    """Whether the row with this id and group belongs to the share in [0, 1] of groups that a run with `held_back` does
    not learn from: always the same ones, and those of a smaller share are among those of a larger."""
    digest = hashlib.sha256((group or row).encode(errors="surrogatepass")).digest()
    return int.from_bytes(digest[:8], "big") < share * 2**64


def find_reward_faults(spec: RunSpec) -> list[str]:
    """What keeps the spec's reward from being calculated here: components that are not installed, rules that are none.
    The launcher looks before it queues a run, and the engine before it loads torch."""
    faults = []
    for component in spec.reward if spec.rewards_fresh_decisions else ():
        if component.name == LEARNED:
            if component.source is None or component.rule is not None or component.parameters:
                faults.append(f"{LEARNED!r} needs a reward model, and takes neither rule nor parameters")
            continue
        if component.source is not None or component.version is not None:
            faults.append(f"only {LEARNED!r} reads a reward model, and {component.name!r} does not")
        if component.rule is not None and not component.name.startswith("rule."):
            faults.append(f"{component.name!r} has a rule, so its name must begin with rule.")
        try:
            component_of(component.model_dump())
        except KeyError:
            faults.append(f"unknown component {component.name!r}; known: {', '.join(COMPONENTS)}")
        except InvalidRule as error:
            faults.append(f"{component.name}: {error}")
    return faults


def read_spec(run_dir: Path) -> RunSpec:
    """Raises pydantic.ValidationError with every fault, or FileNotFoundError."""
    return RunSpec.model_validate(json.loads((run_dir / "spec.json").read_text()))
