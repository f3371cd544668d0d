"""Options of `manage.py train` from a file: merged with the command line, and refused with every fault."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from training.engine.machine.facts import GB, SEVEN_BILLION, Gpu, Machine, find_gpu_tier
from training.engine.spec.run_spec import RunSpec
from training.local.options import HELD_OUT_TASKS, as_training, choose_output, complete_options, read_config
from training.local.plans import UnusableRun
from training.runs.estimates.capacity import Load, estimate_load

CONFIGS = Path(__file__).resolve().parents[2] / "examples" / "configs"
OPTIONS = (
    "config agent_type data environment tasks held_out output model method rows preset epochs batch_size "
    "changes learning_rate no_quantization workspace"
)
NOTHING: dict[str, Any] = dict.fromkeys(OPTIONS.split())


def complete(**given: Any) -> dict[str, Any]:
    return complete_options(NOTHING | given)


@pytest.mark.parametrize("path", sorted(CONFIGS.glob("*.yaml")), ids=lambda path: path.name)
def test_the_files_that_come_along_make_a_run(path: Path) -> None:
    """Each is named by a tier of GPUs, and its settings are ones that the engine knows."""
    options = complete(config=path)
    assert (options["environment"], options["data"]) == ("office", None) and options["output"].parent == Path("models")
    asked = as_training(options, "")
    assert path.name in {tier.config for tier in SEVEN_BILLION}
    assert asked.base == "Qwen/Qwen2.5-7B-Instruct" and asked.quantised == ("local" in path.name)
    whole = {"run_id": "x", "method": asked.method, "base": {"path": asked.base}, **asked.settings}
    RunSpec.model_validate(whole | {"data": {"train": "tasks.jsonl", "rows": "tasks"}})


def test_the_command_line_comes_first_field_by_field(tmp_path: Path) -> None:
    file = tmp_path / "run.yaml"
    settings = {"seed": 3, "online": {"steps": 9, "group": 4}}
    file.write_text(yaml.safe_dump({"data": "a.jsonl", "output": "o", "epochs": 2, "settings": settings}))
    options = complete(config=file, epochs=5, changes='{"online": {"group": 8}}')
    assert (options["data"], options["output"], options["epochs"]) == (Path("a.jsonl"), Path("o"), 5)
    assert options["settings"] == {"seed": 3, "online": {"steps": 9, "group": 8}}
    assert complete(config=file, agent_type="FILER")["data"] is None


@pytest.mark.parametrize(
    ("content", "says"),
    [
        ("epochs: 0\nlerning_rate: 1.0\n", ["epochs: 0 must be a whole number", "lerning_rate: is unknown; known: "]),
        ("learning_rate: 1e-5", ["write 1.0e-5"]),
        ("- a list", ["must be a mapping of options"]),
        ("a: [", ["expected the node content"]),
        ("method: gpro", ["method: 'gpro' must be one of pretrain, classifier, sft"]),
    ],
)
def test_every_fault_of_a_file_is_told(content: str, says: list[str], tmp_path: Path) -> None:
    file = tmp_path / "run.yaml"
    file.write_text(content)
    with pytest.raises(UnusableRun) as refused:
        read_config(file)
    assert [any(one in fault for fault in refused.value.faults) for one in says] == [True] * len(says)


def test_rows_and_a_folder_have_to_be_named_somewhere() -> None:
    with pytest.raises(UnusableRun) as refused:
        complete(changes="[]")
    assert [fault.split(":")[0] for fault in refused.value.faults] == ["--set", "--data or --agent-type", "--output"]


def test_rows_come_from_one_place_and_the_command_line_names_another(tmp_path: Path) -> None:
    file = tmp_path / "run.yaml"
    file.write_text(yaml.safe_dump({"environment": "office", "tasks": 5, "output": "o"}))
    options = complete(config=file)
    assert (options["environment"], options["tasks"], options["held_out"]) == ("office", 5, HELD_OUT_TASKS)
    options = complete(config=file, data=Path("a.jsonl"))
    assert (options["data"], options["environment"]) == (Path("a.jsonl"), None)
    with pytest.raises(UnusableRun) as refused:
        complete(environment="office", agent_type="FILER", rows="text", tasks=0, held_out=-1)
    assert [fault.split(":")[0] for fault in refused.value.faults] == [
        "--data or --agent-type", "--rows", "--tasks", "--held-out",
    ]  # fmt: skip


def test_agents_of_the_notes_app_have_a_folder_of_their_own() -> None:
    assert choose_output(None, "FILER") == Path("models/ocd-filer-v1")
    assert choose_output(Path("out"), "FILER") == Path("out")
    for kind in ("", "CUSTOM"):
        with pytest.raises(UnusableRun, match="--output: give a folder"):
            choose_output(None, kind)


@pytest.mark.parametrize(("gigabytes", "tier"), [(16, None), (24, 24), (47.4, 48), (79, 80), (141, 80)])
def test_a_gpu_reaches_the_tier_that_it_nearly_has(gigabytes: float, tier: int | None) -> None:
    card = Gpu("cuda", "NVIDIA card", int(gigabytes * GB), bf16=True)
    found = find_gpu_tier(Machine("cpu", 8, 16, 64 * GB, (), (card,)))
    assert (found.least_gb if found is not None else None) == tier


@pytest.mark.parametrize("path", sorted(CONFIGS.glob("*.yaml")), ids=lambda path: path.name)
def test_each_file_fits_the_gpu_that_its_largest_tier_names(path: Path, tmp_path: Path) -> None:
    """By the estimate that refuses what does not fit."""
    tier = next(tier for tier in SEVEN_BILLION if tier.config == path.name)
    card = Gpu("cuda", "NVIDIA card", tier.least_gb * GB, bf16=True)
    asked = as_training(complete(config=path, data=Path("tasks.jsonl"), output=Path("out")), "")
    spec = RunSpec.model_validate(
        {
            "run_id": "x",
            "method": asked.method,
            "base": {"path": asked.base},
            "quantisation": "4bit" if asked.quantised else None,
            "optimiser": {"batch_size": asked.batch_size},
            "data": {"train": "tasks.jsonl", "rows": "tasks"},
            **asked.settings,
        }
    )
    load = Load(None, asked.base, 100, 0, prompt_tokens=spec.max_prompt_tokens, folder=tmp_path)
    estimate = estimate_load(spec, load, Machine("cpu", 8, 16, 64 * GB, (), (card,)))
    assert estimate is not None and estimate.memory_bytes < card.memory_bytes
