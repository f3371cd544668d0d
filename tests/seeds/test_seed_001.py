"""TAC-RL: its three commands and the parts of its pipeline.

| section and statement | test, without `test_` |
|---|---|
| Architecture: task sampling | tasks_are_sampled_from_eight_domains |
| Architecture: reward computation | rewards_come_from_checkpoints |
| Architecture: evaluation | it_is_trained_and_evaluated |
| Architecture: agent execution, trajectory collection | trajectories_are_collected |
| Architecture: multi-service integration (GitLab, Plane, RocketChat) | services_are_named |
| Architecture: GRPO optimisation, model updates | it_is_trained_and_evaluated |
| Architecture: checkpointing | a_training_is_not_done_twice; tests/training/engine/test_engine_resume.py |
| Key features: 175+ tasks, 8 domains | tasks_are_sampled_from_eight_domains |
| Key features: modular design | an_environment_is_a_package |
| Quick start 1: ./setup.sh | docs/earlier-systems.md |
| Quick start 2: python train.py --config configs/qwen_2_5_7b.yaml | it_is_trained_and_evaluated |
| Quick start 3: python monitor.py --run-id latest | progress_is_monitored |
| Expected results: cost, time | cost_and_time_are_shown |

Different on purpose: as in test_seed_000.py. The 175 tasks are read from the benchmark's folders, which are not part of
this repository (tests/training/environments/test_agent_company.py reads them where they are); the office draws as many
tasks as one likes.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.seeds import company
from tests.seeds.earlier import Ran, run, run_ours
from training.engine.environments.agent_company import SERVICES
from training.engine.environments.agents import ExpertAgent, act_now
from training.engine.environments.protocol import draw_tasks
from training.engine.environments.registry import GROUP, find_environment
from training.engine.spec.run_spec import RunSpec
from training.local.options import read_config

TRAIN = "python train.py --config configs/qwen_2_5_7b.yaml"
MONITOR = "python monitor.py --run-id latest"
OUTPUT = Path("models/qwen-2-5-7b-office")


@pytest.fixture(scope="module")
def trained(folder: Path, small_base: Path) -> Ran:
    told = company.train(TRAIN, small_base)
    assert told.code == 0, told.errors
    return told


@pytest.mark.slow
def test_it_is_trained_and_evaluated(trained: Ran) -> None:
    assert (trained.json["method"], trained.json["steps"]) == ("grpo", 2)
    assert {"base", "trained"} == set(trained.json["scores"])
    spec = json.loads((OUTPUT / "run/spec.json").read_text())
    assert spec["lora"] == {"r": 32, "alpha": 64} and spec["gradient_checkpointing"] is True


@pytest.mark.slow
def test_trajectories_are_collected(trained: Ran) -> None:
    (first, *_) = company.episodes(OUTPUT, "training")
    assert {"task", "trajectory", "total_reward", "weights_hash"} <= set(first)
    assert {"state", "action", "reward", "next_state", "log_p", "options"} <= set(first["trajectory"][0])


@pytest.mark.django_db
@pytest.mark.slow
def test_progress_is_monitored(trained: Ran) -> None:
    told = run(MONITOR, "--json")
    assert told.code == 0 and told.json["state"] == "succeeded" and told.json["steps"] >= 1
    assert "grpo by manage.py train" in run(MONITOR).output


@pytest.mark.django_db
@pytest.mark.slow
def test_cost_and_time_are_shown(trained: Ran, settings: Any) -> None:
    settings.MACHINE_HOUR_PRICE = 2.5
    seen = run(MONITOR, "--json").json
    assert seen["elapsed_seconds"] > 0 and seen["cost"] > 0


@pytest.mark.slow
def test_a_training_is_not_done_twice(trained: Ran, small_base: Path) -> None:
    """The same command continues a training where it was stopped, and one that has ended from its end."""
    again = company.train(TRAIN, small_base)
    assert again.code == 0 and again.json["weights_sha256"] == trained.json["weights_sha256"]
    assert RunSpec.model_fields["checkpoint_every_seconds"].default == 30


def test_the_base_is_the_one_of_the_description() -> None:
    options = read_config(company.ROOT / "examples/configs/qwen_2_5_7b.yaml")
    assert (options["model"], options["method"]) == ("Qwen/Qwen2.5-7B-Instruct", "grpo")


def test_tasks_are_sampled_from_eight_domains() -> None:
    office = find_environment("office")
    tasks = list(draw_tasks(office, 240, "train"))
    assert len({task.domain for task in tasks}) == 8 and len({task.id for task in tasks}) >= 175
    assert {"admin", "hr", "finance"} <= {task.domain for task in tasks}


def test_rewards_come_from_checkpoints() -> None:
    office = find_environment("office")
    episode = act_now(ExpertAgent(), office(), office.draw_task(4, "train"))
    assert episode.success and episode.total_reward == pytest.approx(1.0) and episode.score == 1.0


def test_services_are_named(tmp_path: Path) -> None:
    assert {"gitlab", "plane", "rocketchat"} <= set(SERVICES)
    for service in ("gitlab", "plane", "rocketchat"):
        place = tmp_path / f"sde-{service}"
        place.mkdir()
        (place / "task.md").write_text("Close the issue.")
        (place / "checkpoints.md").write_text("# Checkpoints\n\n1 point.\n## Checkpoint 1 (1pt)\n\nClosed.\n")
        (place / "dependencies.yml").write_text(f"- {service}\n")
    told = run_ours("company_tasks", tmp_path, "--service", "gitlab", "--json")
    assert told.code == 0 and [one["services"] for one in told.json["tasks"]] == [["gitlab"]]


def test_an_environment_is_a_package() -> None:
    assert GROUP == "reckoner.environments"
