"""Freezes rows of the ledger as datasets. A dataset never changes; its rows name their decision and reward version."""

from __future__ import annotations

import datetime as dt
import json
import tempfile
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from django.db import connection, transaction
from django.utils import timezone

from decisions.agents.prompts import PromptError, render_prompt
from decisions.erasure.erasing import hold_off_erasures
from decisions.gateway.exploration import model_probabilities
from decisions.models import Agent, AgentVersion, RewardSpec
from decisions.models.tombstones import NOT_ERASED
from decisions.rewards.components import COMPONENTS, VERDICT_VALUES
from decisions.rewards.specs import current_reward_spec
from decisions.rewards.valuing import normalise, total
from models_registry.models import Artifact, ArtifactKind
from models_registry.services import store_artifact
from training.errors import EmptyDataset
from training.models import DatasetItem, DatasetKind, DatasetSnapshot
from training.run_states import RunState
from workspaces.actors import Actor
from workspaces.errors import FieldFault
from workspaces.ids import uuid7_time
from workspaces.services import record_audit

ROWS_FILE = "rows.jsonl"
FETCH = 2000
PROBABILITY_DIGITS = 7
REBUILT = " (rebuilt)"

LEARNT_FROM = f"""EXISTS (
    SELECT 1 FROM training_datasetitem i WHERE i.decision_id = d.id AND i.dataset_id IN (
      SELECT unnest(ARRAY[t.dataset_id, t.replay_id]) FROM training_trainingrun t
       WHERE t.state NOT IN ('{RunState.FAILED}', '{RunState.CANCELLED}') AND t.created_at < %(unused_at)s))"""  # noqa: S608 - our own names
"""SQL: a run that was there before `unused_at`, and neither failed nor was cancelled, learns from the decision `d`."""

# The newest version of the spec's reward, for decisions whose policy is known. Decisions without a value stay out:
# nothing is known of them, or a component failed.
LOGGED_ROWS = f"""
SELECT d.id, d.agent_version_id, d.state, d.options, d.action, d.propensity, d.unit,
       d.alternatives, d.temperature, d.epsilon, r.raw, (r.components -> %(signal)s ->> 'value')::float8, r.version
  FROM decisions_decision d
  JOIN LATERAL (
    SELECT value, raw, components, version FROM decisions_reward
     WHERE decision_id = d.id AND spec_id = %(spec)s ORDER BY version DESC LIMIT 1
  ) r ON true
 WHERE d.agent_id = %(agent)s AND (%(version)s::uuid IS NULL OR d.agent_version_id = %(version)s)
   AND r.value IS NOT NULL AND d.propensity IS NOT NULL AND d.options IS NOT NULL
   AND d.{NOT_ERASED} AND (%(unused_at)s::timestamptz IS NULL OR NOT {LEARNT_FROM})
 ORDER BY d.id
"""  # noqa: S608 - a constant of ours


def reward_if(spec: RewardSpec, verdict: str) -> float:
    """What the spec gives, in [0, 1], to a decision of which only this verdict is known."""
    weights = {component["name"]: component["weight"] for component in spec.components}
    raw = total({"verdict": VERDICT_VALUES[verdict]}, {"verdict": weights.get("verdict", 0.0)}, clamp=spec.clamp)
    return normalise(raw, low=spec.low, high=spec.high)


def training_scale(spec: RewardSpec, raw: float) -> float:
    """A raw reward on the scale that training reads, [0, 1]."""
    return normalise(raw, low=spec.training_low, high=spec.training_high)


def right_of(spec: RewardSpec, signal: float | None) -> float | None:
    """What the value of the spec's signal says: 1 right, 0 wrong, between them in proportion; None where it is not
    known, or the spec has no signal."""
    if signal is None:
        return None
    told = next(component for component in spec.components if component["name"] == spec.signal)
    ends = COMPONENTS[spec.signal].right_and_wrong(told.get("parameters", {}))
    assert ends is not None, "a spec's signal says right and wrong"
    right, wrong = ends
    return normalise(signal, low=wrong, high=right)


