"""Episodes go to OpenPipe ART with their own tokens, or it is said why not; its program is tested against a stub."""

from __future__ import annotations

import json
import sysconfig
from pathlib import Path
from typing import Any

import msgspec
import pytest
from engine_world import World, write_run

from tests.training.adapters.art_stub import FILES, PACKAGES
from tests.training.adapters.own_environment import make_environment
from training.engine.environments.episodes import Step
from training.engine.served import art
from training.engine.served.transcripts import FIRST, ServedEpisode, Transcript

BREAK = "message 1 is not what was said before"


def transcript(acted: str, began: str = FIRST, first: int = 5) -> Transcript:
    """Two calls: 3 tokens read, 2 written, 2 read, 1 written."""
    ids = tuple(range(first, first + 8))
    return Transcript(ids, (None, None, None, -0.5, -0.25, None, None, -1.5), acted, began, 2)


def episode(task: str, seed: int, reward: float, acted: str, **fields: Any) -> ServedEpisode:
    parts = (transcript(acted), transcript(acted, BREAK, 20))[: 1 + seed % 2]
    steps = tuple(Step(f"read {n}", f"wrote {n}", 0.0, "") for n in range(2 * len(parts)))
    told = {"task": task, "problem": "p", "environment": "e", "seed": seed, "trajectory": steps, "success": reward == 1}
    told |= {"total_reward": reward, "score": reward, "weights_hash": acted, "transcripts": parts}
    return ServedEpisode(**(told | fields))


def acted_run(folder: Path, base: Path, acted: str, **changes: Any) -> Path:
    spec = {"method": "grpo", "base": {"path": str(base)}, "data": {"train": "x", "rows": "tasks"}} | changes
    run = write_run(folder, spec)
    (run / "attempts/1").mkdir(parents=True)
    lines = [
        (1, episode("a", 0, 1.0, "older")),
        (2, episode("a", 0, 1.0, acted)),
        (2, episode("a", 1, 0.0, acted)),
        (2, episode("a", 2, 0.0, acted, fault="the grader failed")),
        (2, episode("b", 0, 0.0, acted)),
    ]
    file = run / "attempts/1/training_episodes.jsonl"
    written = [msgspec.json.encode({"step": step, **msgspec.to_builtins(one)}) for step, one in lines]
    file.write_bytes(b"\n".join(written))
    return run


@pytest.fixture
def acted(world: World) -> str:
    """The hash of the base's weights."""
    from training.engine.models.loading import weights_sha256

    return weights_sha256(world.base)


def test_episodes_of_one_update_reach_it_token_by_token(
    world: World, acted: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    run, out = acted_run(tmp_path / "run", world.base, acted), tmp_path / "out"
    python = make_environment(tmp_path / "art", FILES, PACKAGES, sysconfig.get_path("purelib"))
    monkeypatch.setenv("RECKONER_ART_PYTHON", str(python))
    monkeypatch.setenv("WANDB_API_KEY", "secret")
    monkeypatch.setattr(art, "PYTHON", art.PYTHON._replace(least=(3, 11)))
    assert art.main([str(run), "--out", str(out), "--learning-rate", "0.5"]) == 0
    assert json.loads(capsys.readouterr().out)["metrics"] == {"loss": 0.5}
    # What is left out: the failed episode, and the task with a single one.
    (group,) = [msgspec.json.decode(line, type=art.Group) for line in (out / "groups.jsonl").read_bytes().splitlines()]
    assert group.task == "a" and [told.reward for told in group.episodes] == [1.0, 0.0]
    wrote = [part.wrote for history in group.episodes[1].histories for part in history]
    assert wrote == [f"wrote {n}" for n in range(4)]
    taken = json.loads((out / "art/sequences.json").read_text())
    assert [one["reward"] for one in taken] == [1.0, 0.0]
    parts = (transcript(acted), transcript(acted, BREAK, 20))
    assert [[(tuple(ids), tuple(log_p)) for ids, log_p in one["sequences"]] for one in taken] == [
        [(one.token_ids, one.log_p) for one in some] for some in (parts[:1], parts)
    ]


@pytest.mark.parametrize(
    ("changes", "arguments", "says"),
    [
        ({}, (), "RECKONER_ART_PYTHON is not set: give the path of a Python 3.12 or newer that has openpipe-art"),
        ({}, ("--step", "1"), "no task has two episodes without a fault"),
        ({}, ("--step", "3"), "training_episodes.jsonl has no update 3; it has 1 to 2"),
        ({"lora": {}}, (), "an adapter acted in update 2, and ART begins with the base"),
        ({"sampling": {"temperature": 0.7}}, (), "sampling.temperature: ART only takes log-probabilities"),
    ],
)
def test_what_does_not_fit_or_is_missing_is_refused_and_nothing_is_written(
    changes: dict[str, Any],
    arguments: tuple[str, ...],
    says: str,
    world: World,
    acted: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.delenv("RECKONER_ART_PYTHON", raising=False)
    run = acted_run(tmp_path / "run", world.base, acted, **changes)
    assert art.main([str(run), "--out", str(tmp_path / "out"), *arguments]) == 2
    assert says in capsys.readouterr().err and not (tmp_path / "out").exists()


def test_episodes_of_other_weights_are_refused_and_exporting_needs_no_art(
    world: World, acted: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("RECKONER_ART_PYTHON", raising=False)
    foreign = acted_run(tmp_path / "foreign", world.base, "0123")
    assert art.main([str(foreign), "--out", str(tmp_path / "out"), "--export-only"]) == 2
    assert f"weights 0123 acted in update 2, and base.path has {acted}" in capsys.readouterr().err
    run = acted_run(tmp_path / "run", world.base, acted)
    assert art.main([str(run), "--out", str(tmp_path / "out"), "--export-only"]) == 0
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["groups.jsonl"]
    with pytest.raises(art.Unfit, match="weights new and old acted"):
        art.group_episodes([episode("a", 0, 1.0, "old"), episode("a", 2, 0.0, "new")])
