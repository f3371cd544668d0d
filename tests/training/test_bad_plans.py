"""What cannot be trained is refused before anything starts: by API, form and command, all reasons at once."""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from django.core.management import call_command
from django.urls import reverse

from jobs.models import Job
from tools.factories import ArtifactFactory, DatasetSnapshotFactory, ModelVersionFactory, RewardSpecFactory
from training.models import RunEvent, TrainingRun
from workspaces.models import AuditEntry


@dataclass(frozen=True)
class Bad:
    """A plan, and what is said of it: fields of the API with a part of each reason."""

    method: str
    rows: str
    told: Mapping[str, str]
    base: str = "version"
    more: Mapping[str, Any] = field(default_factory=dict)
    replay: str = ""


CASES = {
    "an unknown method": Bad("astrology", "logged", {"method": "astrology"}),
    "no base": Bad("posterior", "logged", {"base_version": "exactly one of"}, base=""),
    "a folder that is not allowed": Bad("posterior", "logged", {"base_model": "is not allowed here"}, base="/etc"),
    "a folder without a model": Bad("posterior", "logged", {"base_model": "is not a model"}, base="empty"),
    "a reward model as base": Bad("posterior", "logged", {"base_version": "is a reward model"}, base="judge"),
    "rows without rewards": Bad("posterior", "labelled", {"dataset": "cannot learn from labelled rows"}),
    "texts without rewards": Bad("kto", "silent texts", {"dataset": "none of its rows has a reward"}),
    "groups without rewards": Bad("grpo", "silent texts", {"dataset": "none of its rows has a reward"}),
    "one class": Bad("kto", "one class", {"dataset": "all its rows were right"}),
    "all on one side of right_from": Bad("kto", "fair", {"dataset": "at least 0.6, from 0.7 to 0.9: a reward counts"}),
    "all below right_from": Bad(
        "kto", "fair", {"dataset": "below 0.95, from 0.7 to 0.9"}, more={"kto": {"right_from": 0.95}}
    ),
    "no prompt with different rewards": Bad("grpo", "fair", {"dataset": "no prompt in it has different rewards"}),
    "texts without groups": Bad("grpo", "fair texts", {"dataset": "no prompt in it has different rewards"}),
    "texts of which none is right": Bad("sft", "poor texts", {"dataset": "below 0.6, from 0.1 to 0.4"}),
    "texts of one class": Bad("kto", "right texts", {"dataset": "all its rows were right"}),
    "no propensities": Bad("reward_weighted", "outside", {"dataset": "7 of its rows have no propensity"}),
    "labels that nothing replays": Bad("dpo", "pairs", {"replay": "replays none"}, replay="labelled"),
    "labels that no imitation replays": Bad("sft", "labelled", {"replay": "replays none"}, replay="labelled"),
    "everything at once": Bad(
        "reward_weighted",
        "outside",
        {
            "base_version": "is a reward model",
            "dataset": "no propensity",
            "replay": "logged rows",
            "settings.data": "is",
        },
        base="judge",
        more={"data": {}},
        replay="logged",
    ),
}


@dataclass(frozen=True)
class Things:
    datasets: Mapping[str, Any]
    bases: Mapping[str, Any]


@pytest.fixture
def things(agent: Any, settings: Any, tmp_path: Path) -> Things:
    spec = RewardSpecFactory(agent=agent)

    def dataset(kind: str, rows: int = 7, **statistics: Any) -> Any:
        rewarded = {"reward_spec": spec} if kind == "logged" else {}
        return DatasetSnapshotFactory(agent=agent, kind=kind, rows=rows, statistics=statistics, **rewarded)

    (tmp_path / "models" / "empty").mkdir(parents=True)
    settings.BASE_MODELS = [str(tmp_path / "models")]
    artifact = ArtifactFactory(workspace=agent.workspace, kind="reward_model")
    return Things(
        datasets={
            "logged": dataset("logged", mean_reward=0.5),
            "labelled": dataset("labelled"),
            "pairs": dataset("preferences"),
            "one class": dataset("logged", mean_reward=1.0),
            "outside": dataset("logged", mean_reward=0.5, without_propensity=7),
            "fair": dataset("logged", mean_reward=0.8, groups=0, least_right=0.7, most_right=0.9),
            "fair texts": dataset("text", mean_reward=0.8, groups=0, least_right=0.7, most_right=0.9),
            "poor texts": dataset("text", mean_reward=0.3, groups=2, least_right=0.1, most_right=0.4),
            "silent texts": dataset("text", without_reward=7),
            "right texts": dataset("text", mean_reward=1.0, all_right=1.0),  # as an earlier release counted
        },
        bases={
            "version": str(ModelVersionFactory(registered_model=agent.registered_model).id),
            "judge": str(ModelVersionFactory(registered_model=agent.registered_model, artifact=artifact).id),
            "empty": str(tmp_path / "models" / "empty"),
        },
    )


