"""Datasets with decisions that nobody judged: which these are, who learns from them, and that nothing else does."""

from __future__ import annotations

import json
import uuid
from pathlib import Path
from typing import Any

import pytest

from decisions.models.tombstones import ERASED_HASH
from decisions.rewards.calculate import calculate_rewards
from decisions.rewards.specs import current_reward_spec
from jobs.models import Job
from models_registry.artifacts.opening import artifact_path
from tools.factories import DatasetItemFactory, DecisionFactory, FeedbackFactory, RewardFactory, TrainingRunFactory
from training.datasets.of_labels import snapshot_labels
from training.datasets.preview import preview_datasets
from training.datasets.snapshots import snapshot_ledger
from training.engine.data.reading import read_data
from training.engine.spec.methods import RowKind
from training.engine.spec.run_spec import RunSpec
from training.errors import EmptyDataset
from training.local.runs import rows_of_agent
from training.models import DatasetSnapshot
from training.rows.labels import LabelQuestion
from training.rows.parts import Entry, write_parts
from training.rows.selection import Filters

ASKED = Filters(unjudged=True)


def rows_of(dataset: DatasetSnapshot) -> dict[str, Any]:
    lines = (artifact_path(dataset.artifact.digest) / "rows.jsonl").read_text().splitlines()
    return {row["id"]: row for row in map(json.loads, lines)}


@pytest.fixture
def ledger(agent: Any, store: Path) -> dict[str, Any]:
    """Two judged decisions, five that nobody judged, and one for every reason to stay out."""
    spec = current_reward_spec(agent)
    made = {name: DecisionFactory(agent=agent) for name in ("right", "wrong", "old", "older")}
    FeedbackFactory(decision=made["right"], value="confirmed")
    FeedbackFactory(decision=made["wrong"], value="corrected")
    calculate_rewards(spec)
    made |= {name: DecisionFactory(agent=agent) for name in ("undone", "clicked", "silent", "failed", "waiting")}
    RewardFactory(decision=made["undone"], spec=spec, value=None, raw=None, components={})
    FeedbackFactory(decision=made["clicked"], metric="clicks", value=3)  # of which the spec says nothing
    broken = {"verdict": {"error": "no such verdict"}}
    RewardFactory(decision=made["failed"], spec=spec, value=None, raw=None, components=broken)
    FeedbackFactory(decision=made["waiting"], value="corrected")
    made["erased"] = DecisionFactory(agent=agent, content_hash=ERASED_HASH)
    return made


def ids(ledger: dict[str, Any], *names: str) -> set[str]:
    return {str(ledger[name].id) for name in names}


def test_the_newest_that_nobody_judged_make_rows_where_they_are_asked_for(
    ledger: dict[str, Any], agent: Any, by: Any, viewer: Any, page_client: Any
) -> None:
    plain = snapshot_ledger(by=by, agent=agent, name="plain")
    assert rows_of(plain).keys() == ids(ledger, "right", "wrong") and "unjudged" not in plain.query
    assert preview_datasets([agent])[agent.id].unjudged == 0
    one, two = (snapshot_ledger(by=by, agent=agent, name=name, filters=ASKED) for name in ("one", "two"))
    # As many as are judged; those whose calculation failed or waits, and the erased one, stay out.
    rows = rows_of(one)
    assert rows.keys() == ids(ledger, "right", "wrong", "clicked", "silent")
    assert [rows[str(ledger[name].id)]["reward"] is None for name in ("right", "wrong", "silent")] == [0, 0, 1]
    counts = one.statistics
    assert (counts["unjudged"], counts["right"], counts["wrong"], counts["mean_reward"]) == (
        *(2, 1, 1),
        plain.statistics["mean_reward"],
    )
    assert one.artifact.digest == two.artifact.digest != plain.artifact.digest
    assert Filters.from_plain(json.loads(json.dumps(one.query))) == ASKED
    preview = preview_datasets([agent], filters=ASKED)[agent.id]
    assert (preview.rows, preview.unjudged, dict(preview.verdicts)["no verdict"]) == (4, 2, 2)
    assert dict(preview.left_out) == {"feedback": 3, "reward": 1, "calculation": 1, "erased": 1}
    shown = page_client(viewer).get(f"/w/{agent.workspace.slug}/datasets/{one.id}").content.decode()
    assert "also decisions that nobody judged" in shown and "Without a reward" in shown
    learnt = rows_of_agent(by=by, agent=agent, kind=RowKind.LOGGED, method="posterior")
    assert [line["id"] for line in learnt.lines] == list(rows)
    assert len(rows_of_agent(by=by, agent=agent, kind=RowKind.LOGGED, method="kto").lines) == 2


