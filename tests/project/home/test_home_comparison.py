"""Champion against challenger on the home page."""

from __future__ import annotations

from typing import Any

import pytest

from project.pages.home.overview import read_home
from tests.project.home.home_world import HOUR, NOW
from tools.factories import (
    AliasFactory,
    EvaluationFactory,
    ExperimentFactory,
    ModelVersionFactory,
    TrainingRunFactory,
    VariantFactory,
)


def measure(agent: Any, versions: Any, means: tuple[float, ...]) -> None:
    for version, mean in zip(versions, means, strict=True):
        score = {"mean": mean, "low": mean - 0.1, "high": mean + 0.1, "n": 9, "clusters": 9}
        scores = {"trained": {"accuracy": score, "reward": score}}
        EvaluationFactory(run=TrainingRunFactory(agent=agent), version=version, scores=scores)


class TestComparison:
    def test_without_an_experiment_it_is_the_champion_and_its_model_s_versions(self, agent: Any) -> None:
        assert read_home(agent.workspace, NOW).comparison.sides == ()
        versions = [ModelVersionFactory(registered_model=agent.registered_model) for _ in range(3)]
        AliasFactory(version=versions[1])
        measure(agent, versions, (0.5, 0.7, 0.6))
        comparison = read_home(agent.workspace, NOW).comparison
        (champion,) = comparison.sides
        assert (champion.title, champion.version, champion.units) == ("Champion", versions[1], None)
        assert champion.measured is not None and champion.measured.accuracy["mean"] == 0.7
        assert comparison.accuracies == [0.5, 0.7, 0.6] and comparison.headline is None

    @pytest.mark.parametrize(
        ("state", "titles", "says"),
        [
            ("running", ("Champion", "Challenger"), "It is too early to tell"),
            ("promoted", ("Champion before", "Champion"), "is better and was promoted"),
            ("rolled_back", ("Champion", "Rolled back"), "was rolled back"),
            ("futile", ("Champion", "Not promoted"), "Undecided: filer:2 is not better by 0.05 or more"),
            ("stopped", ("Champion", "Not promoted"), "Stopped without a winner"),
            ("stopped", ("Champion before", "Champion"), "ann@example.org promoted filer:2 by hand"),
        ],
    )
    def test_with_one_it_is_both_arms_and_how_they_stand(
        self, agent: Any, state: str, titles: tuple[str, str], says: str
    ) -> None:
        versions = [ModelVersionFactory(registered_model=agent.registered_model) for _ in range(2)]
        AliasFactory(version=versions[titles.index("Champion")])
        ended: dict[str, Any] = {} if state == "running" else {"ended_at": NOW - HOUR, "verdict": "E⁺ reached 40"}
        if "by hand" in says:
            ended |= {"ended_by": "ann@example.org", "promoted_version": versions[1]}
        if state == "futile":
            ended |= {"futility_e": 20, "smallest_effect": 0.05}
        experiment = ExperimentFactory(
            registered_model=agent.registered_model, state=state, units_control=12, units_treatment=11, **ended
        )
        for arm, version in zip(("control", "treatment"), versions, strict=True):
            VariantFactory(experiment=experiment, arm=arm, version=version)
        comparison = read_home(agent.workspace, NOW).comparison
        assert tuple(side.title for side in comparison.sides) == titles
        assert [(side.version, side.units) for side in comparison.sides] == [(versions[0], 12), (versions[1], 11)]
        assert comparison.headline is not None and says in comparison.headline.says

    def test_an_ended_one_is_not_shown_once_another_version_is_champion(self, agent: Any) -> None:
        versions = [ModelVersionFactory(registered_model=agent.registered_model) for _ in range(3)]
        AliasFactory(version=versions[2])
        experiment = ExperimentFactory(
            registered_model=agent.registered_model, state="promoted", ended_at=NOW - HOUR, verdict="E⁺ reached 40"
        )
        for arm, version in zip(("control", "treatment"), versions[:2], strict=True):
            VariantFactory(experiment=experiment, arm=arm, version=version)
        comparison = read_home(agent.workspace, NOW).comparison
        assert [(side.title, side.version) for side in comparison.sides] == [("Champion", versions[2])]
        assert comparison.experiment is None