@pytest.fixture
def nothing_started() -> Any:
    """Asserts at the end that no run, job, event or audit entry was written meanwhile."""

    def count() -> tuple[int, ...]:
        return tuple(model.objects.count() for model in (TrainingRun, Job, RunEvent, AuditEntry))

    def check(before: tuple[int, ...]) -> None:
        assert count() == before

    return count, check


@pytest.mark.parametrize("name", CASES)
@pytest.mark.quick_cases(4)
def test_the_api_tells_every_reason_and_nothing_starts(
    name: str, things: Things, agent: Any, api: Any, nothing_started: Any
) -> None:
    bad, client = CASES[name], api()
    count, check = nothing_started
    base = things.bases.get(bad.base, bad.base)
    body = {
        "agent": agent.slug,
        "method": bad.method,
        "dataset": str(things.datasets[bad.rows].id),
        "replay": str(things.datasets[bad.replay].id) if bad.replay else None,
        "base_model" if "/" in base or not base else "base_version": base,
        "settings": dict(bad.more),
    }
    before = count()
    for dry_run in (False, True):
        answer = client.post("runs", body | {"dry_run": dry_run})
        assert answer.status_code == 400, answer.content
        faults = {fault["field"]: fault["reason"] for fault in answer.json()["error"]["fields"]}
        assert faults.keys() == bad.told.keys()
        assert all(part in faults[where] for where, part in bad.told.items())
    check(before)


@pytest.mark.parametrize("name", CASES)
@pytest.mark.quick_cases(4)
def test_the_form_tells_every_reason_and_nothing_starts(
    name: str, things: Things, agent: Any, admin: Any, page_client: Any, nothing_started: Any
) -> None:
    """What the form does not offer, such as rows that teach nothing, it refuses as no choice of it."""
    bad, client = CASES[name], page_client(admin)
    count, check = nothing_started
    given = {
        "agent": str(agent.id),
        "method": bad.method,
        "dataset": str(things.datasets[bad.rows].id),
        "replay": str(things.datasets[bad.replay].id) if bad.replay else "",
        "base": things.bases.get(bad.base, bad.base),
        "more": json.dumps(bad.more) if bad.more else "",
    }
    before = count()
    answer = client.post(reverse("pages:run-start", args=[agent.workspace.slug]), given)
    assert answer.status_code == 400
    errors = answer.context["form"].errors
    of_base = dict.fromkeys(("base_version", "base_model"), "base")
    beside = {of_base.get(where, where) for where in bad.told} & {"method", "base", "dataset", "replay"}
    assert beside & errors.keys(), errors
    check(before)


WORDS = ("flight", "hotel", "invoice", "salary")
Rows = list[dict[str, Any]]


def logged(**changes: Any) -> Rows:
    row = {"prompt": "p", "options": ["a", "b"], "action": "a", "propensity": 0.5, "reward": 1.0}
    return [{"id": word, **row, **changes} for word in WORDS]


def exported(**changes: Any) -> Rows:
    return [{"prompt": word, "completion": "a", **changes} for word in WORDS]


FILES: Mapping[str, tuple[str, Callable[[], Rows], tuple[str, ...]]] = {
    "no rewards": ("posterior", lambda: logged(reward=None), ("needs rows with a reward",)),
    "one class": ("kto", logged, ("needs rows that were right and rows that were wrong",)),
    "texts of one class": ("kto", lambda: exported(reward=1.0), ("rows that were right and rows that were wrong",)),
    "texts without rewards": ("grpo", exported, ("texts of one prompt with different rewards",)),
    "no propensities": ("reward_weighted", lambda: logged(propensity=None), ("with the probability of their action",)),
    "everything at once": (
        "ppo",
        lambda: logged(propensity=None, reward=None),
        ("base.path", "needs rows with a reward", "with the probability of their action"),
    ),
    "another kind of rows": (
        "dpo",
        logged,
        ("--method: dpo cannot learn from logged rows; these",),
    ),
}


@pytest.mark.parametrize("name", FILES)
def test_the_command_tells_every_reason_and_writes_nothing(name: str, tmp_path: Path) -> None:
    method, rows, told = FILES[name]
    file, base, said = tmp_path / "rows.jsonl", tmp_path / "base", io.StringIO()
    file.write_text("".join(json.dumps(row) + "\n" for row in rows()))
    base.mkdir()
    if "base.path" not in told:
        (base / "config.json").write_text("{}")
    asked = ("--data", file, "--output", tmp_path / "out", "--model", base, "--method", method, "--no-quantization")
    with pytest.raises(SystemExit) as ended:
        call_command("train", *map(str, asked), stdout=io.StringIO(), stderr=said)
    assert ended.value.code == 2
    assert len(said.getvalue().splitlines()) == len(told), said.getvalue()
    assert all(part in said.getvalue() for part in told)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["base", "rows.jsonl"]
