"""Writes the rows of a dataset to files, counts what they hold, and stores them: one part, or one to learn from and one
that is held out."""

from __future__ import annotations

import hashlib
import json
import math
import uuid
from array import array
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from decisions.agents.current import find_current_version
from decisions.models import Agent, RewardSpec
from models_registry.models import ArtifactKind
from models_registry.versions.services import store_artifact
from training.engine.rows.folds import count_fewer
from training.engine.rows.types import normalise_prompt
from training.errors import EmptyDataset
from training.models import DatasetItem, DatasetSnapshot
from training.rows.negatives import MARK, Negatives
from training.rows.splitting import Groups, Relations
from workspaces.access.actors import Actor
from workspaces.access.services import record_audit
from workspaces.errors import FieldFault

ROWS_FILE = "rows.jsonl"
SPOOL = "entries.jsonl"
MOST_ACTIONS = 20
HALF = 0.5
BATCH = 5000
SLICES = 50
"""A field with more values than this makes no slices of a suite."""
UNSLICED = frozenset({"prompt", "system", "completion"})
HELD_OUT = " (held out)"
TOGETHER = "one unit, one episode, one task or nearly the same text"


class Entry(msgspec.Struct):
    """A decision's rows. `unit`, `episode`, `text`, its state, and `task` say which decisions belong together
    (`training.rows.splitting`). `judged`: its rows say something of the action, a reward or a label."""

    decision: uuid.UUID
    rows: list[dict[str, Any]]
    reward_version: int | None = None
    unit: str | None = None
    episode: uuid.UUID | None = None
    text: str = ""
    judged: bool = True
    task: str | None = None


@dataclass(slots=True)
class Bounds:
    """The least and the greatest of the values that were added."""

    least: float = math.inf
    most: float = -math.inf

    def add(self, value: float) -> None:
        self.least, self.most = min(self.least, value), max(self.most, value)

    @property
    def known(self) -> bool:
        return self.least <= self.most


