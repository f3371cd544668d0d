"""TAC-RL on a local model: the same weights act and are trained, by the commands and figures of its description.

| section and statement | test, without `test_` |
|---|---|
| Unified architecture: the model that acts is the model that is trained | the_weights_that_act_are_those_that_learn |
| Training iteration: sample, execute, reward, update, and the next one | the_weights_that_act_are_those_that_learn |
| Training iteration: "admin-make-spreadsheet", "hr-check-attendance" | tasks_of_the_benchmark_are_read |
| Training iteration: rewards = [1.0 if success else 0.2 …] | success_pays_1_and_else_0_2 |
| Key differences: no API costs, works offline | nothing_is_called_outside |
| Expected results, performance: before and after, by domain | success_is_measured_before_and_after_by_domain |
| Real OpenPipe ART integration: LocalBackend, TrainableModel, model.train | episodes_go_to_art |
| Local model execution: OpenHands with our model | openhands_acts_on_our_weights |
| GPU requirements: 24, 48, 80 GB | gpus_have_tiers |
| Getting started 1: nvidia-smi | gpus_have_tiers |
| Getting started 2: setup.sh | docs/earlier-systems.md |
| Getting started 3: train.py --config configs/qwen_2_5_7b_local.yaml | the_weights_that_act_are_those_that_learn |
| Getting started 4: monitor.py --watch | it_is_watched |

Different on purpose: tasks of the office in the place of TheAgentCompany's, which need Docker and evaluators that are
not public (docs/adapters.md, *TheAgentCompany in Docker*); a share of checkpoints is paid by default, and 1.0 or 0.2 by
a named scheme (docs/earlier-systems.md); 20 to 40% and the table of percentages are nobody's measurement and not
repeated (docs/results.md has ours).
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.seeds import company
from tests.seeds.earlier import Ran, run, run_ours
from tests.training.adapters.openhands_run import INSTRUCTION, WRITES, learn_by_openhands
from training.engine.environments.grading import Checked, Scheme, grade
from training.engine.environments.registry import find_environment
from training.engine.machine.facts import GB, Gpu, Machine, find_gpu_tier, read_nvidia
from training.local.options import read_config

TRAIN = "python tac_rl/train.py --config configs/qwen_2_5_7b_local.yaml"
WATCH = "python tac_rl/monitor.py --watch"
OUTPUT = Path("models/qwen-2-5-7b-office-local")


@pytest.fixture(scope="module")
def trained(folder: Path, small_base: Path) -> Ran:
    told = company.train(TRAIN, small_base)
    assert told.code == 0, told.errors
    return told


def test_the_base_is_the_one_of_the_description() -> None:
    options = read_config(company.ROOT / "examples/configs/qwen_2_5_7b_local.yaml")
    assert (options["model"], options["method"]) == ("Qwen/Qwen2.5-7B-Instruct", "grpo")
    assert options["settings"]["lora"] == {"r": 16, "alpha": 32} and options["no_quantization"] is False


@pytest.mark.slow
def test_the_weights_that_act_are_those_that_learn(trained: Ran) -> None:
    acted = company.episodes(OUTPUT, "training")
    by_step = {step: {one["weights_hash"] for one in acted if one["step"] == step} for step in (1, 2)}
    assert len(by_step[1]) == len(by_step[2]) == 1 and None not in by_step[1] | by_step[2]
    groups = {one["task"] for one in acted}
    assert len(acted) == 2 * 2 * 2 and len(groups) <= 4
    # One hash a update: where something was earned differently, the next update acts with other weights.
    differ = {one["total_reward"] for one in acted if one["step"] == 1}
    assert by_step[1] != by_step[2] or len(differ) == 1
    assert (OUTPUT / "adapter" / "adapter_config.json").is_file()


@pytest.mark.slow
def test_success_is_measured_before_and_after_by_domain(trained: Ran) -> None:
    scores = trained.json["scores"]
    assert set(scores) == {"base", "trained"}
    assert all(scores[which]["episodes"]["solved_by_domain"] for which in scores)
    held_out, learnt = ({one["task"] for one in company.episodes(OUTPUT, kind)} for kind in ("heldout", "training"))
    assert held_out and not held_out & learnt


@pytest.mark.django_db
@pytest.mark.slow
def test_it_is_watched(trained: Ran) -> None:
    """The newest training, without an id."""
    told = run(WATCH, "--json")
    assert told.code == 0, told.errors
    seen = told.json
    assert (Path(seen["run"]), seen["state"], seen["progress"]) == (OUTPUT.resolve(), "succeeded", 1.0)
    assert {"reward", "solved"} & set(seen["figures"])
    assert "succeeded" in run(WATCH).output or run("python tac_rl/monitor.py").output


@pytest.mark.slow
def test_nothing_is_called_outside(trained: Ran) -> None:
    """The training says on which device it ran; what it needs was on this machine (a test of the engine's runs it in a
    network of its own: tests/training/engine/test_episodes.py)."""
    spec = json.loads((OUTPUT / "run/spec.json").read_text())
    assert "judge" not in spec and "http" not in json.dumps(spec)


def test_success_pays_1_and_else_0_2() -> None:
    full, half = ([Checked("a", 1, 1), Checked("b", 1, earned)] for earned in (1, 0))
    results = [grade(full), grade(half)]
    assert [one.reward(Scheme.SUCCESS) for one in results] == [1.0, 0.2]
    assert [one.score for one in results] == [1.0, 0.25]


@pytest.mark.parametrize("name", ["admin-make-spreadsheet", "hr-check-attendance"])
def test_tasks_of_the_benchmark_are_read(name: str, tmp_path: Path) -> None:
    place = tmp_path / name
    place.mkdir()
    (place / "task.md").write_text("Make a budget spreadsheet from the CSV.")
    (place / "checkpoints.md").write_text("# Checkpoints\n\n1 point in total.\n## Checkpoint 1 (1pt)\n\nIt is there.\n")
    (place / "dependencies.yml").write_text("- owncloud\n")
    domain = name.partition("-")[0]
    told = run_ours("company_tasks", tmp_path, "--domain", domain, "--json")
    assert told.code == 0 and [one["domain"] for one in told.json["tasks"]] == [domain]
    assert {"admin", "hr"} <= {find_environment("office").draw_task(number, "train").domain for number in range(60)}


def test_gpus_have_tiers() -> None:
    """RTX 4090, RTX 6000 Ada, A100, as `nvidia-smi` tells of them."""
    tiers = {}
    for name, mebibytes in (("NVIDIA GeForce RTX 4090", 24_564), ("RTX 6000 Ada", 49_140), ("A100 80GB", 81_920)):
        (card,) = read_nvidia(f"{name}, {mebibytes}, 8.9\n", None)
        assert isinstance(card, Gpu)
        tier = find_gpu_tier(Machine("cpu", 8, 16, 64 * GB, (), (card,)))
        assert tier is not None
        tiers[name] = (tier.least_gb, tier.config)
    assert [least for least, _ in tiers.values()] == [24, 48, 80]
    assert tiers["NVIDIA GeForce RTX 4090"][1] == "qwen_2_5_7b_local.yaml"


@pytest.mark.slow
def test_episodes_go_to_art(tmp_path: Path, capsys: Any) -> None:
    """What `model.train(trajectory_groups, config=TrainConfig(…))` gets, tests/training/engine/test_art.py shows; here:
    it names what is missing."""
    from training.engine.served import art

    (tmp_path / "run").mkdir()
    assert art.main([str(tmp_path / "run"), "--out", str(tmp_path / "out")]) == 2
    assert not (tmp_path / "out").exists()


@pytest.mark.slow
@pytest.mark.xdist_group("openhands")
def test_openhands_acts_on_our_weights() -> None:
    """messages = [{"role": "user", "content": f"Complete: {task}"}], answered by the weights in training: an agent of
    OpenHands' own SDK, in place of which a stub is asked in tests/training/adapters/test_openhands.py."""
    attempt = learn_by_openhands()
    episodes = [json.loads(line) for line in (attempt / "training_episodes.jsonl").read_text().splitlines()]
    assert [(one["fault"], one["total_reward"]) for one in episodes] == [(None, 1.0)] * 2
    for episode in episodes:
        first, *_ = episode["trajectory"]
        assert INSTRUCTION.startswith("Complete: ") and INSTRUCTION in first["state"]
        assert first["action"].startswith(WRITES)
    assert len({one["weights_hash"] for one in episodes}) == 1 and None not in {one["weights_hash"] for one in episodes}
    assert (attempt / "model" / "config.json").is_file()
