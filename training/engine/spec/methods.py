"""The table of training methods: what each learns from, what it needs, and where it stands.

No torch, no Django, no pydantic: models of the database read it. The engine reads it to check a run and to find the
code that trains; forms, the API, docs and checks before a run read it too. A new method is a file with a function
`train(attempt, loaded, data)`, and a row here.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from importlib.util import find_spec

TEXT_ROOM = "training.engine.text."
"""Where methods stand that train through TRL, which the extra `text` installs."""


class RowKind(StrEnum):
    """What a line of a data file holds (training.engine.rows.types); the kinds of datasets are the same."""

    LABELLED = "labelled"
    LOGGED = "logged"
    TEXT = "text"
    PREFERENCES = "preferences"
    TASKS = "tasks"


class Need(StrEnum):
    """What rows, or the run's spec, have to have for a method."""

    ANSWERS = "answers"
    REWARDS = "rewards"
    PROPENSITY = "propensity"
    ANY_PROPENSITY = "any_propensity"
    PROPENSITY_OR_MODEL = "propensity_or_reward_model"
    RIGHT_AND_WRONG = "right_and_wrong"
    GROUPS = "groups"
    REWARD_FUNCTION = "reward_function"
    RIGHT_TEXTS = "right_texts"
    REWARDED_GROUPS = "rewarded_groups"


FEWEST_REWARDED, FEWEST_OF_A_KIND = 50, 5
"""What a reward model is learnt from at least: rewarded choices, and of these above their mean reward, and not."""

WHAT_LACKS: Mapping[Need, str] = {
    Need.ANSWERS: "rows that choose among options, each with the right one",
    Need.REWARDS: "rows with a reward, of texts one above 0",
    Need.PROPENSITY: "rows with the probability of their action",
    Need.ANY_PROPENSITY: "rows with the probability of their action, or of the ranking that they are of",
    Need.PROPENSITY_OR_MODEL: "rows with the probability of their action, or, for a reward model that pays fresh ones, "
    f"at least {FEWEST_REWARDED} choices with rewards, of which {FEWEST_OF_A_KIND} are above the mean and "
    f"{FEWEST_OF_A_KIND} are not",
    Need.RIGHT_AND_WRONG: "rows that were right and rows that were wrong",
    Need.GROUPS: "decisions of the same prompt with different rewards",
    Need.REWARD_FUNCTION: "a reward for fresh decisions, in the run's settings",
    Need.RIGHT_TEXTS: "texts that are right, or of which nobody said whether they are",
    Need.REWARDED_GROUPS: "texts of one prompt with different rewards, or a reward for fresh ones in the settings",
}
"""For people: what a method that needs it wants."""


@dataclass(frozen=True, slots=True)
class Method:
    """`learns_from`: the kinds of rows of `data.train`, the usual one first, each with what it needs then; empty for a
    method that learns nothing. `entry` is "module:function" of `train(attempt, loaded, data) -> Outcome`, "" where
    nothing is trained; `entries` holds that of kinds of rows for which it is another. `settings`: the field of the
    run's spec that holds its own settings. `does` says for people what it does, and `weak` where it was measured weak,
    and why (docs/learning.md); "" where it was not.
    """

    name: str
    does: str
    entry: str = ""
    learns_from: Mapping[RowKind, frozenset[Need]] = field(default_factory=dict)
    settings: str = ""
    makes_model: bool = False
    """May start with a new tiny model, and trains every weight."""
    trains_adapter: bool = True
    makes_reward_model: bool = False
    """What it makes orders texts, and is never a policy."""
    makes_classifier: bool = False
    """What it makes has linear weights on words or on a sentence encoder, and writes no text."""
    entries: Mapping[RowKind, str] = field(default_factory=dict)
    loss_falls: bool = True
    """Whether a lower loss means that more was learnt; that of a policy gradient says nothing by itself."""
    weak: str = ""
    offered_last_for: frozenset[RowKind] = frozenset()
    """Kinds of rows from which it was measured to make models better too seldom, or some worse (docs/results.md):
    people are offered other methods before it."""
    learns_unjudged: bool = False
    """Whether it learns from logged rows that nobody judged, too; the others leave them out."""

    @property
    def sentence(self) -> str:
        """What it does, and where it is weak."""
        return f"{self.does}; weak {self.weak}" if self.weak else self.does

    def entry_for(self, rows: RowKind) -> str:
        """The function that trains on such rows, as "module:function"."""
        return self.entries.get(rows, self.entry)

    def learns_through_trl(self, rows: RowKind | None) -> bool:
        return rows is not None and self.entry_for(rows).startswith(TEXT_ROOM)

    def find_missing(self, rows: RowKind | None) -> str | None:
        """Which packages have to be installed before it learns from such rows, for people."""
        if not self.learns_through_trl(rows) or find_spec("trl") is not None:
            return None
        return (
            f"method {self.name} learns from {rows} rows through TRL, which is not installed: "
            "run make text, or install reckoner-ledger[text]"
        )

    def needs(self, rows: RowKind | None) -> frozenset[Need]:
        """What it needs when it learns from such rows; nothing of rows that it does not take."""
        return self.learns_from.get(rows, frozenset()) if rows is not None else frozenset()

    def replays(self, rows: RowKind | None) -> bool:
        """Whether it takes `data.replay` beside such rows: labels count as decisions that were right."""
        return rows is RowKind.LOGGED and rows in self.learns_from

    def find_lacks(self, rows: RowKind, has: Collection[Need]) -> list[Need]:
        """What it needs of such rows and the run's settings and `has` lacks."""
        return sorted(self.needs(rows) - set(has))


