"""Trajectories of Harbor (ATIF, its interchange format): an agent's work on a task, with the verifier's rewards.

A trajectory is an episode, and so is each trajectory of a subagent within it. Every step of the agent that a model made
is a decision over the conversation so far. Calls of tools with their answers are steps of the decision, and so is the
call of the model where the file has its token ids. Steps that were copied from an earlier trajectory were decided
there: here they are part of the conversation alone.

Rewards stand in the trial's result.json, so they come in where a folder of trials is imported. A verifier that failed
left none, and its episode gets `interrupted` instead: a failure is no score.

Source: harbor 0.26, `harbor.models.trajectories` (ATIF 1.0 to 1.8) and `harbor.models.trial.result`.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import msgspec

from decisions.importers.reading import LONGEST_RECORD, read_json
from decisions.importers.records import (
    LONGEST_NAME,
    LONGEST_TEXT,
    Found,
    Imported,
    ImportedFeedback,
    Place,
    Reading,
    Record,
    Refusal,
    Refused,
    canonical,
    count_of,
    make_decision,
    make_episode,
    make_feedback,
    make_step,
    number_of,
    read_each,
    text_of,
    try_read,
)
from decisions.ingest.step_schemas import StepIn

VERSIONS = tuple(f"ATIF-v1.{minor}" for minor in range(9))
RESULT = "result.json"
SOURCES = ("system", "user", "agent")
OF_THE_AGENT = ("model_name", "reasoning_effort", "reasoning_content", "tool_calls", "metrics")
IDS = ("prompt_token_ids", "completion_token_ids")
BETWEEN_STEPS = dt.timedelta(milliseconds=1)
"""Keeps the order of steps that carry no time."""


@dataclass(frozen=True, slots=True)
class Trial:
    """What result.json says of a trajectory's trial. `rewards`: the verifier's, None where there is no valid one;
    `failure`: the type of the exception that prevented it."""

    name: str = ""
    task: str | None = None
    rewards: Mapping[str, Any] | None = None
    failure: str | None = None
    started_at: Any = None
    graded_at: Any = None


def read(files: Sequence[Path], reading: Reading) -> Iterator[Found]:
    """A file by itself is a trajectory. Of a folder's files those named trajectory… are; the rest are logs."""
    for file in files:
        if len(files) > 1 and not file.name.startswith("trajectory"):
            reading.advance(file.stat().st_size)
            continue
        trial = try_read(Place(str(_find_result(file) or file), 1), _read_trial, file)
        if isinstance(trial, Refusal):
            yield trial
            trial = Trial()
        yield from read_each(read_json(file, reading), partial(read_trajectory, reading=reading, trial=trial))


def read_trajectory(record: Record, reading: Reading, trial: Trial) -> list[Found]:
    """Its decisions in order, those of its subagents after them, the rewards last; or every fault of it. Raises Refused
    or msgspec.ValidationError."""
    if faults := [Refusal(record.place, field, reason) for field, reason in find_faults(record.value)]:
        return list(faults)
    found, episode, last = _Trajectory(record, reading, trial, record.value).read()
    return [*found, *_read_outcome(record.place, reading, trial, episode, last)]


def find_faults(given: Any, at: str = "") -> Iterator[tuple[str, str]]:
    """Every field that ATIF would not allow, with what would be right."""
    if not isinstance(given, dict):
        yield at, "is not an object"
        return
    if given.get("schema_version", VERSIONS[-1]) not in VERSIONS:
        yield (
            f"{at}schema_version",
            f"{given['schema_version']!r} is not supported; {VERSIONS[0]} to {VERSIONS[-1]} are",
        )
    agent = given.get("agent")
    if not isinstance(agent, dict) or not isinstance(agent.get("name"), str):
        yield f"{at}agent", "must be an object with a name"
    steps = given.get("steps")
    if not isinstance(steps, list) or not steps:
        yield f"{at}steps", "must be a list with at least one step"
        return
    for index, step in enumerate(steps):
        yield from _find_step_faults(step, index, f"{at}steps[{index}]")
    for index, inner in enumerate(_list(given.get("subagent_trajectories"))):
        place = f"{at}subagent_trajectories[{index}]."
        if isinstance(inner, dict) and not isinstance(inner.get("trajectory_id"), str):
            yield f"{place}trajectory_id", "is missing: it identifies a trajectory within another"
        yield from find_faults(inner, place)


