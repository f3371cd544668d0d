"""Files of texts: what `export_training_data` writes, as chats or as prompts with completions, as rows of texts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from decisions.rewards.components import VERDICT_VALUES
from decisions.rewards.valuing import normalise

LOW, HIGH = -2.0, 2.0
"""Raw rewards that count as 0 and 1, as in the notes app: an exported line does not say by which spec it was valued."""
RIGHT = {verdict.upper(): float(value > 0) for verdict, value in VERDICT_VALUES.items() if value}


class Message(msgspec.Struct):
    role: str
    content: str


class About(msgspec.Struct):
    """`metadata`, as far as it is read. systemPrompt: whether a chat's system message is what the model was asked
    under; our exports say a word of their own where there was no system prompt."""

    decisionId: str | None = None  # noqa: N815 - the app's own names
    userFeedback: str | None = None  # noqa: N815
    systemPrompt: bool = True  # noqa: N815


class ExportedLine(msgspec.Struct):
    """A chat, or a prompt with its completion, and `system` where it was decided under a system prompt, which of a chat
    is its system message. `reward` is raw."""

    messages: list[Message] = []
    system: str | None = None
    prompt: str | None = None
    completion: str | None = None
    reward: float | None = None
    metadata: About = msgspec.field(default_factory=About)

    def as_row(self, number: int) -> dict[str, Any]:
        """The row of a text (training.engine.rows.types). Of a chat, the prompt is the last message of the user's.
        Raises ValueError."""
        said = {message.role: message.content for message in self.messages}
        prompt = self.prompt if self.prompt is not None else said.get("user")
        completion = self.completion if self.completion is not None else said.get("assistant")
        if prompt is None or not completion:
            raise ValueError("has neither a prompt with a completion nor messages of user and assistant")
        row: dict[str, Any] = {"id": self.metadata.decisionId or str(number), "prompt": prompt}
        told = said.get("system") if self.metadata.systemPrompt else None
        row |= {"system": system} if (system := self.system or told) else {}
        row |= {"completion": completion}
        if self.reward is not None:
            row |= {"reward": normalise(self.reward, low=LOW, high=HIGH), "raw": self.reward}
        if (right := RIGHT.get(self.metadata.userFeedback or "")) is not None:
            row["right"] = right
        return row


def find_exported_kind(lines: Sequence[Mapping[str, Any]]) -> str:
    """The kind of the agent that all lines of an export name in their metadata; "" where they do not."""
    about = [line.get("metadata") for line in lines]
    kinds = {one.get("agentType") if isinstance(one, Mapping) else None for one in about}
    kind = kinds.pop() if len(kinds) == 1 else None
    return kind if isinstance(kind, str) else ""


def read_texts(path: Path) -> tuple[list[dict[str, Any]], list[str]]:
    """Every row of the file, and every fault as `file:line: reason`."""
    try:
        lines = path.read_bytes().splitlines()
    except OSError as error:
        return [], [f"{path}: {error.strerror}"]
    rows: dict[str, dict[str, Any]] = {}
    faults: list[str] = []
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            row = msgspec.json.decode(line, type=ExportedLine).as_row(number)
        except (ValueError, RecursionError) as error:  # msgspec's own are ValueErrors, too
            faults.append(f"{path}:{number}: {error}")
            continue
        if row["id"] in rows:
            faults.append(f"{path}:{number}: id {row['id']!r} appears twice")
        rows[row["id"]] = row
    if not rows and not faults:
        faults.append(f"{path}: no rows")
    return list(rows.values()), faults
