"""docs/earlier-systems.md: every name of theirs has its row, and every name of ours in it is there."""

from __future__ import annotations

import re
from functools import cache
from importlib.util import find_spec
from typing import Any

import msgspec
import pydantic
import pytest
from django.core.management import get_commands, load_command_class
from django.urls import Resolver404, resolve

from decisions.rewards.components import COMPONENTS
from tests.docs.blocks import DOCS, ROOT
from tests.docs.test_docs_complete import codes, documented_settings, rows, section
from tests.docs.test_places import DOTTED, missing_name
from training.engine.spec.methods import METHODS
from training.engine.spec.run_spec import RunSpec

PAGE = (DOCS / "earlier-systems.md").read_text(encoding="utf-8")
COMMANDS = (DOCS / "commands.md").read_text(encoding="utf-8")
TRAINED = [*section(COMMANDS, "### train").split(), *section((DOCS / "engine.md").read_text(), "## The folder").split()]
"""Words about what a training leaves in its folder."""
SYSTEMS: dict[str, str] = {
    "## The notes app's training": """conda pip setup.sh torch.backends.mps.is_available get_training_stats('FILER')
        training.database DATABASE_URL export_training_data.py --agent-type --output --limit --min-reward
        --require-feedback train_filer.py train_prioritizer.py train_librarian.py train_storer.py train_retriever.py
        --data --model --epochs --batch-size --learning-rate --no-quantization gradient_accumulation_steps max_samples
        calculate_rewards.py /api/training/calculate-pending cron models/ocd-filer-v1/ checkpoint-epoch-{N} evaluate.py
        --test-data --base-model Accuracy Reward Error Sample export_model.py --merge --format config.py database.py
        prompts.py reward_calculator.py reward-calculator.ts Decision modelVersion FILER_MODEL_VERSION ocd-filer
        hf.textGeneration openai.chat.completions.create A/B""",
    "## ToolBox's RL pipeline": """psutil transformers HardwareConfig detect_hardware get_ryzen_optimized_config
        RYZEN_OPTIMIZED AUTO_DETECT GPU_ENABLED CPU_ONLY cpu_name cpu_cores cpu_threads ram_gb has_avx2
        recommended_batch_size lora_r lora_alpha num_generations use_bf16 ExecutionTrace ToolCallTrace ReasoningStep
        TraceCollector CheckpointLoader hook_into_agent FlowAgent.a_run FlowAgent.arun_function session_data task_state
        trace.tool_calls trace.reasoning_steps trace.tasks_completed BaseReward CodeExecutionReward
        SyntaxValidationReward ToolSuccessReward TaskCompletionReward EfficiencyReward FormatComplianceReward
        LearnedReward RewardEngine KTOExample GRPOExample KTODatasetBuilder GRPODatasetBuilder DatasetPipeline
        TrainingConfig RLTrainer TrainingPipeline run_full_pipeline(deploy_ollama=True) agent_name base_model method
        GRPO KTO GGUFExporter OllamaDeployer OllamaHostingProfile ExportPipeline Q2_K F16 toolbox-isaa
        {data_dir}/rl_traces/ {data_dir}/rl_training/{agent_name}/ {data_dir}/models/
        {data_dir}/Agents/checkpoint/{agent_name}/ get_app().data_dir auto-labeler bench/ online curriculum""",
    "## The agentic RL framework": """requirements.txt demos/math_demo.py core/environment.py core/trainer.py
        examples/custom_domain_template.py domain_guide.md BaseEnvironment get_valid_actions step ActionResult
        BaseAgent select_action run_episode episode['success'] AgenticTrainer setup_model prepare_training_data
        trainer.train trainer.test_inference losses identify_operation subtract_terms divide_terms state_answer
        analyze_requirements write_function add_logic test_code debug brainstorm_ideas create_outline write_paragraph
        edit_content analyze_situation identify_options evaluate_risks make_decision rank alpha dropout target_modules
        batch_size learning_rate epochs max_length Loss Distribution Efficiency Action Structure Completion Domain
        /solve solve_problem Batch Caching Monitoring""",
    "## TAC-RL on a local model": """nvidia-smi setup.sh tac_rl/train.py configs/qwen_2_5_7b_local.yaml
        tac_rl/monitor.py LocalARTTrainer LocalOpenHandsRunner train_iteration execute_task art_trainer.train_step
        art.LocalBackend TrainableModel TrainConfig model.train base_model peft_config admin-make-spreadsheet
        hr-check-attendance 4090 6000 A100 Success Admin HR Overall""",
    "## TAC-RL": """setup.sh train.py configs/qwen_2_5_7b.yaml monitor.py TheAgentCompany OpenHands ART Sampling
        Computation Evaluation Execution Trajectory Multi-Service GitLab Plane RocketChat GRPO Checkpointing Cost""",
}
"""By section, what the systems call their parts, as a person would look for them."""


def table(heading: str) -> list[list[str]]:
    return rows(section(PAGE, heading))[1:]