def _find_step_faults(step: Any, index: int, at: str) -> Iterator[tuple[str, str]]:
    if not isinstance(step, dict):
        yield at, "is not an object"
        return
    if step.get("step_id") != index + 1:
        yield f"{at}.step_id", f"{step.get('step_id')!r} must be {index + 1}: steps are numbered from 1"
    source = step.get("source")
    if source not in SOURCES:
        yield f"{at}.source", f"{source!r} is not one of {', '.join(SOURCES)}"
    elif source != "agent" and (wrong := [name for name in OF_THE_AGENT if step.get(name) is not None]):
        yield f"{at}.{wrong[0]}", f"is only allowed in steps of the agent, and this is a step of the {source}"
    if not isinstance(step.get("message"), str | list):
        yield f"{at}.message", "must be a text or a list of parts"
    if not isinstance(step.get("tool_calls"), list | None):
        yield f"{at}.tool_calls", "must be a list"
    ids = set()
    for number, call in enumerate(_list(step.get("tool_calls"))):
        good = isinstance(call, dict) and all(
            isinstance(call.get(name), str) for name in ("tool_call_id", "function_name")
        )
        if not good or not isinstance(call.get("arguments"), dict):
            yield f"{at}.tool_calls[{number}]", "must have the texts tool_call_id and function_name, and arguments"
        else:
            ids.add(call["tool_call_id"])
    observation = step.get("observation")
    results = observation.get("results") if isinstance(observation, dict) else [] if observation is None else None
    if not isinstance(results, list) or not all(isinstance(one, dict) for one in results):
        yield f"{at}.observation", "must be an object with a list of results"
        return
    for number, result in enumerate(results):
        if (call_id := result.get("source_call_id")) is not None and call_id not in ids:
            yield (
                f"{at}.observation.results[{number}].source_call_id",
                f"{call_id!r} is not a tool_call_id of this step",
            )
    metrics = step.get("metrics")
    if metrics is not None and not isinstance(metrics, dict):
        yield f"{at}.metrics", "is not an object"
        return
    for name in (*IDS, "logprobs"):
        values = (metrics or {}).get(name)
        kind = int if name in IDS else (int, float)
        if values is not None and not (isinstance(values, list) and all(isinstance(one, kind) for one in values)):
            yield f"{at}.metrics.{name}", f"must be a list of {'whole ' if name in IDS else ''}numbers"


