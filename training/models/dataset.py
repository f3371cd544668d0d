"""Frozen datasets: rows from the ledger or imported ones, and which rewards they hold."""

from __future__ import annotations

from django.db import models
from django.db.models import Q

from training.engine.spec.methods import FEWEST_OF_A_KIND, FEWEST_REWARDED, TRAINING, Need, RowKind
from training.engine.spec.right_from import RIGHT_FROM
from workspaces.models import WorkspaceOwned
from workspaces.storage.ids import uuid7


class DatasetKind(models.TextChoices):
    LOGGED = "logged", "Decisions with a reward"
    LABELLED = "labelled", "Inputs with the right answer"
    PREFERENCES = "preferences", "Pairs of a better and a worse action"
    TEXT = "text", "Texts with a reward"
    TASKS = "tasks", "Tasks of an environment"


LEDGER_KINDS = (DatasetKind.LOGGED, DatasetKind.LABELLED, DatasetKind.PREFERENCES, DatasetKind.TEXT)
"""Those that decisions of the ledger make."""


class DatasetSnapshot(WorkspaceOwned):
    """`artifact` holds `rows.jsonl`. `query` says what was asked of the ledger, so that it can be asked again; it is
    empty for rows that were imported. `statistics` count the rows by action and by right and wrong (`least_right` and
    `most_right`: how right they are at least and at most, in [0, 1]), as `groups` the prompts with different rewards,
    as `left_out` the decisions that made none, as `with_probability` rewarded rows whose action or text has a known
    probability, as `without_propensity` rows whose policy did not tell it, as
    `without_any_propensity` those of them whose ranking has none either, with them as `rewarded` rows with a reward, as
    `fewer_rewarded` those above their mean reward or those not, the fewer, and as `rankings` items of one; as
    `unjudged` rows of decisions that nobody judged, and as `without_reward` texts of which nobody said anything; as
    `synthetic` wrong rows that were made up; and as `values` how many values a field of labelled rows has, at most 51.
    Those of people's labels count `sources`, and as `without_options` labelled rows whose action is no choice among
    options. `held_out` is the id of the dataset that was held out of this one, `held_out_of` the other way round.

    Tasks of an environment, and demonstrations in one, are drawn (`training.environments.drawing`): `query` names the
    environment, the split, the first number and the count. Their statistics count tasks by `templates`, `levels` and
    `domains`; `longest_observation` is that of sampled episodes in characters, and `demonstrations` and `demonstrates`
    link the two as `held_out` does.

    `marked_at` is set once some of its rows were erased in the ledger, `erased_rows` says how many: nothing is trained
    from it any more, and its files are removed (docs/erasure.md).
    """

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    agent = models.ForeignKey("decisions.Agent", on_delete=models.CASCADE, related_name="datasets")
    name = models.CharField(max_length=200)
    kind = models.CharField(max_length=16, choices=DatasetKind.choices)
    reward_spec = models.ForeignKey("decisions.RewardSpec", on_delete=models.PROTECT, null=True, related_name="+")
    artifact = models.ForeignKey("models_registry.Artifact", on_delete=models.PROTECT, related_name="datasets")
    rows = models.PositiveIntegerField()
    query = models.JSONField(default=dict)
    statistics = models.JSONField(default=dict)
    created_at = models.DateTimeField(auto_now_add=True)
    erased_rows = models.PositiveIntegerField(default=0)
    marked_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        constraints = [
            models.CheckConstraint(condition=Q(kind__in=DatasetKind.values), name="dataset_kind_known"),
            models.CheckConstraint(
                condition=~Q(kind=DatasetKind.LOGGED) | Q(reward_spec__isnull=False),
                name="dataset_logged_has_reward_spec",
            ),
            models.CheckConstraint(
                condition=Q(erased_rows=0, marked_at__isnull=True) | Q(erased_rows__gt=0, marked_at__isnull=False),
                name="dataset_marked_exactly_when_rows_are_erased",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.name}, {self.size}"

    @property
    def size(self) -> str:
        """The number of its rows, for people."""
        return f"{self.rows:,} {'tasks' if self.is_of_tasks else f'{self.kind} rows'}"

    @property
    def is_imported(self) -> bool:
        """Its rows did not come from the ledger."""
        return not self.query and self.kind in (DatasetKind.LABELLED, DatasetKind.TEXT, DatasetKind.LOGGED)

    @property
    def environment(self) -> str:
        """Of tasks and of demonstrations: where they were drawn; "" of other rows."""
        return str(self.query.get("environment", ""))

    @property
    def is_of_tasks(self) -> bool:
        return self.kind == DatasetKind.TASKS

    @property
    def is_held_out_split(self) -> bool:
        """Tasks that an environment keeps for measuring: nothing learns from them."""
        return self.is_of_tasks and self.query.get("split") == "heldout"

    @property
    def has_answers(self) -> bool:
        """Labelled rows that all choose among options, which methods of ours learn from and are measured on."""
        return self.kind == DatasetKind.LABELLED and not self.statistics.get("without_options")

    @property
    def row_kind(self) -> RowKind | None:
        """As the methods call it; None for rows that no method of ours takes. Labelled rows that have no options are
        texts."""
        if self.is_of_right_texts:
            return RowKind.TEXT
        return RowKind(self.kind) if self.kind in set(RowKind) else None

    @property
    def is_of_right_texts(self) -> bool:
        """Labelled rows of an agent that writes: texts, each of which is right, without rewards."""
        return self.kind == DatasetKind.LABELLED and self.statistics.get("without_options") == self.rows

    def find_has(self, right_from: float = RIGHT_FROM) -> frozenset[Need]:
        """What its rows have for a method to which those from `right_from` on, in (0, 1], are right. What statistics of
        earlier releases do not tell is taken for granted; the engine sees it when it reads the rows."""
        if self.is_of_right_texts:
            return frozenset({Need.RIGHT_TEXTS})
        if self.kind not in (DatasetKind.LOGGED, DatasetKind.TEXT):
            return frozenset({Need.ANSWERS} if self.has_answers else ())
        is_text = self.kind == DatasetKind.TEXT
        if is_text and self.statistics.get("without_reward") == self.rows:
            return frozenset({Need.RIGHT_TEXTS})
        has = {Need.REWARDS, Need.RIGHT_AND_WRONG} | (
            {Need.RIGHT_TEXTS, Need.REWARDED_GROUPS}
            if is_text
            else {Need.PROPENSITY, Need.ANY_PROPENSITY, Need.PROPENSITY_OR_MODEL, Need.GROUPS}
        )
        if is_text and self.statistics.get("mean_reward") == 0.0:
            has.discard(Need.REWARDS)
        if self.statistics.get("without_propensity"):
            has.discard(Need.PROPENSITY)
            if self._why_no_reward_model:
                has.discard(Need.PROPENSITY_OR_MODEL)
        if self._without_any_propensity:
            has.discard(Need.ANY_PROPENSITY)
        if self._has_no_groups:
            has -= {Need.GROUPS, Need.REWARDED_GROUPS}
        if (known := self._right_bounds) is not None:
            least, most = known
            if not least < right_from <= most:
                has.discard(Need.RIGHT_AND_WRONG)
            if most < right_from:
                has.discard(Need.RIGHT_TEXTS)
        return frozenset(has)

    @property
    def _why_no_reward_model(self) -> str:
        """Why no reward model can be learnt from its choices, for people; "" where one can, as far as is known."""
        told = self.statistics
        if told.get("rankings"):
            return f"{told['rankings']} are items of rankings"
        if (rewarded := told.get("rewarded", FEWEST_REWARDED)) < FEWEST_REWARDED:
            return f"only {rewarded} have a reward"
        if (fewer := told.get("fewer_rewarded", FEWEST_OF_A_KIND)) < FEWEST_OF_A_KIND:
            return f"all rewards but {fewer} are alike"
        return ""

    @property
    def _has_no_groups(self) -> bool:
        """No prompt stands there twice with different rewards, as far as is known."""
        known = self.statistics.get("groups")
        alike = self.kind == DatasetKind.LOGGED and self.statistics.get("mean_reward") in (0.0, 1.0)
        return alike if known is None else known == 0

    @property
    def _right_bounds(self) -> tuple[float, float] | None:
        """How right its rows are at least and at most, in [0, 1]; None where nobody knows."""
        told = self.statistics
        if "least_right" in told:
            return told["least_right"], told["most_right"]
        if "all_right" in told:  # of earlier releases
            return told["all_right"], told["all_right"]
        alike = self.kind == DatasetKind.LOGGED and told.get("mean_reward") in (0.0, 1.0)
        return (told["mean_reward"], told["mean_reward"]) if alike else None

    def why_without(self, need: Need, right_from: float = RIGHT_FROM) -> str:
        """What keeps its rows from having it, for people."""
        if need is Need.ANSWERS and (count := self.statistics.get("without_options")):
            return f"{count} of its rows choose among no options"
        if need is Need.PROPENSITY:
            return f"{self.statistics['without_propensity']} of its rows have no propensity"
        if need is Need.PROPENSITY_OR_MODEL:
            count = self.statistics["without_propensity"]
            return f"{count} of its rows have no propensity, and {self._why_no_reward_model}"
        if need is Need.ANY_PROPENSITY:
            return f"{self._without_any_propensity} of its rows have no propensity"
        untold = self.kind == DatasetKind.TEXT and self.statistics.get("without_reward") == self.rows
        if untold or self.is_of_right_texts:
            return "none of its rows has a reward"
        if need is Need.REWARDS and self.statistics.get("mean_reward") == 0.0:
            return "none of its rewards is above 0"
        if need in (Need.RIGHT_AND_WRONG, Need.RIGHT_TEXTS) and (known := self._right_bounds) is not None:
            least, most = known
            if least == most:
                return "all its rows were " + ({0.0: "wrong", 1.0: "right"}.get(most) or f"{most:g} right")
            where = f"at least {right_from:g}" if least >= right_from else f"below {right_from:g}"
            return (
                f"all its rows are {where}, from {least:g} to {most:g}: a reward counts as right from {right_from:g} on"
            )
        if need in (Need.GROUPS, Need.REWARDED_GROUPS):
            return "no prompt in it has different rewards"
        return f"its rows have no {need}"

    @property
    def can_measure(self) -> bool:
        """Whether a model can be measured on it: its rows have answers or are tasks, or some of its texts may be right.
        Only the rows know the latter for certain."""
        if self.has_answers or self.is_of_tasks:
            return True
        known = self._right_bounds
        nothing_right = known is not None and known[1] < RIGHT_FROM
        untold = self.statistics.get("without_reward") == self.rows
        return self.row_kind is RowKind.TEXT and not nothing_right and not untold

    @property
    def _without_any_propensity(self) -> int:
        """Datasets from before rankings counted say only how many rows have none of their own."""
        counts = self.statistics
        return int(counts.get("without_any_propensity", counts.get("without_propensity", 0)))

    @property
    def can_teach(self) -> bool:
        """Whether a method of ours learns from it; other rows are for other trainers, or to measure on."""
        if self.is_held_out_split:
            return False
        kind, has = self.row_kind, {*self.find_has(), Need.REWARD_FUNCTION}
        return kind is not None and any(
            kind in method.learns_from and not method.find_lacks(kind, has) for method in TRAINING.values()
        )


class DatasetItem(models.Model):
    """Lineage: this decision stands in this dataset, with this version of its reward; null where the rows hold labels
    and no rewards."""

    id = models.BigAutoField(primary_key=True)
    dataset = models.ForeignKey(DatasetSnapshot, on_delete=models.CASCADE, related_name="items")
    decision = models.ForeignKey(
        "decisions.Decision",
        on_delete=models.DO_NOTHING,
        db_constraint=False,
        db_index=False,
        related_name="dataset_items",
    )
    reward_version = models.PositiveIntegerField(null=True)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["dataset", "decision"], name="dataset_item_once")]
        indexes = [models.Index(fields=["decision"], name="dataset_item_decision")]

    def __str__(self) -> str:
        return f"{self.decision_id} in {self.dataset_id}"