def test_what_was_learnt_before_anybody_judged_it_is_new_afterwards(
    ledger: dict[str, Any], agent: Any, by: Any
) -> None:
    run: Any = TrainingRunFactory(agent=agent, dataset=snapshot_ledger(by=by, agent=agent, name="a", filters=ASKED))
    asked: dict[str, Any] = {"filters": ASKED, "unused_at": run.created_at.replace(year=run.created_at.year + 1)}
    for name, verdict in (("clicked", "confirmed"), ("waiting", "corrected")):
        FeedbackFactory(decision=ledger[name], value=verdict)
    calculate_rewards(current_reward_spec(agent))
    again = snapshot_ledger(by=by, agent=agent, name="b", **asked)
    assert rows_of(again).keys() == ids(ledger, "clicked", "waiting", "undone", "older")  # not silent: it still is
    assert preview_datasets([agent], **asked)[agent.id].counts("used") == 3
    labels = snapshot_labels(
        by=by, agent=agent, name="c", question=LabelQuestion("labelled", unused_at=asked["unused_at"])
    )
    assert rows_of(labels).keys() == ids(ledger, "clicked")
    # Once it is learnt with its reward, it is used for good.
    DatasetItemFactory(dataset=run.dataset, decision=ledger["waiting"], reward_version=1)
    assert ids(ledger, "waiting").isdisjoint(rows_of(snapshot_ledger(by=by, agent=agent, name="d", **asked)))


def test_they_are_refused_where_nothing_could_learn_from_them(
    ledger: dict[str, Any], agent: Any, by: Any, api: Any, admin: Any, page_client: Any
) -> None:
    told = api("admin").post("datasets", {"agent": agent.slug, "name": "n", "kind": "labelled", "unjudged": True})
    assert [(one["field"], one["reason"]) for one in told.json()["error"]["fields"]] == [
        ("unjudged", "given with labelled rows")
    ]
    told = api("admin").post("datasets", {"agent": agent.slug, "name": "n", "min_reward": 0, "unjudged": True})
    assert [one["field"] for one in told.json()["error"]["fields"]] == ["unjudged"]
    with pytest.raises(EmptyDataset, match="no rows"):
        snapshot_ledger(by=by, agent=agent, name="n", filters=Filters(unjudged=True, until=ledger["right"].recorded_at))
    assert not Job.objects.exists() and not DatasetSnapshot.objects.exists()
    # The page keeps the box while the kind changes, and asks only of logged rows.
    client, path = page_client(admin), f"/w/{agent.workspace.slug}/datasets/new"
    assert "Nobody judged" in client.get(f"{path}?unjudged=on").content.decode()
    assert client.get(f"{path}?unjudged=on&kind=labelled").context["given"] == {}
    client.post(path, {"agent": agent.slug, "name": "n", "unjudged": "on"})
    assert Job.objects.get().payload["filters"] == {"unjudged": True}


def entry(number: int, *, judged: bool, unit: str | None = None) -> Entry:
    row = {"id": str(number), "prompt": f"note{number}", "reward": 1.0 if judged else None, "propensity": None}
    return Entry(uuid.UUID(int=number), [row], 1 if judged else None, unit, None, f"text {number}", judged)


def test_nothing_is_measured_on_them(tmp_path: Path) -> None:
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
    kept, held = write_parts(
        [entry(number, judged=number % 2 == 0) for number in range(80)], tmp_path / "one", held_out=0.3
    )
    assert held.judged == len(held.items) > 0 and held.tally.unjudged == 0 < held.set_aside
    assert kept.tally.unjudged + held.set_aside == 40 and kept.judged + held.judged == 40
    assert kept.tally.as_plain()["without_propensity"] == kept.judged  # what other methods need is of their rows
    alike = [entry(1, judged=True, unit="ann"), *(entry(number, judged=False) for number in range(2, 40))]
    with pytest.raises(EmptyDataset, match="held out"):
        write_parts(alike, tmp_path / "two", held_out=0.3)


def test_methods_that_need_rewards_leave_them_out_and_say_how_many(tmp_path: Path) -> None:
    def row(name: str, reward: float | None, **fields: Any) -> dict[str, Any]:
        return {"id": name, "prompt": name, "options": ["yes", "no"], "action": "yes", "reward": reward, **fields}

    slates = [
        row(f"{one}{place}", reward if place == 1 else None, slate={"id": one, "item": f"i{place}", "place": place})
        for one, reward in (("seen", 1.0), ("unseen", None))
        for place in (1, 2)
    ]
    rows = [row("right", 1.0), row("wrong", 0.0), row("silent", None), *slates]
    (tmp_path / "rows.jsonl").write_text("".join(json.dumps(one) + "\n" for one in rows))

    def read(method: str) -> tuple[list[str], int]:
        spec = {
            "run_id": "r",
            "method": method,
            "base": {"path": "/base"},
            "data": {"train": "rows.jsonl", "rows": "logged"},
        }
        data = read_data(RunSpec.model_validate(spec), tmp_path)
        return [one.id for one in data.logged], data.unjudged

    assert read("kto") == (["right", "wrong", "seen1", "seen2"], 3)
    assert read("posterior") == ([one["id"] for one in rows], 0)
