"""`make accept PART=serving`: registry, backends, gateway and experiments; kills, simulations and the cost of it. Long.

    python -m benchmarks.accept.serving [--only NAME …] [--quick]

The real rehearsal needs CLINC150's files beside the project (`benchmarks.rehearsed_experiments --data`).
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence

from benchmarks.accept.parts import run_parts
from benchmarks.accept.shown import program, shown_rows
from tools.report import Report

ENGINE = "tests/training/engine"
SHOWN: Mapping[str, Sequence[str]] = {
    "a version is an artifact or a remote name; free aliases with their history": [
        "tests/models_registry/test_versions.py",
        "tests/models_registry/test_aliases.py",
    ],
    "artifacts on the disk and at a server that speaks S3; a card; collection, quota, retirement": [
        "tests/models_registry/store",
        "tests/project/test_collecting.py",
        "tests/training/test_model_card.py",
    ],
    "backends: what they are asked, time-outs, retries, breakers, checks, addresses, keys": [
        "tests/models_registry/backends"
    ],
    "a second real model server, llama.cpp's: picks, exact propensities, killed and stopped": [
        "tests/decisions/gateway/test_llama_server.py"
    ],
    "a third, vLLM: picks, adapters over its API, long prompts, chats, killed and stopped": [
        "tests/project/gateway/test_vllm.py",
        "tests/models_registry/backends/test_vllm_adapters.py",
    ],
    "keys: requests a minute, spend a day, agents; greedy answers given again, marked": [
        "tests/decisions/gateway/test_key_limits.py",
        "tests/project/gateway/test_limits_of_keys.py",
        "tests/decisions/chats",
        "tests/project/gateway/test_cached_chats.py",
    ],
    "a system prompt, the same in serving, training and exports": ["tests/training/test_system_prompts.py"],
    "calls: opened, closed with their decision, abandoned; who answers where one cannot": [
        "tests/decisions/gateway/test_calls.py",
        "tests/decisions/gateway/test_gateway.py",
    ],
    "decide by every kind of action; the notes app's paths and its A/B test of any number of versions": [
        "tests/decisions/gateway/test_ways.py",
        "tests/decisions/gateway/test_exploration.py",
        "tests/decisions/notes_app",
        "tests/models_registry/statistics/test_best_of.py",
    ],
    "the model server: many at once, streams, tools, schemas": [
        f"{ENGINE}/test_chat_server.py",
        f"{ENGINE}/test_conversations.py",
        f"{ENGINE}/test_tools.py",
        f"{ENGINE}/test_server.py",
    ],
    "assignment by golden vectors": ["tests/models_registry/test_routing.py"],
    "experiments: phases, ramp, windows, guardrails, running state, the log of looks": [
        "tests/models_registry/test_experiments.py",
        "tests/models_registry/test_experiment_guardrails.py",
        "tests/models_registry/test_phases.py",
        "tests/models_registry/statistics",
        "tests/decisions/rewards/test_guardrail_measures.py",
    ],
    "experiments on versions of an agent": ["tests/decisions/gateway/test_agent_experiments.py"],
    "holdouts: who keeps a version, and what the others' is worth": [
        "tests/decisions/gateway/test_holdouts.py",
        "tests/models_registry/statistics/test_holdout_intervals.py",
    ],
    "several versions at the same time, each with a lane": [
        "tests/models_registry/test_experiment_groups.py",
        "tests/browser/test_groups_in_browser.py",
    ],
    "experiments: the time to a verdict, and what decides nothing": [
        "tests/decisions/rewards/test_recent_traffic.py",
        "tests/decisions/rewards/test_exploring.py",
    ],
    "the gateway: OpenAI's clients in Python and Node, streams, who leaves, kills, the next server": [
        "tests/project/gateway/test_chats.py",
        "tests/project/gateway/test_responses.py",
        "tests/models_registry/test_routes.py",
    ],
    "a killed promotion has happened whole, or not at all": ["tests/models_registry/test_promotion_kills.py"],
    "a shadow answers off the request path, and opens a canary on evidence": ["tests/training/shadows"],
    "another version is asked about a recorded decision or episode, and nothing is recorded": [
        "tests/decisions/gateway/test_playground.py"
    ],
    "lineage in both directions": ["tests/training/test_version_lineage.py"],
    "pages of models, versions, backends, calls, experiments, shadows, and the playground": [
        "tests/project/registry",
        "tests/browser/test_registry_in_browser.py",
        "tests/browser/test_shadows_in_browser.py",
        "tests/browser/test_playground_in_browser.py",
    ],
}


def shown(report: Report, quick: bool) -> None:
    shown_rows(report, SHOWN)


PARTS: dict[str, Callable[[Report, bool], None]] = {
    "shown": shown,
    "simulations": program("benchmarks.statistics"),
    "ramped experiments": program("benchmarks.ramped_experiments"),
    "real rehearsal": program("benchmarks.rehearsed_experiments"),
    "looks": program("benchmarks.experiment_looks"),
    "artifacts": program("benchmarks.artifacts"),
    "promotion kills": program("benchmarks.promotion_kills"),
    "fallback": program("benchmarks.fallback"),
    "model server": program("benchmarks.serving_engine"),
    "gateway": program("benchmarks.serving"),
    "shadows": program("benchmarks.shadow"),
}

if __name__ == "__main__":
    sys.exit(run_parts("serving", PARTS, description=__doc__, quick="smaller worlds and fewer kills"))