class Tally:
    """What the rows hold: by action, by right and wrong, by source and verdict."""

    def __init__(self) -> None:
        self.rows = 0
        self.actions, self.sources, self.verdicts = Counter[str](), Counter[str](), Counter[str]()
        self.rewards = self.sum = self.high = 0.0
        self.right = self.wrong = self.without_options = self.without_reward = 0
        self.without_propensity = self.without_any = self.synthetic = self.unjudged = self.rankings = 0
        self.with_probability = 0
        self.words = Counter[int]()
        self.values: dict[str, set[str]] = {}
        self.declared, self.judged = Bounds(), Bounds()
        self.texts = 0
        self.groups: dict[int, float | None] = {}
        self.earned = array("d")

    def add(self, row: Mapping[str, Any], *, judged: bool = True) -> None:
        self.rows += 1
        self.unjudged += not judged
        self.synthetic += MARK in row
        if isinstance(prompt := row.get("prompt"), str):
            self.words[len(prompt.split()) + len(row.get("system", "").split())] += 1
        self.texts += "completion" in row
        self._add_right(row)
        if "answer" in row:
            self._add_values(row)
        action = row.get("answer", row.get("action"))
        if action is not None:
            self.actions[action] += 1
        if (reward := row.get("reward")) is not None:
            self.rewards += 1
            self.sum += reward
            self.earned.append(reward)
            self.high += reward >= HALF
            self.with_probability += bool(row.get("propensity")) or row.get("log_p") is not None
            right = row.get("right", reward)
            if right >= HALF:
                self.right += 1
            else:
                self.wrong += 1
            asked = (row.get("system"), row.get("messages"), row.get("tools"))
            self._add_to_group(normalise_prompt(str(prompt), *asked), reward)
        self.rankings += judged and bool(row.get("slate"))
        self.without_reward += "completion" in row and "source" not in row and reward is None and "right" not in row
        if judged and "propensity" in row and row["propensity"] is None:
            slate = row.get("slate") or {}
            self.without_propensity += 1
            self.without_any += slate.get("propensity") is None and slate.get("first") is None
        if "source" in row:
            self.sources[row["source"]] += 1
            if (verdict := row.get("verdict")) is not None:
                self.verdicts[verdict] += 1
            self.without_options += "options" not in row and "chosen" not in row

    def _add_values(self, row: Mapping[str, Any]) -> None:
        """Of the fields of labelled rows that could slice a suite. A field that a row lacks has the value "" there."""
        told = {name: row[name] for name in row.keys() - UNSLICED}
        found = {name: str(value) for name, value in told.items() if value and isinstance(value, str | int | float)}
        for name in found.keys() - self.values.keys():
            self.values[name] = {""} if self.rows > 1 else set()
        for name, values in self.values.items():
            if len(values) <= SLICES:
                values.add(found.get(name, ""))

    def _add_right(self, row: Mapping[str, Any]) -> None:
        """How right the row is, as the engine will see it (`training.engine.rows.texts.is_right`, and of logged rows
        `training.engine.rows.types.right_or_wrong`)."""
        right, known = row.get("right"), row.get("reward")
        if right is not None:
            self.declared.add(right)
            known = right
        if known is not None:
            self.judged.add(known)

    def _add_to_group(self, question: str, reward: float) -> None:
        """By a short digest of the question: of millions of rows the prompts themselves would be too much."""
        digest = hashlib.blake2b(question.encode(errors="surrogatepass"), digest_size=8).digest()
        key = int.from_bytes(digest, "big")
        self.groups[key] = None if self.groups.setdefault(key, reward) != reward else reward

    def as_plain(self) -> dict[str, Any]:
        """Only what there is to tell, but for right and wrong: that there is none of one tells much."""
        most = dict(sorted(self.actions.items(), key=lambda pair: (-pair[1], pair[0]))[:MOST_ACTIONS])
        told: dict[str, Any] = {}
        if most:
            told |= {"actions": most, "other_actions": len(self.actions) - len(most)}
        if self.rewards:
            told |= {"mean_reward": self.sum / self.rewards, "confirmed_share": self.high / self.rewards}
            told |= {"right": self.right, "wrong": self.wrong}
        if self.rewards or self.declared.known:
            told["with_probability"] = self.with_probability
            told["groups"] = sum(reward is None for reward in self.groups.values())
        # Of logged rows, where some declare what is right, the others say nothing about it.
        if (right := self.judged if self.texts or not self.declared.known else self.declared).known:
            told |= {"least_right": right.least, "most_right": right.most}
        if self.without_reward:
            told["without_reward"] = self.without_reward
        if self.unjudged:
            told["unjudged"] = self.unjudged
        if self.without_propensity:
            told |= {"without_propensity": self.without_propensity, "without_any_propensity": self.without_any}
            told |= {"rewarded": len(self.earned), "fewer_rewarded": count_fewer(self.earned)}
            told |= {"rankings": self.rankings} if self.rankings else {}
        if self.sources:
            told |= {"sources": dict(self.sources), "suggested": self.sources["suggestion"]}
            told["verdicts"] = dict(self.verdicts)
        if self.without_options:
            told["without_options"] = self.without_options
        if self.values:
            told["values"] = {name: len(values) for name, values in sorted(self.values.items())}
        if self.synthetic:
            told["synthetic"] = self.synthetic
        return told

    def cuts_for(self, agent: Agent) -> dict[str, Any]:
        """How many prompts, with their system prompts, have more words than the agent reads tokens: their middle is cut
        in any case (training.engine.models.prompts). Only the run, with its tokenizer, can count them all."""
        current = find_current_version(agent)
        most = current.max_prompt_tokens if current is not None else None
        cut = sum(rows for words, rows in self.words.items() if most is not None and words > most)
        return {"cut": cut, "prompt_tokens": most} if cut else {}


class Part:
    """One dataset in the making: its file in a folder of its own, and the decisions behind its rows. `negatives`: each
    right row is followed by a wrong one that is made up, where there is one. `is_measured`: it is held out, and
    decisions that nobody judged are `set_aside`. `apart`: so many decisions stand in no part."""

    def __init__(self, folder: Path, *, negatives: bool = False, is_measured: bool = False) -> None:
        folder.mkdir()
        self._is_measured = is_measured
        self.judged = self.set_aside = self.apart = 0
        self._negatives = Negatives() if negatives else None
        self.folder = folder
        self.tally = Tally()
        self.items: list[tuple[uuid.UUID, int | None]] = []
        self._file = (folder / ROWS_FILE).open("w", encoding="utf-8")

    def add(self, entry: Entry) -> None:
        if self._is_measured and not entry.judged:
            self.set_aside += 1
            return
        self.judged += entry.judged
        for row in entry.rows:
            self.write(row, judged=entry.judged)
            if self._negatives is not None and (negative := self._negatives.make(row)) is not None:
                self.write(negative)
        self.items.append((entry.decision, entry.reward_version))

    def write(self, row: Mapping[str, Any], *, judged: bool = True) -> None:
        self._file.write(json.dumps(row, ensure_ascii=False) + "\n")
        self.tally.add(row, judged=judged)

    def close(self) -> None:
        self._file.close()


