"""`manage.py train`: from a file to weights, in a folder of one's own."""

from __future__ import annotations

import io
import json
import sys
from pathlib import Path
from typing import Any

import pytest
from django.core.management import call_command

from decisions.agents.services import create_notes_agents
from decisions.models import Agent
from decisions.rewards.calculate import calculate_rewards
from decisions.rewards.specs import current_reward_spec
from tools.factories import DecisionFactory, FeedbackFactory, RewardSpecFactory
from training.engine.machine.facts import GB, Machine
from training.engine.spec.methods import RowKind
from training.local.plans import Rows, Training, UnusableRun, make_plan
from training.local.runs import read_rows
from training.local.task_rows import rows_of_environment
from training.models import DatasetSnapshot
from training.runs import launcher
from training.runs.estimates import capacity

WORDS = {"travel": "flight hotel visa beach", "finance": "invoice salary loan tax"}
OPTIONS = list(WORDS)


def labelled(count: int) -> list[dict[str, Any]]:
    texts = [(word, name) for name, words in WORDS.items() for word in words.split()]
    rows = [texts[n % len(texts)] for n in range(count)]
    return [{"id": str(n), "prompt": f"{w} {n}", "options": OPTIONS, "answer": a} for n, (w, a) in enumerate(rows)]


def write(path: Path, rows: list[dict[str, Any]]) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def ask(command: str, *arguments: object) -> dict[str, Any]:
    output = io.StringIO()
    call_command(command, *map(str, arguments), stdout=output, stderr=io.StringIO())
    told: dict[str, Any] = json.loads(output.getvalue())
    return told


def refused(command: str, *arguments: object) -> str:
    said = io.StringIO()
    with pytest.raises(SystemExit) as ended:
        call_command(command, *map(str, arguments), stdout=io.StringIO(), stderr=said)
    assert ended.value.code == 2
    return said.getvalue()


@pytest.mark.slow
def test_a_file_trains_a_model_then_an_adapter_over_it(tmp_path: Path) -> None:
    rows = write(tmp_path / "rows.jsonl", labelled(64))
    quick = ("--learning-rate", 3e-3, "--batch-size", 8, "--no-quantization", "--json")
    first = tmp_path / "first"
    told = ask("train", "--data", rows, "--output", first, "--model", "tiny", "--method", "pretrain", *quick)
    assert (told["rows"], told["output"]) == (64, str(first / "model"))
    assert {path.name for path in first.iterdir()} == {"model", "run", *(f"checkpoint-epoch-{n}" for n in (1, 2, 3))}
    log = [
        {**{name: row[name] for name in ("id", "prompt", "options")}, "action": row["answer"], "propensity": 0.5}
        | {"reward": 1.0}
        for row in labelled(32)
    ]
    logged = write(tmp_path / "log.jsonl", log)
    second = tmp_path / "second"
    asked = ("--output", second, "--model", first / "model", "--method", "reward_weighted")
    told = ask("train", "--data", logged, *asked, *quick)
    config = json.loads((second / "adapter" / "adapter_config.json").read_text())
    assert config["base_model_name_or_path"] == str(first / "model") and (config["r"], config["lora_alpha"]) == (16, 32)
    # A finished run is not trained again, and another one does not take its folder.
    assert ask("train", "--data", logged, *asked, *quick)["weights_sha256"] == told["weights_sha256"]
    other = ("--output", second, "--model", first / "model", "--method", "posterior")
    assert "is not empty" in refused("train", "--data", logged, *other, *quick)


def test_what_cannot_be_trained_is_refused_and_nothing_is_written(tmp_path: Path) -> None:
    rows = write(tmp_path / "rows.jsonl", labelled(4))
    output = tmp_path / "out"
    tiny: tuple[object, ...] = ("--model", "tiny")
    by_ppo = refused("train", "--data", rows, "--output", output, *tiny, "--method", "ppo")
    assert "ppo cannot begin with a new tiny model" in by_ppo
    bad = refused("train", "--data", rows, "--output", output, *tiny, "--set", '{"data": {}, "base": {}}')
    assert [line.split()[1] for line in bad.splitlines()] == ["base", "data"]
    assert "--rows: only with --agent-type" in refused(
        "train", "--data", rows, "--output", output, *tiny, "--rows", "text", "--set", "[]"
    )
    assert "No such file" in refused("train", "--data", tmp_path / "none", "--output", output, *tiny)
    nonsense = write(tmp_path / "nonsense.jsonl", [{"a": 1}])
    assert "1: is of no known form: it has a; the forms" in refused(
        "train", "--data", nonsense, "--output", output, *tiny
    )
    assert not output.exists()