class _Trajectory:
    """Reads one trajectory without faults; those within it by others like it."""

    def __init__(
        self, record: Record, reading: Reading, trial: Trial, given: dict[str, Any], session: str = ""
    ) -> None:
        self.record, self.reading, self.trial, self.given = record, reading, trial, given
        self.agent = given["agent"]
        self.session = text_of(given.get("session_id")) or session or trial.name
        # Several files of one run may share its session; what they say tells them apart.
        own = f"{self.session or self.agent['name']}-{self._digest()}"
        self.episode = (text_of(given.get("trajectory_id")) or own)[:LONGEST_NAME]
        self.messages: list[dict[str, Any]] = []
        self.moment: dt.datetime | None = None

    def read(self) -> tuple[list[Imported], str, dt.datetime]:
        """The decisions, the episode's name, and when its last step was. Raises Refused where nothing was decided."""
        found: list[Imported] = []
        last = len(self.given["steps"]) - 1
        decided = [at for at, step in enumerate(self.given["steps"]) if _is_decided(step)]
        if not decided:
            raise Refused("steps", "has no step by a model of the agent, so nothing was decided")
        for at, step in enumerate(self.given["steps"]):
            moment = self._find_moment(step, at)
            if at in decided:
                found.append(self._as_decision(step, len(found), moment, len(decided)))
            self._listen(step)
            if at == last:
                ended = moment
        found[-1] = self._with_episode(found, ended)
        for inner in _list(self.given.get("subagent_trajectories")):
            if any(map(_is_decided, inner["steps"])):
                found += _Trajectory(self.record, self.reading, self.trial, inner, self.session).read()[0]
        return found, self.episode, ended

    def _digest(self) -> str:
        return self.reading.mint(dt.datetime.fromtimestamp(0, dt.UTC), canonical(self.given["steps"])).hex[-8:]

    def _find_moment(self, step: Mapping[str, Any], at: int) -> dt.datetime:
        """Its own time, else just after the step before, else when the trial began. Never before the step before."""
        after = self.moment + BETWEEN_STEPS if self.moment is not None else None
        given = step.get("timestamp")
        if given is not None or after is None:
            told = self.reading.moment(given or self.trial.started_at, f"steps[{at}].timestamp")
            self.moment = told if after is None else max(told, after)
        else:
            self.moment = after
        return self.moment

    def _as_decision(self, step: Mapping[str, Any], number: int, moment: dt.datetime, count: int) -> Imported:
        text, calls = _text(step["message"]), _list(step.get("tool_calls"))
        action = [
            {"name": one["function_name"], "arguments": one["arguments"], "id": one["tool_call_id"]} for one in calls
        ]
        metrics = step.get("metrics") or {}
        model = step.get("model_name") or self.agent.get("model_name")
        decision = make_decision(
            {
                "id": self.reading.mint(moment, self.episode, str(step["step_id"])),
                "agent": self.reading.agent_for(self.agent["name"], "agent.name"),
                "state": {"messages": list(self.messages)},
                "action": action or text,
                "completion": text[:LONGEST_TEXT] or None,
                "reasoning": text_of(step.get("reasoning_content"))[:LONGEST_TEXT] or None,
                "policy_name": self.reading.policy_for(model),
                "episode": self.episode,
                "step_number": number,
                "item_ref": self.trial.task,
                "external_id": f"{self.episode}/{step['step_id']}"[:LONGEST_NAME],
                "observed_at": moment,
                "tokens_in": count_of(metrics.get("prompt_tokens")),
                "tokens_out": count_of(metrics.get("completion_tokens")),
                "cost": number_of(metrics.get("cost_usd")),
            }
        )
        steps = tuple(_read_steps(step, metrics, text_of(model), moment))
        size = self.record.size // count + sum(len(text_of(one.get("content"))) for one in self.messages)
        return Imported(self.record.place, decision, steps, (), size)

    def _listen(self, step: Mapping[str, Any]) -> None:
        """Adds what the step said to the conversation, as OpenAI's messages."""
        text = _text(step["message"])
        calls = [
            {
                "id": one["tool_call_id"],
                "type": "function",
                "function": {"name": one["function_name"], "arguments": canonical(one["arguments"])},
            }
            for one in _list(step.get("tool_calls"))
        ]
        message = {"role": "assistant" if step["source"] == "agent" else step["source"], "content": text}
        if text or calls:
            self.messages.append({**message, "tool_calls": calls} if calls else message)
        for result in _results(step):
            content = _text(result.get("content"))
            if (call := result.get("source_call_id")) is not None:
                self.messages.append({"role": "tool", "tool_call_id": call, "content": content})
            elif content:
                self.messages.append({"role": "user", "content": content})

    def _with_episode(self, found: Sequence[Imported], ended: dt.datetime) -> Imported:
        """The last decision, with what is known of the whole."""
        first, last = found[0].decision, found[-1]
        final = self.given.get("final_metrics") or {}
        asked = next((_text(step["message"]) for step in self.given["steps"] if step["source"] == "user"), "")
        assert isinstance(first.observed_at, dt.datetime)
        fields = {
            "session": self.session,
            "query": asked,
            "final_response": last.decision.completion,
            "llm_calls": len(found),
            "tokens_in": count_of(final.get("total_prompt_tokens")),
            "tokens_out": count_of(final.get("total_completion_tokens")),
            "cost": number_of(final.get("total_cost_usd")),
            "started_at": first.observed_at,
            "ended_at": ended,
        }
        return Imported(last.place, last.decision, last.steps, (), last.size, make_episode(last.decision, fields))


def _is_decided(step: Mapping[str, Any]) -> bool:
    """A model of the agent made it here, and it says or does something."""
    by_model = step["source"] == "agent" and step.get("llm_call_count") != 0 and not step.get("is_copied_context")
    return by_model and bool(_text(step["message"]) or step.get("tool_calls"))


def _read_steps(
    step: Mapping[str, Any], metrics: Mapping[str, Any], model: str, moment: dt.datetime
) -> Iterator[StepIn]:
    """The model's call, where there is more to know of it than the decision has, and the tools' calls with answers."""
    kept = {
        name: metrics[name] for name in (*IDS, "logprobs", "cached_tokens", "extra") if metrics.get(name) is not None
    }
    if kept:
        yield make_step(
            {
                "kind": "llm_call",
                "model": model,
                "tokens_in": count_of(metrics.get("prompt_tokens")),
                "tokens_out": count_of(metrics.get("completion_tokens")),
                "started_at": moment,
                "attributes": kept,
            }
        )
    results = _results(step)
    for call in _list(step.get("tool_calls")):
        answers = [_text(one.get("content")) for one in results if one.get("source_call_id") == call["tool_call_id"]]
        yield make_step(
            {
                "kind": "tool_call",
                "name": call["function_name"],
                "external_id": call["tool_call_id"],
                "arguments": call["arguments"],
                "result": "\n".join(answers) if answers else None,
                "started_at": moment,
            }
        )
    for one in results:
        if one.get("source_call_id") is None and (content := _text(one.get("content"))):
            yield make_step({"kind": "span", "name": "observation", "result": content, "started_at": moment})