def snapshot_ledger(
    *,
    by: Actor,
    agent: Agent,
    name: str,
    agent_version: AgentVersion | None = None,
    reward_spec: RewardSpec | None = None,
    unused_at: dt.datetime | None = None,
    note_progress: Callable[[float, str], None] = lambda fraction, message: None,
    on_made: Callable[[DatasetSnapshot], None] = lambda dataset: None,
) -> DatasetSnapshot:
    """Every rewarded decision of the agent, or of one version of it, with a logged propensity, by the current reward
    spec or by another. Raises EmptyDataset.

    `unused_at`: only decisions that no run had learnt from at that moment. A moment, not "now": asked again after the
    run that the dataset was made for, the question still finds its rows.
    A decision whose state lacks a field that its prompt names is left out, and counted as `without_prompt`.
    `note_progress` hears how far it is; `on_made` is called in the transaction that makes the dataset, and may undo it.
    """
    spec = reward_spec or current_reward_spec(agent)
    items: list[tuple[Any, int]] = []
    rewards: list[float] = []
    without_prompt = 0

    def rows() -> Iterator[dict[str, Any]]:
        nonlocal without_prompt
        for row, version in _read_logged(agent, spec, agent_version, unused_at):
            if row is None:
                without_prompt += 1
                continue
            items.append((row["id"], version))
            rewards.append(row["reward"])
            if len(items) % FETCH == 0:
                note_progress(share_of_time(items[0][0], items[-1][0]), f"{len(items):,} rows")
            yield row

    with transaction.atomic():
        # What is read here and written below must see the same erasures.
        hold_off_erasures(by.workspace)
        artifact = store_rows(by, rows(), meta={"kind": DatasetKind.LOGGED, "agent": agent.slug})
        if artifact is None:
            raise EmptyDataset(
                "There are no rows to train on yet.",
                faults=[FieldFault("agent", "no decision has a propensity and a reward", "feedback, then rewards")],
            )
        dataset = DatasetSnapshot.objects.create(
            workspace=by.workspace,
            agent=agent,
            name=name,
            kind=DatasetKind.LOGGED,
            reward_spec=spec,
            artifact=artifact,
            rows=len(items),
            query={
                "agent": agent.slug,
                "reward_spec": spec.number,
                **({"agent_version": agent_version.number} if agent_version is not None else {}),
                **({"unused_at": unused_at.isoformat()} if unused_at is not None else {}),
            },
            statistics={
                "mean_reward": sum(rewards) / len(rewards),
                "confirmed_share": _share(rewards),
                **({"without_prompt": without_prompt} if without_prompt else {}),
            },
        )
        DatasetItem.objects.bulk_create(
            [DatasetItem(dataset=dataset, decision_id=row, reward_version=version) for row, version in items],
            batch_size=5000,
        )
        record_audit(by=by, action="dataset.created", target=f"dataset:{dataset.id}", details={"rows": len(items)})
        on_made(dataset)
    return dataset


def share_of_time(first: str, now_at: str) -> float:
    """How far the second decision lies between the first and this moment: they are read in the order of time."""
    begin, here = (uuid7_time(uuid.UUID(row)) for row in (first, now_at))
    if begin is None or here is None:
        return 0.0
    return (here - begin) / max(timezone.now() - begin, dt.timedelta(seconds=1))


def _share(rewards: list[float]) -> float:
    return sum(reward >= 0.5 for reward in rewards) / len(rewards)