def test_what_failed_before_it_learnt_anything_makes_room(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Such as a base that the hub did not give: the next attempt takes another one, into the same folder."""
    monkeypatch.setattr(launcher, "ENGINE", (sys.executable, "-c", "raise SystemExit(1)"))
    rows, output, base = write(tmp_path / "rows.jsonl", labelled(4)), tmp_path / "out", tmp_path / "base"
    base.mkdir()
    flags = ("--data", rows, "--output", output, "--model", base, "--no-quantization", "--method", "sft")
    for epochs in (1, 2):
        with pytest.raises(SystemExit) as ended:
            call_command("train", *map(str, (*flags, "--epochs", epochs)), stderr=io.StringIO())
        assert ended.value.code == 1
        assert json.loads((output / "run" / "spec.json").read_text())["optimiser"]["epochs"] == epochs
    attempt = output / "run" / "attempts" / "1" / "checkpoints" / "step-00000001"
    attempt.mkdir(parents=True)
    assert "is not empty" in refused("train", *flags, "--epochs", 3)
    assert attempt.is_dir()


@pytest.mark.django_db
def test_an_agent_without_rewarded_decisions_or_that_is_not_there_trains_nothing(agent: Any, tmp_path: Path) -> None:
    flags = ("--output", tmp_path / "out", "--method", "posterior", "--no-quantization")
    assert "name one of: filer" in refused("train", "--agent-type", "STORER", *flags)
    said = io.StringIO()
    with pytest.raises(SystemExit) as ended:
        call_command("train", *map(str, ("--agent-type", "FILER", *flags)), stderr=said)
    assert ended.value.code == 1 and said.getvalue()
    assert not (tmp_path / "out").exists() and not DatasetSnapshot.objects.exists()


def test_each_file_is_read_as_what_it_holds(tmp_path: Path) -> None:
    chat = {"messages": [{"role": "user", "content": "{}"}, {"role": "assistant", "content": "work"}], "reward": -1.0}
    pair = {"id": "1", "prompt": "x", "chosen": "a", "rejected": "b"}
    kinds = [read_rows(write(tmp_path / "rows.jsonl", rows)).kind for rows in ([chat], [pair], labelled(1))]
    assert kinds == ["text", "preferences", "labelled"]


def test_an_export_says_whose_decisions_it_holds(tmp_path: Path) -> None:
    def line(kind: Any) -> dict[str, Any]:
        return {"prompt": "x", "completion": "y", "reward": 1.0, "metadata": {"agentType": kind}}

    rows = read_rows(write(tmp_path / "rows.jsonl", [line("PRIORITIZER")]))
    plan = make_plan(Training("", "a/model-1m", quantised=False), rows, tmp_path / "out")
    assert (plan.spec["max_prompt_tokens"], plan.spec["max_completion_tokens"]) == (1024, 256)
    filer, mixed = ([line("FILER")], [line("FILER"), line("STORER") | {"prompt": "z"}])
    for lines, kind in ((filer, "FILER"), (mixed, ""), ([line(["FILER"]) | {"metadata": {}}], "")):
        assert read_rows(write(tmp_path / "rows.jsonl", lines)).agent_kind == kind


def test_an_environment_gives_tasks_to_learn_from_and_others_to_measure_on(tmp_path: Path) -> None:
    rows = rows_of_environment("equations", 5, 3)
    plan = make_plan(Training("", "a/model-1m", quantised=False), rows, tmp_path / "out")
    assert plan.method == "grpo" and plan.spec["data"]["heldout"] == "heldout.jsonl" and plan.spec["evaluate"]
    assert {name: len(lines) for name, lines in rows.files.items()} == {"rows.jsonl": 5, "heldout.jsonl": 3}
    assert not {one["id"] for one in rows.lines} & {one["id"] for one in rows.held_out}
    assert list(rows_of_environment("equations", 5, 0).files) == ["rows.jsonl"]
    for name, why in (("nowhere", "unknown environment"), ("office-unseen", "only for measuring")):
        with pytest.raises(UnusableRun, match=f"--environment: .*{why}"):
            rows_of_environment(name, 1, 1)


LOGGED = {"id": "1", "prompt": "a", "options": ["a", "b"], "action": "a", "propensity": 0.5, "reward": 1.0}
TEXT = {"id": "1", "prompt": "a", "completion": "b"}


@pytest.mark.parametrize(
    ("kind", "row", "method", "because"),
    [
        ("labelled", labelled(1)[0], "ppo", None),
        ("logged", LOGGED, "ppo", None),
        ("logged", LOGGED | {"propensity": None}, "posterior", "ppo needs rows with the probability of their action"),
        ("logged", LOGGED | {"action": "c"}, "ppo", None),  # the engine says what is wrong with it
        ("text", TEXT | {"reward": 0.4}, "reward_weighted", "ppo cannot learn from text rows"),
        ("text", TEXT | {"reward": 0.0, "right": 1.0}, "sft", "ppo cannot learn from text rows"),
        ("text", TEXT, "sft", "ppo cannot learn from text rows"),
        ("preferences", {"id": "1", "prompt": "a", "chosen": "b", "rejected": "c"}, "dpo", "ppo cannot learn from"),
    ],
)
def test_the_default_method_is_ppo_or_what_fits_the_rows(
    kind: str, row: dict[str, Any], method: str, because: str | None, tmp_path: Path
) -> None:
    rows = Rows(RowKind(kind), [row])
    plan = make_plan(Training(method="", base="a/model-1m", quantised=False), rows, tmp_path / "out")
    assert plan.method == method
    assert (because is None and not plan.notes) or (because and f"method {method}: {because}" in plan.notes[0])
    assert plan.spec["sampling"] == {"temperature": 0.7, "top_k": 50, "top_p": 0.95}
    given = make_plan(
        Training("reward_model", "a/model-1m", quantised=False), Rows(RowKind.LABELLED, labelled(2)), tmp_path
    )
    assert given.method == "reward_model" and not given.notes


@pytest.mark.parametrize(("settings", "kept"), [({}, True), ({"reward": [{"name": "matches_answer"}]}, False)])
def test_the_weights_of_each_epoch_are_kept_but_of_fresh_texts(
    settings: dict[str, Any], kept: bool, tmp_path: Path
) -> None:
    rows = Rows(RowKind.TEXT, [TEXT | {"id": str(n), "reward": float(n)} for n in (0, 1)])
    asked = Training("grpo", "a/model-1m", quantised=False, settings=settings)
    assert make_plan(asked, rows, tmp_path / "out").spec["epoch_checkpoints"] is kept


def test_weights_are_in_4_bits_where_the_machine_can_and_else_it_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def plan(**fields: Any) -> Any:
        return make_plan(Training("", "a/model-1m", **fields), Rows(RowKind.LOGGED, [LOGGED]), tmp_path / "out")

    monkeypatch.setattr("training.local.plans.why_no_quantisation", lambda machine: "there is no CUDA")
    found = plan()
    assert found.spec["quantisation"] is None and found.notes == ["weights in full, not in 4 bits: there is no CUDA"]
    monkeypatch.setattr("training.local.plans.why_no_quantisation", lambda machine: None)
    assert (plan().spec["quantisation"], plan().notes) == ("4bit", [])
    assert plan(quantised=False).spec["quantisation"] is None
    assert plan(settings={"lora": None}).spec["quantisation"] is None


def test_a_preset_stands_over_the_defaults_and_what_is_given_over_a_preset(tmp_path: Path) -> None:
    asked = Training("", "a/model-1m", learning_rate=1e-3, quantised=False, preset="reward-weighted-lora")
    plan = make_plan(asked, Rows(RowKind.TEXT, [TEXT | {"reward": 0.4}]), tmp_path / "out")
    assert (plan.method, plan.notes) == ("reward_weighted", [])
    assert plan.spec["lora"] == {"r": 8, "alpha": 16, "dropout": 0.1, "targets": "query-value"}
    assert plan.spec["optimiser"] == {"batch_size": 1, "accumulate": 1, "epochs": 3, "learning_rate": 1e-3}
    assert plan.spec["max_prompt_tokens"] + plan.spec["max_completion_tokens"] == 512
    with pytest.raises(UnusableRun, match="cannot learn from preferences"):
        make_plan(asked, Rows(RowKind.PREFERENCES, [{"chosen": "a"}]), tmp_path / "out")


def test_what_does_not_fit_this_machine_is_refused_before_anything_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A hub id tells its size: no weights are read."""
    rows = write(tmp_path / "rows.jsonl", [LOGGED])
    asked = ("--data", rows, "--output", tmp_path / "out", "--model", "a/model-8b", "--no-quantization")
    monkeypatch.setattr(capacity, "this_machine", lambda: Machine("a CPU", 2, 4, 4 * GB))
    monkeypatch.setattr(capacity, "measure_free_disk", lambda place: GB // 100)
    memory, disk = refused("train", *asked).splitlines()
    assert memory.startswith("memory: the run needs about 1") and "only 4.0 GB" in memory
    assert disk.startswith("disk: the run needs") and "what would fit:" in disk
    assert not (tmp_path / "out").exists()


@pytest.mark.django_db
def test_an_agents_rows_can_be_of_another_kind_than_its_actions(by: Any, tmp_path: Path) -> None:
    """A LIBRARIAN's findings are a text, and scored pairs."""
    create_notes_agents(by=by)
    agent = Agent.objects.get(kind="LIBRARIAN")
    RewardSpecFactory(agent=agent, signal="verdict")
    state = {"newItem": {"title": "a flood"}, "corpus": [{"id": "a", "title": "note a"}]}
    action = {"findings": [{"type": "RELATED", "relatedIds": ["a"]}]}
    decision = DecisionFactory(agent=agent, state=state, action=action, options=None, propensity=None)
    FeedbackFactory(decision=decision, value="confirmed")
    calculate_rewards(current_reward_spec(agent))
    base = tmp_path / "base"
    base.mkdir()  # without a model: the engine refuses it, and the rows have been read by then
    asked = ("--agent-type", "LIBRARIAN", "--output", tmp_path / "out", "--model", base)
    assert "method reward_weighted: ppo cannot learn from text rows" in refused("train", *asked)
    pairs = refused("train", *asked, "--rows", "logged")
    assert "method posterior: ppo needs rows with the probability" in pairs and "base.path" in pairs
    assert [one.kind for one in DatasetSnapshot.objects.order_by("id")] == ["text", "logged"]
    assert not (tmp_path / "out").exists()