def _find_result(file: Path) -> Path | None:
    """result.json of the trial that a trajectory lies in: TRIAL/agent/…, or TRIAL/steps/NAME/agent/…."""
    for place in (file.parent.parent, *(file.parents[3:4] if file.parent.parent.parent.name == "steps" else ())):
        if (place / RESULT).is_file():
            return place / RESULT
    return None


def _read_trial(file: Path) -> Trial:
    """Raises Refused for a result that cannot be used; the trajectory can be without it."""
    path = _find_result(file)
    if path is None:
        return Trial()
    if path.stat().st_size > LONGEST_RECORD:
        reason = f"is longer than {LONGEST_RECORD >> 20} MiB; its trajectory is imported without rewards"
        raise Refused("", reason)
    try:
        result = msgspec.json.decode(path.read_bytes())
    except (msgspec.DecodeError, RecursionError, UnicodeError) as error:
        raise Refused("", f"is not JSON: {error}; its trajectory is imported without rewards") from error
    if not isinstance(result, dict) or not isinstance(result.get("trial_name"), str):
        raise Refused(
            "trial_name", "is missing, so this is not a trial's result; its trajectory is imported without rewards"
        )
    steps = [one for one in _list(result.get("step_results")) if isinstance(one, dict)]
    name = file.parent.parent.name
    part = next((one for one in steps if one.get("step_name") == name), result) if steps else result
    graded = part.get("verifier_result")
    rewards = graded.get("rewards") if isinstance(graded, dict) else None
    if rewards is not None and not (
        isinstance(rewards, dict) and all(number_of(one) is not None for one in rewards.values())
    ):
        raise Refused(
            "verifier_result.rewards", "must be an object of numbers; its trajectory is imported without rewards"
        )
    failed = part.get("exception_info") or result.get("exception_info")
    # Harbor says itself whether an exception, such as a time-out of the agent, leaves a reward valid.
    valid = bool(rewards) and result.get("reward_valid") is not False
    timing = part.get("verifier") if isinstance(part.get("verifier"), dict) else {}
    return Trial(
        name=result["trial_name"][:LONGEST_NAME] + (f"/{name}" if part is not result else ""),
        task=text_of(result.get("task_name"))[:LONGEST_NAME] or None,
        rewards=rewards if valid else None,
        failure=None if valid else _type_of(failed),
        started_at=result.get("started_at"),
        graded_at=(timing or {}).get("finished_at") or result.get("finished_at"),
    )


def _type_of(failed: Any) -> str | None:
    return text_of(failed.get("exception_type"))[:LONGEST_NAME] or None if isinstance(failed, dict) else None


def _read_outcome(
    place: Place, reading: Reading, trial: Trial, episode: str, last: dt.datetime
) -> list[ImportedFeedback]:
    """The verifier's rewards on the episode; where it has none, why."""
    moment = reading.moment(trial.graded_at, "verifier.finished_at") if trial.graded_at else last + BETWEEN_STEPS
    told: Mapping[str, Any] = trial.rewards or ({"interrupted": trial.failure} if trial.failure else {})
    return [
        make_feedback(
            reading,
            place,
            metric=metric,
            value=value,
            observed_at=moment,
            key=metric,
            episode=episode,
            source="code",
        )
        for metric, value in told.items()
    ]


def _results(step: Mapping[str, Any]) -> list[dict[str, Any]]:
    return list((step.get("observation") or {}).get("results", ()))


def _text(content: Any) -> str:
    """A text, or the texts of parts; of an image or sound where it lies."""
    if not isinstance(content, list):
        return text_of(content)
    told = []
    for part in content:
        source = part.get("source") if isinstance(part, dict) else None
        if isinstance(source, dict):
            told.append(f"[{text_of(source.get('media_type'))} {text_of(source.get('path'))}]")
        else:
            told.append(text_of(part.get("text") if isinstance(part, dict) else part))
    return "\n".join(told)


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []
