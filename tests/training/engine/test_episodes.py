"""Learning from episodes: the weights that act are those that learn, in an environment of an installed package."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any, ClassVar

import msgspec
import pytest
from engine_world import World, engine, read_events, read_result, write_run

from tests.training.environments.custom_environment import installed  # noqa: F401 - a fixture
from tools.warm import stand_in
from training.engine.environments.episodes import Episode, Step
from training.engine.environments.protocol import draw_tasks
from training.engine.environments.registry import find_environment
from training.engine.episodes.credit import advantages, discounted

pytestmark = pytest.mark.usefixtures("installed")
ROOT = Path(__file__).resolve().parents[3]
# The engine in a network namespace of its own, from the process that has imported torch: python alone.py RUN PACKAGES.
ALONE = """
import ctypes, os, pathlib, runpy, sys
NEW_USER, NEW_NET = 0x10000000, 0x40000000
libc = ctypes.CDLL(None, use_errno=True)
if libc.unshare(NEW_NET | (NEW_USER if os.geteuid() else 0)):
    raise OSError(ctypes.get_errno(), "unshare")
_, run, packages = sys.argv
pathlib.Path(run, "devices").write_text(pathlib.Path("/proc/self/net/dev").read_text())
sys.path.insert(0, packages)
sys.argv[1:] = [run]
runpy.run_module("training.engine", run_name="__main__", alter_sys=True)
"""
SPEC: dict[str, Any] = {
    "method": "grpo",
    "optimiser": {"learning_rate": 3e-3, "batch_size": 16},
    "online": {"steps": 9, "prompts_per_step": 4, "group": 6, "gamma": 0.95, "kl": 0.0},
    "evaluate": {"free_rows": 0},
    "data": {"rows": "tasks"},
}


def tasks(environment: str, count: int, split: str = "train") -> list[dict[str, Any]]:
    drawn = draw_tasks(find_environment(environment), count, split)  # type: ignore[arg-type]
    return [msgspec.to_builtins(task) for task in drawn]


def read_episodes(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def few(world: World, **online: Any) -> dict[str, Any]:
    """A run of few updates and no evaluation."""
    small = {"steps": 3, "prompts_per_step": 2, "group": 4}
    return SPEC | {"base": {"path": str(world.base)}, "online": small | online, "evaluate": None}


class TestLearning:
    @pytest.fixture
    def run(self, world: World, tmp_path: Path, installed: Path) -> Path:  # noqa: F811 - the fixture
        """Made in a network namespace of its own, in which there is nothing but loopback."""
        spec = SPEC | {"base": {"path": str(world.base)}}
        run = write_run(tmp_path / "run", spec, train=tasks("lamps", 40), heldout=tasks("lamps", 40, "heldout"))
        alone = ("unshare", "--net", *(() if os.geteuid() == 0 else ("--map-root-user",)))
        if shutil.which("unshare") is None or subprocess.run([*alone, "true"], check=False).returncode:
            pytest.skip("this machine gives no network namespace")
        program = tmp_path / "alone.py"
        program.write_text(ALONE)
        command = [*stand_in(Path(os.environ["RECKONER_VAR"]), str(program)), str(run), str(installed)]
        subprocess.run(command, check=True, cwd=ROOT, timeout=300)
        assert [line.split(":")[0].strip() for line in (run / "devices").read_text().splitlines()[2:]] == ["lo"]
        return run

    def test_more_unseen_tasks_are_solved_and_every_hash_is_that_of_the_weights_that_acted(
        self, run: Path, world: World
    ) -> None:
        result = read_result(run)
        base, trained = (result["scores"][which] for which in ("base", "trained"))
        assert trained["accuracy"] > base["accuracy"] + 0.15
        assert trained["episodes"]["solved_by_domain"] == {"panels": trained["accuracy"]}
        episodes = read_episodes(run / "attempts/1/training_episodes.jsonl")
        assert len(episodes) == 9 * 4 * 6
        by_step = [{one["weights_hash"] for one in episodes if one["step"] == step} for step in range(1, 10)]
        assert all(len(hashes) == 1 for hashes in by_step)
        assert len(set.union(*by_step)) == 9  # each update acts with new weights
        told = read_episodes(run / "attempts/1" / result["episodes"])
        for which, score in (("base", base), ("trained", trained)):
            for policy in ("serving", "greedy"):
                mine = [one for one in told if (one["model"], one["policy"]) == (which, policy)]
                solved = [one["success"] for one in mine]
                assert len(solved) == 40
                assert sum(solved) / 40 == pytest.approx(score["episodes"][f"{policy}_success"])
                hashes = {"base": None, "trained": result["weights_sha256"]}
                assert {one["weights_hash"] for one in mine} <= {hashes[which] or hash_of(world.base)}
        greedy = [step for one in told if one["policy"] == "greedy" for step in one["trajectory"]]
        assert {step["log_p"] for step in greedy} == {0.0}
        assert result["acting_sha256"] == result["weights_sha256"]
        assert trained["accuracy"] == trained["episodes"]["serving_success"]
        steps = [step for one in told for step in one["trajectory"]]
        assert all(step["action"] in step["options"] and step["log_p"] <= 1e-6 for step in steps)
        told_of = {name for event in read_events(run) if event["kind"] == "metric" for name in event["values"]}
        assert {"reward", "solved", "score", "steps_taken", "faults", "kl", "loss"} <= told_of


def test_a_resumed_run_ends_with_the_same_weights(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("training.engine.updates.fit.pause_for", lambda taken, wanted: wanted)  # after every step
    spec = few(world, curriculum={"order": "uncertain"}, kl=0.1) | {"checkpoint_every_seconds": 0.001}
    run = write_run(tmp_path / "run", spec, train=tasks("lamps", 8))
    assert engine(run) == 0
    again = shutil.copytree(run, tmp_path / "again")
    (again / "attempts/1/result.json").unlink()
    shutil.rmtree(again / "attempts/1/checkpoints/step-00000003")
    assert engine(again) == 0
    assert read_events(again, 2)[0]["resumed_from"].endswith("step-00000002")
    assert read_result(again, 2)["weights_sha256"] == read_result(run)["weights_sha256"]
    last = [one for one in read_episodes(run / "attempts/1/training_episodes.jsonl") if one["step"] == 3]
    assert read_episodes(again / "attempts/2/training_episodes.jsonl") == last


def test_what_failed_is_left_out_and_never_a_zero(world: World, tmp_path: Path) -> None:
    """Where every episode failed, the run fails and says why."""
    drawn = tasks("flickering", 40)
    sound = [task for task in drawn if task["facts"]["wanted"] != ["green"]][:4]
    failing = [task for task in drawn if task["facts"]["wanted"] == ["green"]][:4]
    run = write_run(tmp_path / "some", few(world, prompts_per_step=8), train=[*sound, *failing])
    assert engine(run) == 0
    assert read_result(run)["metrics"]["faults"] == pytest.approx(0.5)
    episodes = read_episodes(run / "attempts/1/training_episodes.jsonl")
    failed = [one for one in episodes if one["fault"]]
    assert len(failed) == len(episodes) / 2
    assert {one["fault"] for one in failed} == {"the panel's sensor does not answer"}
    run = write_run(tmp_path / "all", few(world), train=failing)
    assert engine(run) == 1
    assert "every episode of step 1 failed; the first: the panel" in read_events(run)[-1]["error"]


def test_an_alarm_stops_a_run_that_is_paid_for_the_wrong_thing_and_keeps_the_best_weights(
    world: World, tmp_path: Path
) -> None:
    online = {"steps": 24, "prompts_per_step": 6, "group": 5, "alarms": {"every": 2, "tasks": 80}}
    spec = few(world, **online) | {"optimiser": {"learning_rate": 1e-2, "batch_size": 16}}
    run = write_run(tmp_path / "run", spec, train=tasks("idle", 64), heldout=tasks("lamps", 80, "heldout"))
    assert engine(run) == 0
    result = read_result(run)
    alarm = result["alarm"]
    assert alarm["step"] < 24 and alarm["kept_step"] < alarm["step"] == result["steps"]
    assert "the reward in training rose" in alarm["reason"]
    assert [alarm["reason"] in warning for warning in result["warnings"]] == [True]
    acted = {one["step"]: one["weights_hash"] for one in read_episodes(run / "attempts/1/training_episodes.jsonl")}
    assert hash_of(run / "attempts/1/model") == acted[alarm["kept_step"] + 1]


class TestRewardWeighted:
    """The starting weights act, and what they learn is what earned more."""

    spec: ClassVar[dict[str, Any]] = SPEC | {
        "method": "reward_weighted",
        "reward_weighted": {"episodes": 6},
        "optimiser": {"learning_rate": 1e-2, "batch_size": 64, "epochs": 2},
        "online": {},
    }

    def test_every_episode_is_the_starting_weights_and_a_resumed_run_ends_the_same(
        self, world: World, tmp_path: Path
    ) -> None:
        spec = self.spec | {"base": {"path": str(world.base)}, "evaluate": None, "checkpoint_every_seconds": 0.001}
        run = write_run(tmp_path / "run", spec, train=tasks("lamps", 6))
        assert engine(run) == 0
        result = read_result(run)
        episodes = read_episodes(run / "attempts/1/training_episodes.jsonl")
        assert len(episodes) == result["rewards"]["rows"] == 6 * 6
        assert {one["weights_hash"] for one in episodes} == {hash_of(world.base)}
        most = find_environment("lamps").most_reward
        assert result["rewards"]["mean"] == pytest.approx(sum(one["total_reward"] for one in episodes) / 36 / most)
        again = shutil.copytree(run, tmp_path / "again")
        (again / "attempts/1/result.json").unlink()
        shutil.rmtree(max((again / "attempts/1/checkpoints").iterdir()))
        assert engine(again) == 0
        assert read_events(again, 2)[0]["resumed_from"] is not None
        assert read_result(again, 2)["weights_sha256"] == result["weights_sha256"]
        assert read_episodes(again / "attempts/2/training_episodes.jsonl") == episodes

    def test_a_failed_episode_teaches_nothing(self, world: World, tmp_path: Path) -> None:
        drawn = tasks("flickering", 40)
        failing = [task for task in drawn if task["facts"]["wanted"] == ["green"]][:4]
        sound = [task for task in drawn if task["facts"]["wanted"] != ["green"]][:4]
        spec = self.spec | {"base": {"path": str(world.base)}, "evaluate": None}
        run = write_run(tmp_path / "some", spec, train=[*sound, *failing])
        assert engine(run) == 0
        result = read_result(run)
        assert result["metrics"]["faults"] == pytest.approx(0.5) and result["rewards"]["rows"] == 4 * 6
        run = write_run(tmp_path / "all", spec, train=failing)
        assert engine(run) == 1
        assert "every episode failed; the first: the panel" in read_events(run)[-1]["error"]


def hash_of(model: Path) -> str:
    """As the trajectories of its weights carry it."""
    from training.engine.models.loading import weights_sha256

    return weights_sha256(model)


def test_trajectories_of_other_weights_are_refused(world: World, tmp_path: Path) -> None:
    import torch

    from training.engine.attempt.attempt import Attempt
    from training.engine.attempt.events import Events
    from training.engine.attempt.stop import StopFlag
    from training.engine.data.reading import RunData
    from training.engine.environments.tasks import Task
    from training.engine.episodes.grpo import Learner
    from training.engine.episodes.rollouts import roll_out
    from training.engine.methods.online import ForeignTrajectories
    from training.engine.models.loading import Loaded, load_model, load_tokenizer
    from training.engine.spec.run_spec import RunSpec

    device = torch.device("cpu")
    spec = RunSpec.model_validate({"run_id": "r", **few(world), "data": {"train": "x", "rows": "tasks"}})
    events = Events(tmp_path / "events.jsonl")
    attempt = Attempt(spec, 1, tmp_path, device, events, StopFlag())
    loaded = Loaded(load_model(world.base, device), load_tokenizer(world.base))
    asked = [(msgspec.convert(task, Task), 0) for task in tasks("lamps", 2)]
    learner = Learner(attempt, loaded, RunData(tasks=[task for task, _ in asked]))
    acted = roll_out(learner.score, asked, learner.acting.find())
    assert {one.weights_hash for one in acted} == {hash_of(world.base)}
    learner.refuse_foreign(iter(acted))
    with torch.no_grad():
        next(iter(learner.updates.parameters.values())).add_(1e-3)
    with pytest.raises(ForeignTrajectories, match="task lamps-train-0: made by weights"):
        learner.refuse_foreign(iter(acted))
    events.close()


@pytest.mark.parametrize(
    ("changes", "task", "says"),
    [
        ({"reward": [{"name": "matches_answer"}]}, {}, "reward: for tasks the environment gives the reward"),
        ({"method": "ppo"}, {}, "data.rows: method ppo cannot learn from tasks rows"),
        ({}, {"environment": "lampz"}, "environment: unknown environment 'lampz'; known: "),
        ({}, {"facts": {"wanted": "red"}}, "facts.wanted: must be a list of red, green, blue"),
        ({}, {"level": 4}, "train.jsonl:1: level: 4 must be 1, 2 or 3"),
    ],
)
def test_what_cannot_be_acted_on_is_refused_before_anything_starts(
    changes: dict[str, Any],
    task: dict[str, Any],
    says: str,
    world: World,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    run = write_run(tmp_path / "run", few(world) | changes, train=[tasks("lamps", 1)[0] | task])
    assert engine(run) == 2
    assert says in capsys.readouterr().err and not (run / "attempts").exists()


class TestCredit:
    """By hand, of rewards that are parts of the most, 4."""

    @staticmethod
    def episode(*steps: tuple[str, float]) -> Episode:
        trajectory = tuple(Step(state, "a", reward, "", ("a", "b"), -0.7) for state, reward in steps)
        total = sum(reward for _, reward in steps)
        return Episode("t", "p", "lamps", 0, trajectory, total, success=False, score=0.0)

    def test_returns_are_discounted(self) -> None:
        assert discounted([1.0, 0.0, 2.0], 0.5) == [1.5, 1.0, 2.0]

    def test_a_step_stands_against_visits_of_its_state_or_else_of_its_number(self) -> None:
        group = [
            self.episode(("start", 0), ("left", 4)),
            self.episode(("start", 0), ("right", 0)),
            self.episode(("start", 0), ("right", 2)),
        ]
        worth = advantages(group, "return_to_go", gamma=1.0, most_reward=4.0)
        deviation = (1 / 6) ** 0.5  # of returns 1, 0 and 0.5
        start = [0.5 / (deviation + 0.05), -0.5 / (deviation + 0.05), 0.0]
        assert [one[0] for one in worth] == pytest.approx(start)
        # "left" was visited once and stands against all second steps; "right" against the other visit of it.
        assert [one[1] for one in worth] == pytest.approx([start[0], -0.25 / 0.30, 0.25 / 0.30])

    def test_or_all_steps_share_what_their_episode_is_worth(self) -> None:
        group = [self.episode(("a", 1), ("b", 1)), self.episode(("a", 0)), self.episode(("a", 1))]
        worth = advantages(group, "episode", gamma=1.0, most_reward=4.0)
        assert worth[0] == pytest.approx([1.0 / 1.0001] * 2)
        assert worth[1] == pytest.approx([-1.0 / 1.0001])
        same = advantages(group[:1] * 2, "episode", gamma=1.0, most_reward=4.0)
        assert same == [[0.0, 0.0]] * 2
