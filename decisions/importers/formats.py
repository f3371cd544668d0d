"""The table of import formats, each with the module that reads it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from decisions.importers import (
    chats,
    csv_table,
    dsjson,
    harbor,
    jsonl,
    langfuse,
    mlflow,
    open_bandit,
    swe_agent,
    tau_bench,
    tensorzero,
    toolbox,
    vw_text,
)
from decisions.importers.reading import JSON_ENDINGS
from decisions.importers.records import Found, Reading
from decisions.rewards.components.defaults import TRACES, Preset

__all__ = ["FORMATS", "Format"]


@dataclass(frozen=True, slots=True)
class Format:
    """`fitted`: actions are other systems' outputs, and are put into the agent's action space (text, tool calls);
    otherwise they are taken as they stand. `preset`: the rewards that a new agent begins with, where not its verdict
    alone."""

    name: str
    summary: str
    read: Callable[[Sequence[Path], Reading], Iterator[Found]]
    endings: tuple[str, ...] = JSON_ENDINGS
    fitted: bool = False
    preset: Preset | None = None


FORMATS = {
    row.name: row
    for row in (
        Format("jsonl", "Reckoner's own fields, one JSON object per line", jsonl.read),
        Format("csv", "Reckoner's own fields, one column each", csv_table.read, endings=(".csv", ".tsv")),
        Format("chats", "Chats of export_training_data, one decision per line", chats.read),
        Format(
            "toolbox",
            "ToolBox traces, and checkpoints as JSON",
            toolbox.read,
            (".json", ".jsonl", ".pkl", ".pickle"),
            fitted=True,
            preset=TRACES,
        ),
        Format(
            "dsjson",
            "Vowpal Wabbit DSJSON, as Azure Personalizer logs it",
            dsjson.read,
            (*JSON_ENDINGS, ".dsjson", ".log"),
        ),
        Format("vw", "Vowpal Wabbit's text of contextual bandits", vw_text.read, (".vw", ".txt", ".dat")),
        Format("open-bandit", "Open Bandit Dataset", open_bandit.read, (".csv",)),
        Format("mlflow", "MLflow 3 traces", mlflow.read, fitted=True),
        Format(
            "harbor", "Trajectories of Harbor (ATIF), by themselves or in folders of trials", harbor.read, fitted=True
        ),
        Format("tau-bench", "Results of tau-bench and tau2-bench", tau_bench.read),
        Format("swe-agent", "Trajectories of SWE-agent", swe_agent.read, (".traj", ".json")),
        Format("tensorzero", "TensorZero's tables as JSON lines", tensorzero.read, fitted=True),
        Format("langfuse", "Langfuse's blob storage export", langfuse.read, fitted=True),
    )
}