def write_parts(
    entries: Iterable[Entry],
    folder: Path,
    *,
    held_out: float | None,
    negatives: bool = False,
    apart: Sequence[Entry] = (),
) -> list[Part]:
    """One part, or two: what to learn from, and a share of about `held_out` of the rows. Decisions that belong together
    (`training.rows.splitting`) stand in one part; what is held out has none that nobody judged. Those that belong
    together with decisions of `apart`, whose rows do not matter, stand in no part. Raises EmptyDataset where there is
    nothing, nothing to part, or where most of the decisions belong together and would be held out."""
    names = ("all",) if held_out is None else ("kept", "held")
    whole, groups = list[bool](), Groups(0, 0, False)
    parts = [Part(folder / name, negatives=negatives, is_measured=name == "held") for name in names]
    if held_out is None and not apart:
        for entry in entries:
            parts[0].add(entry)
    else:
        relations = Relations()
        for entry in apart:
            _relate(relations, entry)
        with (folder / SPOOL).open("wb") as spool:
            for entry in entries:
                _relate(relations, entry)
                spool.write(msgspec.json.encode(entry) + b"\n")
        whole = relations.hold_out(held_out or 0.0)
        groups = relations.count_groups(whole)
        sides = whole[len(apart) :]
        outside = relations.stand_with([entry.decision for entry in apart])[len(apart) :]
        for entry, held, stays_out in zip(_read(folder / SPOOL), sides, outside, strict=True):
            if stays_out:
                parts[0].apart += 1
            else:
                parts[held].add(entry)
    for part in parts:
        part.close()
    if not any(part.judged for part in parts):
        raise EmptyDataset("There are no rows to train on yet.")
    if not all(part.judged for part in parts):
        raise EmptyDataset("No rows can be held out.", faults=[_find_no_parts(groups)])
    _refuse_most(groups, whole, held_out or 0.0)
    return parts


def _relate(relations: Relations, entry: Entry) -> None:
    relations.add(entry.decision, unit=entry.unit, episode=entry.episode, text=entry.text, task=entry.task)


def _refuse_most(groups: Groups, sides: Sequence[bool], share: float) -> None:
    """Raises EmptyDataset where one group is more than half of all decisions and would be held out."""
    if not groups.largest_is_held_out or 2 * groups.largest <= len(sides):
        return
    held = sum(sides) / len(sides)
    reason = (
        f"{groups.largest} of {len(sides)} decisions belong together ({TOGETHER}), "
        f"so {held:.0%} would be held out instead of {share:.0%}"
    )
    raise EmptyDataset("No rows can be held out.", faults=[FieldFault("held_out", reason, "decisions that differ")])


def _find_no_parts(groups: Groups) -> FieldFault:
    """Why one of the two parts is empty."""
    if groups.number < 2:
        return FieldFault("held_out", f"all rows belong together ({TOGETHER})", "more rows, or none")
    reason = (
        f"the decisions are of {groups.number} groups that belong together ({TOGETHER}), all of which are in one part"
    )
    return FieldFault("held_out", reason, "more rows, or another share")


def _read(spool: Path) -> Iterator[Entry]:
    decoder = msgspec.json.Decoder(Entry)
    with spool.open("rb") as lines:
        for line in lines:
            yield decoder.decode(line)


def save_parts(
    parts: list[Part],
    *,
    by: Actor,
    agent: Agent,
    name: str,
    kind: str,
    query: Mapping[str, Any],
    left_out: Mapping[str, int],
    reward_spec: RewardSpec | None = None,
) -> list[DatasetSnapshot]:
    """The dataset, and the one that is held out where there is one. The manifest of the files says what was asked, by
    which rewards, and what was found; the same rows for the same question have the same digest."""
    made: list[DatasetSnapshot] = []
    for number, part in enumerate(parts):
        counts = part.tally.as_plain() | ({"left_out": dict(left_out)} if left_out else {})
        meta = {
            "kind": kind,
            "agent": agent.slug,
            "query": dict(query),
            "part": ("train", "held_out")[number] if len(parts) > 1 else "all",
            "rows": part.tally.rows,
            "decisions": len(part.items),
            "counts": counts,
            **({"reward_spec_hash": reward_spec.spec_hash} if reward_spec is not None else {}),
        }
        artifact = store_artifact(workspace=by.workspace, folder=part.folder, kind=ArtifactKind.DATASET, meta=meta)
        dataset = DatasetSnapshot.objects.create(
            workspace=by.workspace,
            agent=agent,
            name=name if number == 0 else name[: 200 - len(HELD_OUT)] + HELD_OUT,
            kind=kind,
            reward_spec=reward_spec,
            artifact=artifact,
            rows=part.tally.rows,
            query=dict(query),
            statistics=counts | part.tally.cuts_for(agent) | ({"held_out_of": str(made[0].id)} if made else {}),
        )
        items = [DatasetItem(dataset=dataset, decision_id=pk, reward_version=version) for pk, version in part.items]
        DatasetItem.objects.bulk_create(items, batch_size=BATCH)
        record_audit(by=by, action="dataset.created", target=f"dataset:{dataset.id}", details={"rows": dataset.rows})
        made.append(dataset)
    if len(made) > 1:
        made[0].statistics["held_out"] = str(made[1].id)
        made[0].save(update_fields=["statistics"])
    return made
