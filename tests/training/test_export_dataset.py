"""A dataset's rows as files for other trainers: JSON lines, a JSON list, a Hugging Face folder; and PPO's tuples."""

from __future__ import annotations

import json
import math
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from django.core.management import call_command

from decisions.rewards.calculate import calculate_rewards
from decisions.rewards.specs import current_reward_spec
from tools.factories import DecisionFactory, EpisodeFactory, FeedbackFactory
from training.datasets.snapshots import snapshot_ledger
from training.models import DatasetSnapshot

pytestmark = pytest.mark.django_db


@pytest.fixture
def dataset(agent: Any, by: Any, store: Path) -> DatasetSnapshot:
    """Two decisions of one episode, and one of none."""
    episode = EpisodeFactory(agent=agent)
    for step, of in enumerate([episode, episode, None], start=1):
        decision = DecisionFactory(
            agent=agent, action="travel", options=None, propensity=0.5, step_number=step,
            next_state={"text": "after"} if step == 1 else None, state={"text": f"note {step}"}, episode=of,
        )  # fmt: skip
        FeedbackFactory(decision=decision, value="confirmed" if step > 1 else "corrected")
    calculate_rewards(current_reward_spec(agent))
    return snapshot_ledger(by=by, agent=agent, name="n")


def exported(dataset: Any, place: Path, *flags: str) -> str:
    out = StringIO()
    call_command("export_dataset", str(dataset.id), "--to", str(place), *flags, stdout=out)
    return out.getvalue()


def test_tuples_know_the_next_state_and_the_end_of_the_episode(dataset: DatasetSnapshot, api: Any) -> None:
    answer = api("export:read").get(f"datasets/{dataset.id}/rows?format=ppo")
    rows = [json.loads(line) for line in b"".join(answer.streaming_content).splitlines()]
    assert [(row["next_state"], row["done"], row["reward"]) for row in rows] == [
        ({"text": "after"}, False, 0.0), (None, True, 1.0), (None, True, 1.0),
    ]  # fmt: skip
    assert all(row["logprob"] == pytest.approx(math.log(0.5)) for row in rows)


def test_a_json_list_has_the_same_rows_as_the_lines(dataset: DatasetSnapshot, api: Any, tmp_path: Path) -> None:
    exported(dataset, tmp_path / "rows.jsonl", "--format", "completion")
    exported(dataset, tmp_path / "rows.json", "--format", "completion", "--as", "json")
    lines = [json.loads(line) for line in (tmp_path / "rows.jsonl").read_text().splitlines()]
    assert json.loads((tmp_path / "rows.json").read_text()) == lines and len(lines) == 3
    answer = api("export:read").get(f"datasets/{dataset.id}/rows?format=completion&file=json")
    assert answer["Content-Type"] == "application/json"
    assert json.loads(b"".join(answer.streaming_content)) == lines
    assert api("export:read").get(f"datasets/{dataset.id}/rows?file=xml").status_code == 400


@pytest.mark.parametrize(
    ("flags", "told"),
    [(("--format", "preference"), "only preference pairs"), ((), "is there already")],
)
def test_what_cannot_be_written_leaves_nothing(
    dataset: DatasetSnapshot, tmp_path: Path, capsys: pytest.CaptureFixture[str], flags: tuple[str, ...], told: str
) -> None:
    place = tmp_path / "rows"
    if not flags:
        place.write_text("mine")
    with pytest.raises(SystemExit) as ended:
        exported(dataset, place, *flags)
    assert ended.value.code == 2 and told in capsys.readouterr().err
    assert not place.exists() if flags else place.read_text() == "mine"


@pytest.mark.slow
def test_a_folder_is_what_datasets_loads(dataset: DatasetSnapshot, tmp_path: Path) -> None:
    datasets = pytest.importorskip("datasets")
    exported(dataset, tmp_path / "folder", "--format", "kto", "--as", "huggingface")
    found = datasets.load_from_disk(str(tmp_path / "folder"))
    assert sorted(found["label"]) == [False, True]
    assert set(found.column_names) == {"id", "prompt", "completion", "label"}
    # Without the command, one line does.
    exported(dataset, tmp_path / "rows.jsonl", "--format", "kto")
    loaded = datasets.load_dataset(
        "json", data_files=str(tmp_path / "rows.jsonl"), split="train", cache_dir=str(tmp_path / "cache")
    )
    assert loaded.to_list() == found.to_list()