@pytest.mark.parametrize("heading", SYSTEMS)
def test_every_name_of_theirs_has_a_row_and_every_row_a_page_to_read(heading: str) -> None:
    there = "\n".join(cells[0] for cells in table(heading))
    assert [name for name in SYSTEMS[heading].split() if name not in there] == []
    assert [cells for cells in table(heading) if len(cells) != 3 or not re.search(r"\]\(\S+\)", cells[2])] == []


@pytest.mark.parametrize("heading", SYSTEMS)
def test_every_name_of_ours_is_there(heading: str) -> None:
    faults = [f"{word}: {why}" for cells in table(heading) for word, why in find_faults(cells[1])]
    assert not faults, "\n".join(faults)


def test_it_would_notice() -> None:
    wrong = (
        "`manage.py trian`, `manage.py train --colour`, `make tea`, `python -m training.nothing`, `GET /nowhere`,"
        " `PUT /api/v1/runs`, `RECKONER_NOTHING`, `decisions.models.Nothing`, `examples/nothing.py`, `trace.nothing`,"
        " `lora.nothing`, `nothing`, `decisions.models.Decision`: `nothing`"
    )
    assert [word for word, _ in find_faults(wrong)] == codes(wrong.replace("`decisions.models.Decision`", ""))


def find_faults(cell: str) -> list[tuple[str, str]]:
    """Each name in backticks that leads nowhere, and why. A plain word belongs to the class or the command before it
    in the cell."""
    faults: list[tuple[str, str]] = []
    owner: Any = None
    for word in codes(cell):
        if re.fullmatch(r"\w+", word) and word not in METHODS and owner is not None and not _is_setting(word):
            why = None if _has(owner, word) else f"{owner} has none"
        else:
            why = _find_fault(word)
            if word.startswith("manage.py ") and why is None:
                owner = section(COMMANDS, f"### {word.split()[1]}")
            elif DOTTED.match(word) and why is None:
                owner = _load(word)
        if why is not None:
            faults.append((word, why))
    return faults


def _find_fault(word: str) -> str | None:
    first, _, rest = word.partition(" ")
    if first == "manage.py":
        return _find_command_fault(rest.split())
    if first == "make":
        known = re.findall(r"^([a-z-]+):.*##", (ROOT / "Makefile").read_text(), re.MULTILINE)
        return None if rest in known else "no such target"
    if word.startswith("python -m "):
        return _find_module_fault(word.split()[2])
    if first in {"GET", "POST", "PATCH"} or re.match(r"[A-Z]+ /", word):
        return _find_route_fault(first, rest)
    if DOTTED.match(word):
        return missing_name(word)
    if word.startswith("reckoner_client."):
        return None if hasattr(__import__("reckoner_client"), word.partition(".")[2]) else "no such name"
    known_names = word in METHODS or word in COMPONENTS or _is_setting(word) or _is_field(word)
    is_left = word.endswith("/") and (f"`{word}`" in TRAINED or word in TRAINED)
    if known_names or is_left or (ROOT / word).exists() or _is_hook(word):
        return None
    return "nothing of ours has this name"


def _is_setting(word: str) -> bool:
    return word in documented_settings()


def _is_hook(word: str) -> bool:
    from training.engine.environments.protocol import BaseEnvironment

    return hasattr(BaseEnvironment, word)


def _is_field(word: str) -> bool:
    """Of the engine's spec, such as `lora.r`."""
    model: Any = RunSpec
    for part in word.split("."):
        fields = getattr(model, "model_fields", {})
        if part not in fields:
            return False
        kinds = [fields[part].annotation, *getattr(fields[part].annotation, "__args__", ())]
        model = next((kind for kind in kinds if isinstance(kind, type) and issubclass(kind, pydantic.BaseModel)), None)
    return True


@cache
def _parser(name: str) -> Any:
    return load_command_class(get_commands()[name], name).create_parser("manage.py", name)


def _find_command_fault(words: list[str]) -> str | None:
    name, *arguments = words
    if name not in get_commands():
        return "no such command"
    flags = {flag for action in _parser(name)._actions for flag in action.option_strings}
    unknown = [word for word in arguments if word.startswith("--") and word not in flags]
    return f"it has no {unknown[0]}" if unknown else None


def _find_module_fault(name: str) -> str | None:
    try:
        found = find_spec(name)
    except ModuleNotFoundError:
        found = None
    return None if found is not None else "no such module"


def _find_route_fault(method: str, path: str) -> str | None:
    try:
        view: Any = resolve(path.replace("{slug}", "filer").replace("{id}", "01a1f805-50a4-7d43-a901-42a0ce80c4b0"))
    except Resolver404:
        return "no such path"
    return None if hasattr(view.func.view_class, method.lower()) else f"it takes no {method}"


def _load(word: str) -> Any:
    module, _, name = word.rpartition(".")
    try:
        return getattr(__import__(module, fromlist=[name]), name)
    except (ImportError, AttributeError):
        return None


def _has(owner: Any, word: str) -> bool:
    if isinstance(owner, str):  # what a command prints
        return f"`{word}`" in owner
    fields = getattr(owner, "model_fields", {}) if isinstance(owner, type) else {}
    if isinstance(owner, type) and issubclass(owner, msgspec.Struct):
        fields = owner.__struct_fields__
    return word in fields or hasattr(owner, word)
