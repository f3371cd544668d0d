"""Which decisions a dataset is made of, and reading them with their rewards: one statement for every shape of rows."""

from __future__ import annotations

import datetime as dt
import json
import math
import uuid
from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

from django.db import connection

from decisions.models import Agent, AgentVersion, RewardSpec
from decisions.models.finish_reasons import COMPLETE
from decisions.models.tombstones import NOT_ERASED
from decisions.models.verdicts import THAT_COUNTS
from models_registry.models import ModelVersion
from training.rows.reward_scale import right_of, training_scale
from training.rows.splitting import task_of
from training.run_states import RunState
from workspaces.errors import FieldFault

FETCH = 2000
LONGEST = 200


def learnt_from(judged: str = "true") -> str:
    """SQL: a run that was there before `unused_at`, and neither failed nor was cancelled, learns from the decision `d`
    or is measured on it. `judged`, SQL: whether it is judged now; then a run that took it while nobody had judged it
    does not count, as it has not learnt from what was said."""
    return f"""EXISTS (
    SELECT 1 FROM training_datasetitem i JOIN training_datasetsnapshot made ON made.id = i.dataset_id
     WHERE i.decision_id = d.id AND NOT ({judged} AND i.reward_version IS NULL AND made.reward_spec_id IS NOT NULL)
       AND i.dataset_id IN (
      SELECT unnest(ARRAY[t.dataset_id, t.replay_id, t.heldout_id]) FROM training_trainingrun t
       WHERE t.state NOT IN ('{RunState.FAILED}', '{RunState.CANCELLED}') AND t.created_at < %(unused_at)s))"""  # noqa: S608 - our own names


MATCHES = """(%(since)s::timestamptz IS NULL OR d.recorded_at >= %(since)s::timestamptz)
   AND (%(until)s::timestamptz IS NULL OR d.recorded_at < %(until)s::timestamptz)
   AND (%(policy)s::text IS NULL OR d.policy_name = %(policy)s::text OR d.model_version_id = %(model_version)s::uuid)
   AND (%(unit)s::text IS NULL OR d.unit = %(unit)s::text)"""
"""SQL: what `Filters` asks of the decision `d`, but for its reward and its propensity."""

LEARNABLE = f"(%(incomplete)s OR {COMPLETE.format(column='d.finish_reason')})"
"""SQL: the answer of the decision `d` is complete, or such are asked for that are not."""

ENDS = """CASE WHEN d.episode_id IS NOT NULL THEN NOT EXISTS (
         SELECT 1 FROM decisions_decision n WHERE n.episode_id = d.episode_id
            AND (coalesce(n.step_number, 0), n.id) > (coalesce(d.step_number, 0), d.id)) END"""
"""SQL: whether the decision `d` is the last of its episode; NULL without one."""

UNTOLD = "r.value IS NULL AND coalesce(r.components, '{}') = '{}'"
"""SQL of the newest reward `r`, NULL where there is none: nothing is known, and no component failed."""

# By the newest version of the spec's reward, for decisions whose policy is known. Decisions that a component failed for
# stay out, and those with a verdict whose reward is not calculated yet.
_DECISIONS = f"""
SELECT d.id, d.agent_version_id, d.state, d.options, d.action, d.propensity, d.unit, d.episode_id, d.alternatives,
       d.temperature, d.epsilon, d.completion, d.logprobs, d.next_state, {ENDS}, r.raw,
       (r.components -> %(signal)s ->> 'value')::float8, r.version
  FROM decisions_decision d
  LEFT JOIN LATERAL (
    SELECT value, raw, components, version FROM decisions_reward
     WHERE decision_id = d.id AND spec_id = %(spec)s ORDER BY version DESC LIMIT 1
  ) r ON true
 WHERE d.agent_id = %(agent)s AND d.agent_version_id = ANY(%(versions)s)
   AND {{which}} AND (NOT %(with_propensity)s OR d.propensity IS NOT NULL)
   AND {MATCHES} AND {LEARNABLE}
   AND d.{NOT_ERASED} AND (%(unused_at)s::timestamptz IS NULL OR NOT {learnt_from("r.value IS NOT NULL")})
 ORDER BY d.id {{order}}
"""  # noqa: S608 - constants of ours
_REWARDED = _DECISIONS.format(
    which="r.value IS NOT NULL AND (%(min_reward)s::float8 IS NULL OR r.raw >= %(min_reward)s::float8)", order=""
)
_UNJUDGED = _DECISIONS.format(which=f"{UNTOLD} AND {THAT_COUNTS} IS NULL", order="DESC LIMIT %(most)s")


