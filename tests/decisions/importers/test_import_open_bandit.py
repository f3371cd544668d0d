"""The Open Bandit Dataset: every row with its item, position, propensity and click."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from decisions.models import Decision, Feedback

pytestmark = pytest.mark.django_db
FLAGS = ("--format", "open-bandit", "--create-agents")
COLUMNS = (
    ",timestamp,item_id,position,click,propensity_score,user_feature_0,user_feature_1,"
    "user-item_affinity_0,user-item_affinity_1,user-item_affinity_2"
)
ROWS = (
    "0,2019-11-24 00:01:03.979311+00:00,2,2,0,0.045525,cef3,2d03,0.0,0.0,0.0",
    "1,2019-11-24 00:01:45.406608+00:00,0,3,1,1.0000001192092896,cef3,f1c2,1.0,0.0,0.0",
)


def write(folder: Path, *rows: str, columns: str = COLUMNS, name: str = "men.csv") -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_text("\n".join((columns, *rows)) + "\n")
    return folder / name


def test_a_row_is_a_decision_among_all_items_with_its_propensity_and_click(importing: Any, tmp_path: Path) -> None:
    done = importing(write(tmp_path / "bts" / "men", *ROWS), *FLAGS)
    assert done.code == 0, done.errors
    first, second = Decision.objects.order_by("id")
    assert (first.agent.slug, first.action, first.options) == ("men", "2", ["0", "1", "2"])
    assert (first.propensity, first.policy_name) == (0.045525, "bts")
    assert first.state == {"position": 2, "user": {"0": "cef3", "1": "2d03"}, "affinities": {}}
    assert first.observed_at.isoformat() == "2019-11-24T00:01:03.979311+00:00"
    assert (second.propensity, second.state["affinities"]) == (1.0, {"0": 1.0})
    assert list(Feedback.objects.order_by("id").values_list("metric", "value")) == [("reward", 0), ("reward", 1)]
    again = importing(tmp_path / "bts" / "men" / "men.csv", *FLAGS)
    assert (again.report["decisions"], again.report["repeated"]) == (0, 4)


def test_without_affinities_the_items_are_those_of_the_file_of_items(importing: Any, tmp_path: Path) -> None:
    folder = tmp_path / "random" / "women"
    columns, row = ",timestamp,item_id,position,click,propensity_score", "0,2019-11-24 00:01:03+00:00,1,1,1,0.5"
    file = write(folder, row, columns=columns, name="women.csv")
    done = importing(file, *FLAGS)
    assert done.code == 2 and "item_id: is known, but not what could be shown" in done.errors
    write(folder, "0,0,0.1", "1,1,0.2", columns=",item_id,item_feature_0", name="item_context.csv")
    done = importing(tmp_path, *FLAGS)
    assert (done.code, done.report["decisions"]) == (0, 1), done.errors
    decision = Decision.objects.get()
    assert (decision.options, decision.policy_name, decision.agent.slug) == (["0", "1"], "random", "women")


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        (ROWS[0].replace(",0.045525,", ",0,"), "propensity: Expected `float` > 0.0"),
        (ROWS[0].replace(",0.045525,", ",,"), "propensity_score: is missing: the Open Bandit Dataset has timestamp"),
        (ROWS[0].replace(",0.045525,", ",often,"), "propensity_score: 'often' is not a number"),
        (ROWS[0].replace("+00:00,2,", "+00:00,7,"), "item_id: '7' is not one of the 3 items"),
        (ROWS[0].replace("2019-11-24", "then"), "timestamp: 'then"),
    ],
)
def test_a_row_that_cannot_be_used_is_refused_alone(importing: Any, tmp_path: Path, row: str, reason: str) -> None:
    done = importing(write(tmp_path, row, ROWS[1]), *FLAGS)
    assert (done.code, done.report["decisions"]) == (1, 1)
    [refusal] = done.report["refusals"]
    assert refusal.split("men.csv:2: ")[1].startswith(reason), refusal