def _read_logged(
    agent: Agent, spec: RewardSpec, agent_version: AgentVersion | None, unused_at: dt.datetime | None
) -> Iterator[tuple[dict[str, Any] | None, int]]:
    """Each row with the version of its reward; None for a row without a prompt. Streams, so that memory does not grow
    with the ledger."""
    templates: Mapping[Any, str] = dict(AgentVersion.objects.filter(agent=agent).values_list("id", "prompt_template"))
    with connection.chunked_cursor() as cursor:
        only = agent_version.id if agent_version is not None else None
        asked = {"agent": agent.id, "spec": spec.id, "version": only, "unused_at": unused_at, "signal": spec.signal}
        cursor.execute(LOGGED_ROWS, asked)
        while chunk := cursor.fetchmany(FETCH):
            for decision, version_id, state, options, action, propensity, unit, *acting, raw, signal, version in chunk:
                state, options, action = (loaded(field) for field in (state, options, action))
                try:
                    prompt = render_prompt(templates[version_id], state, options)
                except PromptError:
                    yield None, version
                    continue
                thought = _thought(options, *acting)
                yield (
                    {
                        "id": str(decision),
                        "prompt": prompt,
                        "options": options,
                        "action": action,
                        "propensity": propensity,
                        "reward": training_scale(spec, raw),
                        "raw": raw,
                        **({"right": right} if (right := right_of(spec, signal)) is not None else {}),
                        **({"group": unit} if unit else {}),
                        **({"probabilities": thought} if thought else {}),
                    },
                    version,
                )


def _thought(
    options: list[str], alternatives: Any, temperature: float | None, epsilon: float | None
) -> list[float] | None:
    """What the model that decided thought of each option, where the whole acting policy was logged."""
    if temperature is None or epsilon is None or not alternatives:
        return None
    logged = ((entry["action"], entry.get("probability")) for entry in loaded(alternatives))
    acting = {action: float(probability) for action, probability in logged if probability is not None}
    if not acting.keys() >= set(options):
        return None
    policy = [acting[option] for option in options]
    found = model_probabilities(policy, temperature=temperature, epsilon=epsilon)
    return [round(p, PROBABILITY_DIGITS) for p in found] if found else None


def loaded(field: Any) -> Any:
    """Django's raw cursors leave jsonb as text."""
    return json.loads(field) if isinstance(field, str) else field


def import_labelled(
    *,
    by: Actor,
    agent: Agent,
    name: str,
    rows: Iterable[Mapping[str, Any]],
    on_made: Callable[[DatasetSnapshot], None] = lambda dataset: None,
) -> DatasetSnapshot:
    """Inputs with the right answer: {id, prompt, options, answer, group?} each. Raises EmptyDataset.

    `on_made` is called in the transaction that makes the dataset, and may undo it.
    """
    count = 0

    def counted() -> Iterator[Mapping[str, Any]]:
        nonlocal count
        for row in rows:
            count += 1
            yield row

    artifact = store_rows(by, counted(), meta={"kind": DatasetKind.LABELLED, "agent": agent.slug})
    if artifact is None:
        raise EmptyDataset("The labelled file has no rows.", faults=[FieldFault("rows", "none", "at least one row")])
    with transaction.atomic():
        dataset = DatasetSnapshot.objects.create(
            workspace=by.workspace, agent=agent, name=name, kind=DatasetKind.LABELLED, artifact=artifact, rows=count
        )
        record_audit(by=by, action="dataset.imported", target=f"dataset:{dataset.id}", details={"rows": count})
        on_made(dataset)
    return dataset


def store_rows(by: Actor, rows: Iterable[Mapping[str, Any]], *, meta: Mapping[str, Any]) -> Artifact | None:
    """Writes the rows to a temporary folder and puts it into the store; None when there are none."""
    with tempfile.TemporaryDirectory(prefix="reckoner-dataset-") as folder:
        path = Path(folder) / ROWS_FILE
        with path.open("w", encoding="utf-8") as handle:
            for row in rows:
                handle.write(json.dumps(row, ensure_ascii=False) + "\n")
        if path.stat().st_size == 0:
            return None
        return store_artifact(workspace=by.workspace, folder=Path(folder), kind=ArtifactKind.DATASET, meta=meta)
