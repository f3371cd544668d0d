"""ToolBox's RL pipeline: what its report promises, module by module, with its names, figures and calls.

| section and statement | test, without `test_` |
|---|---|
| hardware_config: HardwareConfig, Ryzen 9 5950X with 40 GB | the_ryzen_of_the_report |
| hardware_config: four profiles, detection | profiles_are_named_as_there |
| data_collection: ExecutionTrace, ToolCallTrace, ReasoningStep | a_trace_is_kept_with_all_its_fields |
| data_collection: JSON in folders by date, read | traces_are_read_from_folders_by_date |
| data_collection: JSON in folders by date, written | traces_are_written_into_folders_by_date |
| data_collection: CheckpointLoader, overlaps once | a_checkpoint_repeats_nothing |
| data_collection: task_state | a_checkpoint_s_tasks_are_kept |
| Integration: hook_into_agent(agent, collector), a_run, arun_function | the_hook_is_called_as_there |
| Integration: session of a call, arguments of a tool | the_hook_knows_the_session_and_the_arguments |
| reward_functions: the seven rewards, weights, formulas | weights_are_those_of_the_report, values_follow_the_formulas |
| reward_functions: code is executed, with a time limit | code_is_executed |
| reward_functions: BaseReward | a_reward_of_one_s_own |
| reward_functions: binary and soft | rewards_are_binary_or_soft |
| reward_functions: group normalisation | groups_are_normalised |
| dataset_builder: KTO, balanced; GRPO groups; JSONL, JSON, HF; statistics | datasets_are_built |
| training: GRPO and KTO, LoRA, gradient checkpointing, merge, statistics | quick_start |
| export: GGUF from Q2_K to F16, Modelfile, profiles | every_quantisation, quick_start |
| Rewards examine: trace.tool_calls and the others | values_follow_the_formulas |
| Dependencies: psutil | dependencies |
| Next steps: auto-labeler | the_auto_labeler_suggests |
| Next steps: benchmark, online GRPO, curriculum | what_was_planned_is_there |
| Quick start: the pipeline with deploy_ollama; ollama run toolbox-isaa | quick_start |
| Storage paths, file summary: each name | tests/docs/test_earlier_systems.py |

Different on purpose: no bfloat16 on a Ryzen 9 5950X, which does not calculate in it (docs/engine.md, *The folder*); the
sample's deviation in groups, as TRL has it (docs/learning.md, `grpo`); pickles are refused (docs/importing/toolbox.md);
a failed reward is an error and not 0.0 (ADR 0006); a model in Ollama is named after its version, and `ollama switch`
gives it the name of one's own (docs/export.md, *Ollama*); llama.cpp comes as a wheel (docs/export.md, *GGUF*).
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import shutil
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from reckoner_client import Reckoner, Sending, hook_into_agent

from decisions.agents.services import AgentSetup, create_agent
from decisions.models import Decision, Episode, LabelSuggestion, Reward, Step
from decisions.rewards.code_execution import SECONDS, run_response
from decisions.rewards.components import COMPONENTS, Component, Facts, Trace
from decisions.rewards.components.defaults import TRACES
from decisions.rewards.learned_classifier import FEWEST
from jobs.models import Job, JobState
from models_registry.versions.services import get_champion
from tests.seeds import traces
from tests.seeds.conftest import ROOT
from tests.seeds.earlier import run_alone, run_ours
from tests.training.ollama_stub import OllamaStub
from tests.work import work_until_over
from tools.factories import WorkspaceFactory
from training.engine.machine.facts import GB, Machine, Profile, recommend
from training.engine.spec.export_formats import DEFAULT_QUANTISATION, QUANTISATIONS, recommend_quantisation
from training.engine.spec.methods import TRAINING
from training.engine.spec.right_from import RIGHT_FROM
from training.engine.spec.run_spec import RunSpec
from training.models import DatasetSnapshot, TrainingRun
from workspaces.access.actors import system
from workspaces.access.services import create_api_key

# hardware_config


def test_the_ryzen_of_the_report() -> None:
    ryzen = Machine("AMD Ryzen 9 5950X", 16, 32, 40 * GB, ("avx", "avx2"))
    told = recommend(ryzen, Profile.RYZEN_OPTIMIZED)
    assert (told.batch_size, told.lora_r, told.lora_alpha, told.generations) == (2, 16, 32, 6)
    assert told.model == "Qwen/Qwen2.5-1.5B-Instruct" and "avx2" in ryzen.instructions
    assert told.precision == "fp32"  # use_bf16 there: see above
    assert recommend(ryzen) == told


def test_profiles_are_named_as_there() -> None:
    assert {profile.value for profile in Profile} == {"RYZEN_OPTIMIZED", "AUTO_DETECT", "GPU_ENABLED", "CPU_ONLY"}
    told = run_ours("hardware", "--profile", "CPU_ONLY", "--json")
    assert told.code == 0 and {"cpu", "cores", "threads", "memory_bytes", "instructions", "gpus"} <= set(
        told.json["machine"]
    )


# data_collection


@pytest.fixture
def there(db: None) -> Any:
    return system(WorkspaceFactory(slug="there", name="There"))


def import_traces(folder: Path) -> Any:
    flags = ("--format", "toolbox", "--agent", "isaa", "--create-agents", "--json")
    told = run_ours("import_decisions", folder, *flags)
    assert told.code == 0, told.errors
    return told.json


@pytest.mark.slow
def test_a_trace_is_kept_with_all_its_fields(there: Any, tmp_path: Path) -> None:
    (tmp_path / "one.json").write_text(json.dumps(traces.trace(1, went_well=False)))
    import_traces(tmp_path)
    episode, decision = Episode.objects.get(), Decision.objects.get()
    assert (episode.external_id, episode.session, episode.query) == (f"{1:012x}", "session-1", traces.QUESTIONS[1])
    assert (episode.tasks_created, episode.tasks_completed, episode.tasks_failed) == (1, 0, 1)
    assert (episode.final_response, episode.llm_calls) == ("<answer>I do not know</answer>", 2)
    assert (decision.tokens_in, decision.tokens_out, float(decision.cost), decision.latency_ms) == (120, 30, 0.01, 900)
    (call,) = Step.objects.filter(kind="tool_call")
    assert (call.name, call.arguments, call.result) == ("look_up", {"word": "x"}, "1")
    assert (call.success, call.error, call.duration_ms) == (False, "not found", 4.5)
    (thought,) = Step.objects.filter(kind="reasoning")
    assert (thought.reasoning_type, thought.content, thought.confidence) == ("internal_reasoning", "Look it up.", 0.7)
    assert thought.insights == ["a fact"]


@pytest.mark.slow
def test_traces_are_read_from_folders_by_date(there: Any, tmp_path: Path) -> None:
    assert import_traces(traces.write_traces(tmp_path, 8))["decisions"] == 8


@pytest.mark.slow
def test_traces_are_written_into_folders_by_date(there: Any, tmp_path: Path) -> None:
    import_traces(traces.write_traces(tmp_path, 2))
    assert run_ours("export_traces", tmp_path / "out", "--agent", "isaa").code == 0
    assert len(list((tmp_path / "out").glob("2025-11-02/*.json"))) == 2


def checkpoint(count: int, **fields: Any) -> dict[str, Any]:
    said = []
    for number in range(count):
        at = f"2025-11-02T09:{number:02}:00"
        said.append({"role": "user", "content": f"question {number}", "timestamp": at})
        said.append({"role": "assistant", "content": f"answer {number}"})
    known = {"agent_name": "isaa", "timestamp": "2025-11-02T10:00:00", "session_data": {"s-1": {"history": said}}}
    return known | fields


@pytest.mark.slow
def test_a_checkpoint_repeats_nothing(there: Any, tmp_path: Path) -> None:
    for count in (2, 3):
        (tmp_path / f"{count}.json").write_text(json.dumps(checkpoint(count)))
    told = import_traces(tmp_path)
    assert (told["decisions"], told["repeated"]) == (3, 2)
    (tmp_path / "3.pkl").write_bytes(b"pickled")
    refused = run_ours("import_decisions", tmp_path, "--format", "toolbox", "--agent", "isaa", "--json")
    assert refused.code == 1 and "is a pickle" in refused.json["refusals"][0]


@pytest.mark.slow
def test_a_checkpoint_s_tasks_are_kept(there: Any, tmp_path: Path) -> None:
    tasks = {
        "t1": {"id": "t1", "description": "look", "status": "completed", "result": "12"},
        "t2": {"id": "t2", "description": "send", "status": "failed", "error": "no net"},
    }
    (tmp_path / "one.json").write_text(json.dumps(checkpoint(1, task_state=tasks)))
    import_traces(tmp_path)
    kept = set(Episode.objects.values_list("external_id", flat=True))
    assert {"task_state:t1", "task_state:t2"} <= kept
    answers = [str(decision.action) for decision in Decision.objects.all()]
    assert any("12" in answer for answer in answers) and any("no net" in answer for answer in answers)


# Integration with FlowAgent


class FlowAgent:
    """As far as the hook sees it."""

    name = "isaa"

    async def arun_function(self, function_name: str, **arguments: Any) -> str:
        await asyncio.sleep(0)
        if function_name == "send":
            raise ConnectionError("no net")
        return f"{arguments['path']}: 12 bytes"

    async def a_run(self, query: str, session_id: str = "default") -> str:
        with contextlib.suppress(ConnectionError):
            await self.arun_function("send", to="ann")
        return await self.arun_function("file_size", path="a.txt")


@pytest.fixture
def collector(live_server: Any, monkeypatch: pytest.MonkeyPatch) -> Iterator[Reckoner]:
    monkeypatch.setenv("NO_PROXY", "*")
    by = system(WorkspaceFactory(slug="there", name="There"))
    create_agent(by=by, slug="isaa", name="isaa", setup=AgentSetup(prompt_template="{{ query }}", action_space="text"))
    key = create_api_key(by=by, name="client", scopes=("admin",)).token
    client = Reckoner(live_server.url, key, sending=Sending(linger_seconds=0.02))
    yield client
    client.close(0)


@pytest.mark.slow
@pytest.mark.django_db(transaction=True)
def test_the_hook_is_called_as_there(collector: Reckoner) -> None:
    agent = FlowAgent()
    hook_into_agent(agent, collector)
    assert run_alone(agent.a_run("How large is a.txt?")) == "a.txt: 12 bytes"
    assert collector.flush() and collector.stats().refused == 0
    assert Decision.objects.get().action == "a.txt: 12 bytes"
    calls = dict(Step.objects.filter(kind="tool_call").values_list("name", "success"))
    assert calls == {"file_size": True, "send": False}
    assert "no net" in Step.objects.get(name="send").error


@pytest.mark.slow
@pytest.mark.django_db(transaction=True)
def test_the_hook_knows_the_session_and_the_arguments(collector: Reckoner) -> None:
    agent = FlowAgent()
    hook_into_agent(agent, collector)
    for session in ("ann", "bob"):
        run_alone(agent.a_run("How large is a.txt?", session_id=session))
    assert collector.flush()
    assert set(Episode.objects.values_list("session", flat=True)) == {"ann", "bob"}
    assert {str(step.arguments) for step in Step.objects.filter(name="file_size")} == {"{'path': 'a.txt'}"}


# reward_functions

WEIGHTS = {
    "trace.code_execution": 2.0,
    "trace.syntax": 1.0,
    "trace.tool_success": 2.0,
    "trace.task_completion": 1.5,
    "trace.efficiency": 0.5,
    "trace.format_compliance": 1.0,
    "trace.learned": 1.0,
}


def value(name: str, trace: Trace, **parameters: Any) -> float | None:
    component = COMPONENTS[name]
    return component.function(Facts(trace=trace), {**component.parameters, **parameters})


def test_weights_are_those_of_the_report() -> None:
    assert dict(TRACES.weights) == WEIGHTS
    assert FEWEST == 10 and SECONDS == 30.0


HALF_CODE = "```python\nx = 1\n```\nand\n```python\nx = = 1\n```"


@pytest.mark.parametrize(
    ("name", "trace", "worth"),
    [
        ("syntax", Trace(response=HALF_CODE), 0.5),
        ("syntax", Trace(response="no code"), 0.5),
        ("tool_success", Trace(tool_calls=4, tool_ends=4, tool_successes=3), 0.75),
        ("task_completion", Trace(tasks_created=2, tasks_completed=1, tasks_failed=1), 0.5 - 0.2 * 0.5),
        ("task_completion", Trace(tasks_created=1, tasks_completed=0, tasks_failed=1), 0.0),
        ("efficiency", Trace(tokens=1000, llm_calls=5, steps=3), 0.4 * 0.5 + 0.3 * 0.5 + 0.3 * 0.8),
        ("efficiency", Trace(tokens=4000, llm_calls=20, steps=30), 0.0),
        ("format_compliance", Trace(response="<a>x</a>"), 0.8),
        ("format_compliance", Trace(response="<a>" * 9), 0.5),
        ("format_compliance", Trace(response="plain"), 1.0),
    ],
)
def test_values_follow_the_formulas(name: str, trace: Trace, worth: float) -> None:
    assert value(f"trace.{name}", trace) == pytest.approx(worth)


def test_rewards_are_binary_or_soft() -> None:
    trace = Trace(tool_calls=4, tool_ends=4, tool_successes=3)
    assert value("trace.tool_success", trace, binary=True) == 0.0
    assert value("trace.tool_success", trace, binary=True, threshold=0.75) == 1.0
    bounds = [COMPONENTS[name].attainable() for name in WEIGHTS]
    assert all(0.0 <= low < high <= 1.0 for low, high in bounds)


@pytest.mark.slow
def test_code_is_executed() -> None:
    ran = "```python\nprint(6 * 7)\n```\n```bash\nexit 3\n```"
    assert run_response(Facts(trace=Trace(response=ran))) == 0.5
    assert run_response(Facts(trace=Trace(response="nothing to run"))) == 0.5


def test_a_reward_of_one_s_own() -> None:
    def short(facts: Facts, parameters: Any) -> float | None:
        return None if facts.trace is None else float(len(facts.trace.response) < parameters["most"])

    own = Component("acme.short", "immediate", short, "a short answer", 0.0, 1.0, parameters={"most": 20.0})
    assert own.function(Facts(trace=Trace(response="12 bytes.")), own.parameters) == 1.0
    assert own.attainable() == (0.0, 1.0)


@pytest.mark.slow
def test_groups_are_normalised() -> None:
    import torch

    from training.engine.methods.grpo import group_advantages

    rewards = torch.tensor([[1.0, 0.0, 0.5], [0.4, 0.4, 0.4]])
    expected = (rewards[0] - 0.5) / (rewards[0].std(unbiased=True) + 1e-4)
    assert torch.allclose(group_advantages(rewards)[0], expected)
    assert group_advantages(rewards)[1].tolist() == [0.0, 0.0, 0.0]  # no deviation: nothing is preferred


# dataset_builder


@pytest.mark.slow
def test_datasets_are_built(there: Any, tmp_path: Path) -> None:
    import_traces(traces.write_traces(tmp_path))
    assert run_ours("calculate_rewards", "--json").json["processed"] == 32
    assert Reward.objects.filter(value__isnull=False).count() == 32
    made = run_ours("create_dataset", "--agent", "isaa", "--name", "traces", "--kind", "text", "--json")
    assert made.code == 0 and made.json["rows"] == 32 and made.json["statistics"]
    dataset = DatasetSnapshot.objects.get().id

    def written(name: str, *flags: str) -> list[dict[str, Any]]:
        assert run_ours("export_dataset", dataset, "--to", tmp_path / name, *flags).code == 0
        text = (tmp_path / name).read_text()
        rows: list[dict[str, Any]] = (
            json.loads(text) if "json" in flags[-1:] else [json.loads(line) for line in text.splitlines()]
        )
        return rows

    assert RIGHT_FROM == 0.6
    kto = written("kto.jsonl", "--format", "kto")
    assert sum(row["label"] for row in kto) * 2 == len(kto) and {"prompt", "completion", "label"} <= set(kto[0])
    groups = written("groups.jsonl", "--format", "groups")
    assert len(groups) == len(traces.QUESTIONS) and all(len(one["texts"]) == len(one["rewards"]) == 4 for one in groups)
    assert written("kto.json", "--format", "kto", "--as", "json") == kto
    assert run_ours("export_dataset", dataset, "--to", tmp_path / "hf", "--as", "huggingface").code == 0
    assert (tmp_path / "hf" / "dataset_info.json").is_file()


# export


def test_every_quantisation() -> None:
    assert QUANTISATIONS == ("Q2_K", "Q3_K_M", "Q4_K_M", "Q5_K_M", "Q6_K", "Q8_0", "F16")
    assert DEFAULT_QUANTISATION == "Q4_K_M"
    by_memory = {gb: recommend_quantisation(gb * GB) for gb in (32, 16, 8, 4, 2)}
    assert by_memory == {32: "Q8_0", 16: "Q6_K", 8: "Q4_K_M", 4: "Q3_K_M", 2: "Q2_K"}


# Dependencies, next steps


def test_dependencies() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    asked = " ".join([*project["dependencies"], *(" ".join(one) for one in project["optional-dependencies"].values())])
    assert all(name in asked for name in ("transformers", "peft", "trl", "datasets", "torch", "psutil"))


def test_what_was_planned_is_there() -> None:
    fields: Any = RunSpec.model_fields["online"].annotation
    assert {"curriculum", "steps"} <= set(fields.model_fields)
    assert {"grpo", "kto"} <= set(TRAINING)
    assert {"lora", "gradient_checkpointing"} <= set(RunSpec.model_fields)


@pytest.mark.slow
def test_the_auto_labeler_suggests(there: Any, tmp_path: Path) -> None:
    """A classifier on manual labels suggests labels for new traces; people confirm them."""
    went_well = {number: number // len(traces.QUESTIONS) % 2 == 0 for number in range(80)}

    def write(numbers: range, *, labelled: bool) -> None:
        for number in numbers:
            label = {"label": went_well[number], "manual_review": True} if labelled else {}
            trace = traces.trace(number, went_well=went_well[number], **label)
            (tmp_path / f"{number}.json").write_text(json.dumps(trace))

    write(range(28), labelled=True)
    import_traces(tmp_path)
    few = run_ours("suggest_labels", "isaa", "--json")
    assert few.code == 1 and few.json["reason"].startswith("28 labels; at least 50 are needed")
    write(range(28, 64), labelled=True)
    write(range(64, 80), labelled=False)
    import_traces(tmp_path)
    told = run_ours("suggest_labels", "isaa", "--json")
    assert (told.code, told.json["suggested"]) == (0, 16), told.output
    suggested = LabelSuggestion.objects.values_list("decision__episode__external_id", "verdict")
    assert {int(name, 16): said == "confirmed" for name, said in suggested} == {
        number: went_well[number] for number in range(64, 80)
    }


# Quick start


@pytest.mark.slow
@pytest.mark.django_db(transaction=True)
def test_quick_start(tmp_path: Path, store: Path, settings: Any, small_base: Path) -> None:
    """pipeline = TrainingPipeline(agent_name="isaa", base_model=…, method="grpo"), with a small base;
    results = pipeline.run_full_pipeline(deploy_ollama=True); ollama run toolbox-isaa."""
    from training.loops.pipeline import run_full_pipeline

    WorkspaceFactory(slug="there", name="There")
    import_traces(traces.write_traces(tmp_path))
    base = tmp_path / "bases" / "small"
    shutil.copytree(small_base, base)
    settings.BASE_MODELS = [str(base.parent)]
    ollama = OllamaStub(tmp_path)
    try:
        begun = run_full_pipeline(
            agent="isaa", model=str(base), method="grpo", deploy_ollama=True, ollama_host=ollama.url,
            quantisation="Q3_K_M", wait=False,
        )  # fmt: skip
        job = work_until_over(Job.objects.get(id=begun["job"]))
        assert job.state == JobState.SUCCEEDED, job.error
        results = job.result
        run = TrainingRun.objects.get()
        assert (run.method, results["version"], results["ollama"]["name"]) == ("grpo", "isaa:2", "isaa:2-q3_k_m")
        spec = json.loads((Path(settings.RUNS) / str(run.id) / "spec.json").read_text())
        assert spec["lora"] and run.metrics
        assert get_champion(run.agent.registered_model) == run.produced_version
        # merged after training, then GGUF, then a model in Ollama with a template
        assert (Path(results["export"]["folder"]) / "model.safetensors").is_file()
        assert ollama.models["isaa:2-q3_k_m"]["template"] and ollama.models["isaa:2-q3_k_m"]["tensors"]
        switched = run_ours(
            "ollama", "switch", "--name", "toolbox-isaa", "--to", "isaa:2-q3_k_m", "--host", ollama.url, "--json"
        )
        assert switched.code == 0 and "toolbox-isaa" in "".join(ollama.models)
    finally:
        ollama.close()
