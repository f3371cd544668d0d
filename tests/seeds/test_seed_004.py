"""The notes app's training guide: its commands and calls as they stand there, in its order, on a small base.

A line's program is looked up in docs/earlier-systems.md, and its options are passed on as they are. Only the base is
another: the guide's default, Llama 3.1 8B, is replaced by `--model` with a tiny one.

| section and statement | test, without `test_` |
|---|---|
| Verify setup: MPS available | the_device_is_verified |
| Verify setup: get_training_stats('FILER') | stats_say_whether_there_is_enough |
| Configure: DATABASE_URL=postgresql://user:password@host:port/database | the_database_is_named_by_its_url |
| Export: FILER, PRIORITIZER; limit 1000, minimum -2.0 | decisions_are_exported |
| Export: with user feedback only | only_decisions_with_feedback |
| Export, train, evaluate, export model: every option and default | options_and_defaults |
| Train: default folder ./models/ocd-filer-v1 | the_default_folder |
| Train: FILER, and what is left in models/ocd-filer-v1 | filer_is_trained, every_epoch_leaves_a_checkpoint |
| Train: PRIORITIZER, 1024 and 256 tokens | prioritizer_is_trained |
| Before training: curl; calculate_rewards.py | rewards_are_calculated_by_call_and_by_command |
| Before training: daily via cron | rewards_are_calculated_daily |
| Evaluation: FILER, PRIORITIZER; the four figures | models_are_evaluated |
| Evaluation: accuracy where the right action is known | what_the_base_knows_is_right_on_the_app_s_own_export |
| Evaluation: agent type FILER by default; base auto-detected | filer_is_the_default |
| Model export: merged (the default), loads without its base | the_merged_model_loads_alone, merged_is_the_default |
| Model export: LoRA, needs its base; onnx | the_adapter_needs_its_base, onnx_is_the_third_format |
| Architecture: each file | tests/docs/test_earlier_systems.py |
| Training flow: PPO | ppo_is_the_default_method, ppo_is_taken_where_the_rows_have_propensities |
| Reward system: components, horizons, weighted sum in [0, 1] | rewards_are_a_weighted_sum_from_0_to_1 |
| M1: 4 bits; LoRA trains a small part | 4_bits_unless_refused, only_adapter_layers_are_trained |
| M1: small batches with accumulation; out of memory | memory_is_saved_by_smaller_batches |
| Workflow: deploy to the registry | the_exported_model_is_deployed |
| Integration: A/B by modelVersion, FILER_MODEL_VERSION | versions_are_compared_by_model_version |
| Next steps: librarian, storer, retriever | other_agents_are_trained_by_kind |

Different on purpose: the curl needs a key (docs/notes-app.md, *Who may call*); 4 bits only with CUDA (docs/engine.md,
*Memory*); no `.env` (docs/settings.md); `evaluate` scores the model's own action, never the logged reward
(docs/earlier-systems.md); hours and speeds of an M1 are not repeated.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from decisions.models import AgentKind
from decisions.rewards.components import COMPONENTS, Facts
from decisions.rewards.components.defaults import PRESETS
from models_registry.backends.outbound import close_clients
from tests.api_client import ApiClient, ApiMaker
from tests.seeds import notes
from tests.seeds.earlier import Ran, run, run_ours
from tools.model_server import running_model_server
from training.engine.machine.facts import GB, Gpu, Machine, recommend
from training.local import plans
from training.local.options import MODEL

pytestmark = pytest.mark.django_db
EXPORT = """python export_training_data.py \\
  --agent-type FILER \\
  --output training/data/filer.jsonl \\
  --limit 1000 \\
  --min-reward -2.0"""
EXPORT_CONFIRMED = """python export_training_data.py \\
  --agent-type FILER \\
  --output training/data/filer-confirmed.jsonl \\
  --require-feedback \\
  --limit 500"""
EXPORT_PRIORITIZER = """python export_training_data.py \\
  --agent-type PRIORITIZER \\
  --output training/data/prioritizer.jsonl \\
  --limit 1000 \\
  --min-reward -2.0"""
TRAIN = """python train_filer.py \\
  --data training/data/filer.jsonl \\
  --output models/ocd-filer-v1 \\
  --epochs 3 \\
  --batch-size 4"""
TRAIN_PRIORITIZER = """python train_prioritizer.py \\
  --data training/data/prioritizer.jsonl \\
  --output models/ocd-prioritizer-v1 \\
  --epochs 3 \\
  --batch-size 4"""
REWARDS = "python calculate_rewards.py --agent-type FILER"
EXPORT_BRIEFLY = """python export_training_data.py \\
     --agent-type FILER \\
     --output training/data/filer.jsonl \\
     --limit 1000"""
EVALUATE = """python evaluate.py \\
  --model models/ocd-filer-v1 \\
  --test-data training/data/filer-test.jsonl \\
  --agent-type FILER \\
  --output evaluation-results.json"""
EVALUATE_PRIORITIZER = """python evaluate.py \\
  --model models/ocd-prioritizer-v1 \\
  --test-data training/data/prioritizer-test.jsonl \\
  --agent-type PRIORITIZER \\
  --output evaluation-results.json"""
MERGE = """python export_model.py \\
  --model models/ocd-filer-v1 \\
  --output models/ocd-filer-v1-exported \\
  --merge"""
LORA = """python export_model.py \\
  --model models/ocd-filer-v1 \\
  --output models/ocd-filer-v1-adapter \\
  --format lora"""
KINDS = {"FILER": 64, "PRIORITIZER": 64}
"""Decisions that are recorded: enough rewards for PPO, and too few decisions to be called ready."""


# Set-up


@pytest.mark.slow
def test_the_device_is_verified() -> None:
    told = run_ours("hardware", "--verify", "--json")
    assert (told.code, told.json["engine"]["error"]) == (0, "")
    assert told.json["engine"]["device"].split(":")[0] in {"cpu", "mps", "cuda"}


def test_the_database_is_named_by_its_url() -> None:
    import dj_database_url

    known = dj_database_url.parse("postgresql://user:password@host:5432/database")
    assert [known[name] for name in ("USER", "PASSWORD", "HOST", "PORT", "NAME")] == [
        "user", "password", "host", 5432, "database",
    ]  # fmt: skip
    assert "dj_database_url.parse(DATABASE_URL" in (Path(__file__).parents[2] / "project/settings.py").read_text()


@pytest.mark.slow
def test_stats_say_whether_there_is_enough(recorded: Any) -> None:
    told = run_ours("training_stats", "FILER", "--json")
    assert told.code == 1  # 64 of 100 decisions
    assert (told.json["totalDecisions"], told.json["readyForTraining"]) == (KINDS["FILER"], False)


# Before training


@pytest.fixture(scope="module")
def app(home: Any) -> ApiClient:
    return ApiMaker(home.workspace)("decisions:write", "feedback:write", "export:read")


@pytest.fixture(scope="module")
def recorded(app: ApiClient, folder: Path) -> dict[str, Any]:
    """Decisions of FILER and PRIORITIZER with verdicts, a quarter of them wrong; what `curl` and the command said."""
    for kind, count in KINDS.items():
        notes.record(app, kind, range(100, 100 + count))
    app.token, key = None, app.token
    refused = app.post("/api/training/calculate-pending")
    app.token = key
    (folder / "training/data").mkdir(parents=True)
    return {
        "refused": refused.status_code,
        "command": run(REWARDS),
        # curl -X POST http://localhost:3000/api/training/calculate-pending
        "curl": app.post("/api/training/calculate-pending").json(),
    }


@pytest.mark.slow
def test_rewards_are_calculated_by_call_and_by_command(recorded: dict[str, Any]) -> None:
    assert recorded["refused"] == 401  # the original let everybody
    assert (
        recorded["command"].code == 0
        and f"{KINDS['FILER']} rewards calculated, 0 with an error" in recorded["command"].output
    )
    told = recorded["curl"]
    assert (told["success"], told["processed"], told["errors"]) == (True, KINDS["PRIORITIZER"], 0)


def test_rewards_are_calculated_daily(settings: Any) -> None:
    assert settings.REWARDS_HOUR_UTC == 2


# Export training data


def read(path: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in Path(path).read_text().splitlines()]


@pytest.fixture(scope="module")
def exported(recorded: Any) -> None:
    for line in (EXPORT, EXPORT_CONFIRMED, EXPORT_PRIORITIZER):
        assert run(line).code == 0
    for kind in KINDS:
        test_data = f"training/data/{kind.lower()}-test.jsonl"
        assert run_ours("export_training_data", "--agent-type", kind, "--output", test_data).code == 0


@pytest.mark.slow
def test_decisions_are_exported(exported: None) -> None:
    for kind, count in KINDS.items():
        rows = read(f"training/data/{kind.lower()}.jsonl")
        assert len(rows) == count and all(row["reward"] >= -2.0 for row in rows)
        assert {row["metadata"]["agentType"] for row in rows} == {kind}
    assert read("training/data/filer.jsonl")[0]["messages"][-1]["role"] == "assistant"
    assert run(EXPORT_BRIEFLY).code == 0


@pytest.mark.slow
def test_only_decisions_with_feedback(exported: None) -> None:
    rows = read("training/data/filer-confirmed.jsonl")
    assert {row["metadata"]["userFeedback"] for row in rows} == {"CONFIRMED", "CORRECTED"}


# Options and defaults


def defaults(command: str) -> dict[str, Any]:
    from django.core.management import get_commands, load_command_class

    parser = load_command_class(get_commands()[command], command).create_parser("manage.py", command)
    return {flag: action.default for action in parser._actions for flag in action.option_strings}


def test_options_and_defaults() -> None:
    export, evaluate, model = map(defaults, ("export_training_data", "evaluate", "export_model"))
    assert (export["--limit"], export["--min-reward"], export["--require-feedback"]) == (1000, -2.0, False)
    assert {"FILER", "LIBRARIAN", "PRIORITIZER", "STORER", "RETRIEVER"} <= set(AgentKind.values)
    assert MODEL == "meta-llama/Llama-3.1-8B-Instruct"
    assert (plans.EPOCHS, plans.BATCH_SIZE, plans.LEARNING_RATE) == (3, 4, 1.41e-5)
    assert {"--data", "--output", "--model", "--no-quantization"} <= set(defaults("train"))
    assert {"--model", "--test-data", "--base-model", "--output", "--no-quantization"} <= set(evaluate)
    assert evaluate["--agent-type"] is None  # whose decisions the file holds, else FILER: see below
    assert {"--model", "--output", "--base-model", "--merge", "--format"} <= set(model)


# Train


@pytest.fixture(scope="module")
def trained(exported: None, small_base: Path) -> dict[str, Ran]:
    return {
        "FILER": run(TRAIN, "--model", small_base),
        "PRIORITIZER": run(TRAIN_PRIORITIZER, "--model", small_base),
    }


def spec_of(name: str) -> dict[str, Any]:
    spec: dict[str, Any] = json.loads(Path(f"models/{name}/run/spec.json").read_text())
    return spec


@pytest.mark.slow
def test_filer_is_trained(trained: dict[str, Ran]) -> None:
    assert trained["FILER"].code == 0, trained["FILER"].errors
    spec = spec_of("ocd-filer-v1")
    assert (spec["max_prompt_tokens"], spec["max_completion_tokens"]) == (512, 128)
    assert spec["lora"] == {"r": 16, "alpha": 32}
    assert spec["sampling"] == {"temperature": 0.7, "top_k": 50, "top_p": 0.95}
    assert spec["optimiser"] == {"epochs": 3, "batch_size": 4, "learning_rate": 1.41e-5}
    weights = [
        path for path in (Path("models/ocd-filer-v1/adapter"), Path("models/ocd-filer-v1/model")) if path.exists()
    ]
    assert len(weights) == 1


@pytest.mark.slow
def test_every_epoch_leaves_a_checkpoint(trained: dict[str, Ran]) -> None:
    for name in ("ocd-filer-v1", "ocd-prioritizer-v1"):
        if spec_of(name)["epoch_checkpoints"]:
            assert {path.name for path in Path("models", name).glob("checkpoint-*")} == {
                f"checkpoint-epoch-{epoch}" for epoch in (1, 2, 3)
            }


@pytest.mark.slow
def test_prioritizer_is_trained(trained: dict[str, Ran]) -> None:
    assert trained["PRIORITIZER"].code == 0, trained["PRIORITIZER"].errors
    spec = spec_of("ocd-prioritizer-v1")
    assert (spec["max_prompt_tokens"], spec["max_completion_tokens"]) == (1024, 256)


@pytest.mark.slow
def test_the_default_folder(trained: dict[str, Ran], small_base: Path) -> None:
    """./models/ocd-filer-v1, with 3 epochs and batches of 4: the same training, which is not done again."""
    weights = json.loads(Path("models/ocd-filer-v1/run/attempts/1/result.json").read_text())["weights_sha256"]
    told = run("python train_filer.py --data training/data/filer.jsonl", "--model", small_base, "--json")
    assert (told.code, told.json["weights_sha256"]) == (0, weights)


@pytest.mark.slow
def test_ppo_is_the_default_method(trained: dict[str, Ran]) -> None:
    """The app tells no propensities, so the model acts afresh and is paid by a reward model of its decisions."""
    for kind, count in KINDS.items():
        name = f"ocd-{kind.lower()}-v1"
        assert spec_of(name)["method"] == "ppo"
        metrics = json.loads(Path(f"models/{name}/run/attempts/1/result.json").read_text())["metrics"]
        assert metrics["without_propensity"] == count and metrics["reward_model_auc_low"] > 0.5
        assert "have no propensity, so the model acts afresh" in trained[kind].errors


def test_ppo_is_taken_where_the_rows_have_propensities(tmp_path: Path) -> None:
    row = {"id": "1", "prompt": "a", "options": ["a", "b"], "action": "a", "propensity": 0.5, "reward": 1.0}
    rows = plans.Rows(plans.RowKind.LOGGED, [row])
    assert plans.make_plan(plans.Training("", "a/model-1m"), rows, tmp_path).method == "ppo"


@pytest.mark.slow
def test_only_adapter_layers_are_trained(trained: dict[str, Ran]) -> None:
    result = json.loads(Path("models/ocd-filer-v1/run/attempts/1/result.json").read_text())
    assert 0 < result["trainable_parameters"] < result["total_parameters"]


# Evaluation


@pytest.fixture(scope="module")
def evaluated(trained: Any) -> dict[str, dict[str, Any]]:
    found = {}
    for kind, line in (("FILER", EVALUATE), ("PRIORITIZER", EVALUATE_PRIORITIZER)):
        told = run(line)
        assert told.code == 0, told.errors
        found[kind] = json.loads(Path("evaluation-results.json").read_text())
    return found


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_models_are_evaluated(evaluated: dict[str, Any], kind: str) -> None:
    told = evaluated[kind]
    assert (told["agent"], told["model"]) == (kind.lower(), f"models/ocd-{kind.lower()}-v1")
    assert 0.0 <= told["accuracy"] <= 1.0 and 0.0 <= told["average_reward"] <= 1.0
    assert told["error_rate"] == pytest.approx(1 - told["accuracy"])
    assert told["rows"] > 0 and isinstance(told["sample_errors"], list)


@pytest.mark.slow
def test_what_the_base_knows_is_right_on_the_app_s_own_export(evaluated: dict[str, Any]) -> None:
    """Confidence and reasoning, which every exported action has, do not count."""
    told = evaluated["FILER"]
    assert told["accuracy"] > 0.9 and told["error_rate"] < 0.1
    assert (told["rows"], told["left_out"]) == (KINDS["FILER"], 0)
    assert {one["name"] for one in told["scores"]["fields"]} == {"status", "swimlane", "priority"}


@pytest.mark.slow
def test_filer_is_the_default(trained: Any) -> None:
    told = run("python evaluate.py --model models/ocd-filer-v1 --test-data training/data/filer-test.jsonl")
    assert told.code == 0 and told.json["agent"] == "filer"
    unnamed = [row | {"metadata": {}} for row in read("training/data/filer-test.jsonl")]
    Path("unnamed.jsonl").write_text("".join(json.dumps(row) + "\n" for row in unnamed))
    told = run("python evaluate.py --model models/ocd-filer-v1 --test-data unnamed.jsonl")
    assert told.code == 0 and told.json["agent"] == "filer", told.errors
    found = run(EVALUATE, "--no-quantization", "--base-model", spec_of("ocd-filer-v1")["base"]["path"])
    assert found.code == 0


# Model export


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::FutureWarning", "ignore::DeprecationWarning")
def test_the_merged_model_loads_alone(merged: Path) -> None:
    from transformers import AutoModelForCausalLM, AutoTokenizer

    model, tokenizer = AutoModelForCausalLM.from_pretrained(merged), AutoTokenizer.from_pretrained(merged)
    assert model.num_parameters() > 100_000 and tokenizer.chat_template
    assert not (merged / "adapter_config.json").exists()


@pytest.fixture(scope="module")
def merged(trained: Any) -> Path:
    told = run(MERGE)
    assert told.code == 0, told.errors
    return Path("models/ocd-filer-v1-exported")


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::FutureWarning", "ignore::DeprecationWarning")
def test_the_adapter_needs_its_base(trained: Any, small_base: Path) -> None:
    from peft import PeftModel
    from transformers import AutoModelForCausalLM

    assert run(LORA).code == 0
    folder = Path("models/ocd-filer-v1-adapter")
    assert not (folder / "config.json").exists()
    PeftModel.from_pretrained(AutoModelForCausalLM.from_pretrained(small_base), str(folder))


@pytest.mark.slow
def test_merged_is_the_default(trained: Any) -> None:
    told = run("python export_model.py --model models/ocd-filer-v1 --output models/ocd-filer-v1-default", "--json")
    assert told.code == 0 and told.json["plan"]["format"] == "merged"


@pytest.mark.slow
def test_onnx_is_the_third_format(trained: Any) -> None:
    told = run(
        "python export_model.py --model models/ocd-filer-v1 --output models/ocd-filer-v1-onnx --format onnx", "--json"
    )
    assert told.code == 0 and "model.onnx" in told.json["files"]


# Reward system


def test_rewards_are_a_weighted_sum_from_0_to_1() -> None:
    filer = PRESETS["FILER"]
    assert dict(filer.weights) == {
        "verdict": 1.0, "calibration": 0.1, "filer.completion": 0.5, "filer.blocked": 0.3, "filer.rework": 0.2,
        "filer.time": 0.3, "filer.alignment": 0.4, "filer.opportunity_cost": 0.2,
    }  # fmt: skip
    assert (filer.clamp, filer.low, filer.high) == (5.0, -2.0, 2.0)
    assert {COMPONENTS[name].horizon for name in filer.weights} == {"immediate", "delayed", "strategic"}
    verdict = COMPONENTS["verdict"]
    worth = {said: verdict.function(Facts(measures={"verdict": said}), {}) for said in
             ("confirmed", "corrected", "overridden", "ignored")}  # fmt: skip
    assert worth == {"confirmed": 1.0, "corrected": -0.5, "overridden": -0.8, "ignored": 0.0}


# M1 considerations


def plan_of(tmp_path: Path, **fields: Any) -> plans.LocalPlan:
    rows = plans.Rows(plans.RowKind.TEXT, [{"id": "1", "prompt": "a", "completion": "b", "reward": 1.0}])
    return plans.make_plan(plans.Training("", "a/model-1m", **fields), rows, tmp_path / "out")


def test_4_bits_unless_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plans, "why_no_quantisation", lambda machine: "")
    assert plan_of(tmp_path).spec["quantisation"] == "4bit"
    assert plan_of(tmp_path, quantised=False).spec["quantisation"] is None


def test_memory_is_saved_by_smaller_batches(tmp_path: Path) -> None:
    """batch_size 2 or 1, gradient_accumulation_steps, max_samples (`--limit`), a smaller model."""
    spec = plan_of(tmp_path, batch_size=1, settings={"optimiser": {"accumulate": 4}}).spec
    assert (spec["optimiser"]["batch_size"], spec["optimiser"]["accumulate"]) == (1, 4)
    m1 = Machine("Apple M1", 8, 8, 16 * GB, (), (Gpu("mps", "Apple GPU", 16 * GB, bf16=True),))
    assert recommend(m1).precision == "bf16" and "Qwen2.5" in recommend(m1).model


# Integration with the app


@pytest.mark.slow
def test_versions_are_compared_by_model_version(recorded: Any, app: ApiClient) -> None:
    told = app.get("/api/training/ab-test?agentType=FILER").json()
    assert [one["version"] for one in told["versions"]] == ["gpt-4.1-mini-20250101"] and not told["abTestingEnabled"]
    notes.record(app, "FILER", range(200, 204), model="ocd-filer-v1")
    told = app.get("/api/training/ab-test?agentType=FILER").json()
    assert {one["version"] for one in told["versions"]} == {"gpt-4.1-mini-20250101", "ocd-filer-v1"}
    assert told["abTestingEnabled"] and {"bestReward", "bestAcceptanceRate", "mostDecisions"} <= set(told["comparison"])


@pytest.mark.slow
def test_the_exported_model_is_deployed(merged: Path, home: Any, settings: Any) -> None:
    """Into the registry, and from there it answers where the app asked `hf.textGeneration` or OpenAI."""
    caller = ApiMaker(home.workspace)("route:read")
    with running_model_server(Path(settings.ARTIFACTS), settings.MODEL_SERVER_TOKEN) as address:
        settings.MODEL_SERVER_URL = address
        told = run_ours("import_model", merged, "--agent", "FILER", "--json")
        assert told.code == 0, told.errors
        assert told.json["version"].startswith("filer:") and told.json["champion"] is True
        state, _ = notes.decision("FILER", 500)
        answer = caller.post("/api/ai/file", {"input": state, "userId": "user-1"})
        assert answer.status_code == 200, answer.content
        assert answer.json()["status"] in {"TODO", "ON_HOLD", "COMPENDIUM", "TRASH"} and answer.json()["decisionId"]
        again = run_ours("import_model", "models/ocd-filer-v1", "--agent", "FILER", "--json")
        assert again.code == 0 and again.json["champion"] is False
        close_clients()


@pytest.mark.slow
def test_other_agents_are_trained_by_kind(home: Any, small_base: Path, folder: Path) -> None:
    """train_librarian.py and the like, which the original only planned."""
    for kind in ("LIBRARIAN", "STORER", "RETRIEVER"):
        told = run(f"python train_filer.py --agent-type {kind}", "--model", small_base)
        assert told.code == 1 and "no" in told.errors.lower()  # no decision yet