@dataclass(frozen=True, slots=True, kw_only=True)
class Filters:
    """Which decisions are asked for, of those that can make a row.

    `since` ≤ recorded_at < `until`, by the server's clock. `policy`: a version of the agent's own model (filer:7) or
    the name of an outside model. `min_reward`: the raw reward at least. `with_propensity`: only decisions that have
    one. `unjudged`: beside those with a reward, the newest that nobody judged, at most as many. `incomplete`: also
    answers that were cut, filtered or left (`decisions.models.finish_reasons`).
    """

    since: dt.datetime | None = None
    until: dt.datetime | None = None
    policy: str | None = None
    unit: str | None = None
    min_reward: float | None = None
    with_propensity: bool = False
    unjudged: bool = False
    incomplete: bool = False

    def find_faults(self) -> list[FieldFault]:
        faults = []
        if self.since is not None and self.until is not None and self.since >= self.until:
            faults.append(FieldFault("until", "is not after since", "a later moment"))
        if self.min_reward is not None and not math.isfinite(self.min_reward):
            faults.append(FieldFault("min_reward", f"{self.min_reward} is not a number", "a raw reward, such as -2"))
        if self.min_reward is not None and self.unjudged:
            faults.append(
                FieldFault("unjudged", "is given with min_reward, but these decisions have no reward", "one of the two")
            )
        for name in ("policy", "unit"):
            value = getattr(self, name)
            if value is not None and (not 1 <= len(value) <= LONGEST or "\x00" in value):
                faults.append(FieldFault(name, f"has {len(value)} characters", f"1 to {LONGEST}, and no NUL"))
        return faults

    def as_plain(self) -> dict[str, Any]:
        """What is asked, and nothing else, as JSON."""
        asked = {field.name: getattr(self, field.name) for field in fields(self)}
        plain = {name: value for name, value in asked.items() if value is not None and value is not False}
        return {name: value.isoformat() if isinstance(value, dt.datetime) else value for name, value in plain.items()}

    @classmethod
    def from_plain(cls, plain: Mapping[str, Any]) -> Filters:
        """Other entries are left out."""
        told = {field.name: plain[field.name] for field in fields(cls) if field.name in plain}
        moments = {name: dt.datetime.fromisoformat(told[name]) for name in ("since", "until") if told.get(name)}
        return cls(**{**told, **moments})

    def parameters(self, agent: Agent) -> dict[str, Any]:
        """Of MATCHES, and of what the statements ask of the reward and the propensity."""
        own = _find_model_version(agent, self.policy) if self.policy is not None else None
        return {field.name: getattr(self, field.name) for field in fields(self)} | {"model_version": own}


ALL = Filters()


def _find_model_version(agent: Agent, policy: str) -> uuid.UUID | None:
    """The version of the agent's own model that is called so, such as filer:7."""
    name, _, number = policy.rpartition(":")
    if agent.registered_model is None or name != agent.registered_model.name or not _is_number(number):
        return None
    found = ModelVersion.objects.filter(registered_model=agent.registered_model, number=int(number))
    return found.values_list("id", flat=True).first()


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdecimal() and len(text) <= 9


@dataclass(frozen=True, slots=True)
class Rewarded:
    """A decision with its reward by one spec. `reward` in [0, 1] is on training's scale; `right` as of logged rows. All
    of them, and `reward_version`, are None where nobody judged it."""

    id: uuid.UUID
    version: AgentVersion
    state: Mapping[str, Any]
    options: Sequence[str] | None
    action: Any
    propensity: float | None
    unit: str | None
    episode: uuid.UUID | None
    alternatives: Any
    temperature: float | None
    epsilon: float | None
    completion: str | None
    logprobs: Any
    reward: float | None
    raw: float | None
    right: float | None
    reward_version: int | None
    next_state: Mapping[str, Any] | None = None
    done: bool | None = None

    @property
    def earned(self) -> dict[str, Any]:
        """The fields of its row that do not depend on the row's shape."""
        return {
            "reward": self.reward,
            **({"raw": self.raw} if self.raw is not None else {}),
            **({"right": self.right} if self.right is not None else {}),
            **({"group": group} if (group := task_of(self.state) or self.unit) else {}),
        }

    @property
    def transition(self) -> dict[str, Any]:
        """What came after it, as far as the ledger tells: for trainers of episodes."""
        told = {"next_state": self.next_state, "done": self.done}
        return {name: value for name, value in told.items() if value is not None}


@dataclass(frozen=True, slots=True)
class Question:
    """What is asked of the ledger: decisions of these versions of the agent, by rewards of this spec. `unused_at`: only
    those that no run had learnt from at that moment."""

    agent: Agent
    spec: RewardSpec
    versions: Mapping[uuid.UUID, AgentVersion]
    filters: Filters = ALL
    unused_at: dt.datetime | None = None

    def parameters(self) -> dict[str, Any]:
        return self.filters.parameters(self.agent) | {
            "agent": self.agent.id,
            "versions": list(self.versions),
            "spec": self.spec.id,
            "signal": self.spec.signal,
            "unused_at": self.unused_at,
        }


def read_rewarded(asked: Question) -> Generator[Rewarded]:
    """Every decision with a reward, oldest first. Streams, so that memory does not grow with the ledger."""
    return _read(asked, _REWARDED, asked.parameters())


def read_unjudged(asked: Question, *, most: int) -> Generator[Rewarded]:
    """The newest `most` decisions that nobody judged, newest first. Streams."""
    return _read(asked, _UNJUDGED, asked.parameters() | {"most": most})


def _read(asked: Question, statement: str, parameters: Mapping[str, Any]) -> Generator[Rewarded]:
    with connection.chunked_cursor() as cursor:
        cursor.execute(statement, parameters)
        while chunk := cursor.fetchmany(FETCH):
            for row, version, state, options, action, *rest, raw, signal, reward_version in chunk:
                propensity, unit, episode, alternatives, temperature, epsilon, completion, logprobs, after, ends = rest
                yield Rewarded(
                    id=row,
                    version=asked.versions[version],
                    state=loaded(state),
                    options=loaded(options),
                    action=loaded(action),
                    propensity=propensity,
                    unit=unit,
                    episode=episode,
                    alternatives=loaded(alternatives),
                    temperature=temperature,
                    epsilon=epsilon,
                    completion=completion,
                    logprobs=loaded(logprobs),
                    reward=training_scale(asked.spec, raw) if raw is not None else None,
                    raw=raw,
                    right=right_of(asked.spec, signal),
                    reward_version=reward_version,
                    next_state=loaded(after),
                    done=ends,
                )


def loaded(field: Any) -> Any:
    """Django's raw cursors leave jsonb as text."""
    return json.loads(field) if isinstance(field, str) else field