CLASSIFIER = "classifier"
FEW_FOR_MANY = "where few decisions say little of many options"

_TABLE = (
    Method(
        "pretrain",
        "make or train a model on right answers",
        "training.engine.methods.sft:pretrain",
        {RowKind.LABELLED: frozenset({Need.ANSWERS}), RowKind.TEXT: frozenset({Need.RIGHT_TEXTS})},
        "pretrain",
        makes_model=True,
        trains_adapter=False,
        entries={RowKind.TEXT: "training.engine.text.sft:train"},
    ),
    Method(
        CLASSIFIER,
        "learn a classifier of words, or on a sentence encoder, from right answers and logged rewards",
        "training.engine.classifiers.training:train_classifier",
        {RowKind.LABELLED: frozenset({Need.ANSWERS}), RowKind.LOGGED: frozenset({Need.REWARDS})},
        "classifier",
        trains_adapter=False,
        makes_classifier=True,
    ),
    Method(
        "sft",
        "imitate right answers",
        "training.engine.methods.sft:train",
        {RowKind.LABELLED: frozenset({Need.ANSWERS}), RowKind.TEXT: frozenset({Need.RIGHT_TEXTS})},
        entries={RowKind.TEXT: "training.engine.text.sft:train"},
    ),
    Method(
        "posterior",
        "learn from logged rewards",
        "training.engine.methods.posterior:train",
        {RowKind.LOGGED: frozenset({Need.REWARDS})},
        "posterior",
        weak=FEW_FOR_MANY,
        learns_unjudged=True,
    ),
    Method(
        "reward_weighted",
        "imitate what was rewarded",
        "training.engine.methods.reward_weighted:train",
        {
            RowKind.LOGGED: frozenset({Need.REWARDS, Need.ANY_PROPENSITY}),
            RowKind.TEXT: frozenset({Need.REWARDS}),
            RowKind.TASKS: frozenset(),
        },
        "reward_weighted",
        entries={
            RowKind.TEXT: "training.engine.methods.reward_weighted_texts:train",
            RowKind.TASKS: "training.engine.episodes.reward_weighted:train",
        },
        weak=FEW_FOR_MANY,
    ),
    Method(
        "all_action",
        "climb the estimated reward of all options",
        "training.engine.methods.all_action:train",
        {RowKind.LOGGED: frozenset({Need.REWARDS, Need.PROPENSITY})},
        "all_action",
        loss_falls=False,
        weak=FEW_FOR_MANY,
    ),
    Method(
        "kto",
        "tell right actions from wrong ones",
        "training.engine.methods.kto:train",
        {
            RowKind.LOGGED: frozenset({Need.REWARDS, Need.RIGHT_AND_WRONG}),
            RowKind.TEXT: frozenset({Need.RIGHT_AND_WRONG}),
        },
        "kto",
        entries={RowKind.TEXT: "training.engine.text.kto:train"},
        weak=FEW_FOR_MANY,
    ),
    Method(
        "dpo",
        "prefer the better text of a pair",
        "training.engine.methods.dpo:train",
        {RowKind.PREFERENCES: frozenset()},
        "dpo",
    ),
    Method(
        "reward_model",
        "learn to score texts from right answers or pairs; no policy",
        "training.engine.methods.reward_model:train",
        {RowKind.PREFERENCES: frozenset(), RowKind.LABELLED: frozenset({Need.ANSWERS})},
        "reward_model",
        makes_reward_model=True,
        weak="on corrections alone, or with many options, where a policy finds what it overrates",
    ),
    Method(
        "grpo",
        "prefer what earned more than the rest of its group",
        "training.engine.methods.grpo:train",
        {
            RowKind.LABELLED: frozenset({Need.ANSWERS, Need.REWARD_FUNCTION}),
            RowKind.LOGGED: frozenset({Need.REWARDS, Need.GROUPS}),
            RowKind.TEXT: frozenset({Need.REWARDED_GROUPS}),
            RowKind.TASKS: frozenset(),
        },
        "online",
        entries={
            RowKind.TEXT: "training.engine.text.grpo:train",
            RowKind.TASKS: "training.engine.episodes.grpo:train",
        },
        loss_falls=False,
        weak="on small logs, whose groups mostly agree",
        offered_last_for=frozenset({RowKind.LOGGED}),
    ),
    Method(
        "ppo",
        "prefer what earned more than a critic expected",
        "training.engine.methods.ppo:train",
        {
            RowKind.LABELLED: frozenset({Need.ANSWERS, Need.REWARD_FUNCTION}),
            RowKind.LOGGED: frozenset({Need.REWARDS, Need.PROPENSITY_OR_MODEL}),
        },
        "online",
        loss_falls=False,
        weak=FEW_FOR_MANY,
    ),
    Method("export", "write a version as files of another format, and compare them with it", trains_adapter=False),
    Method("evaluate", "score a model on held-out rows", trains_adapter=False),
)

METHODS: Mapping[str, Method] = {method.name: method for method in _TABLE}
TRAINING: Mapping[str, Method] = {name: method for name, method in METHODS.items() if method.learns_from}
"""Those that a run can be started with."""

HELP = "; ".join(f"{name}: {method.sentence.replace('; ', ', ')}" for name, method in TRAINING.items())
"""Of a command's option that names one."""
