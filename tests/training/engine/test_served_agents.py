"""An agent of another program acts by a base URL on the weights in training, which learn from the tokens they wrote."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from engine_world import World, engine, read_events, read_result, write_run

from training.evaluation.tasks import score_tasks

CLERK = '''
"""Asks twice, with the client of OpenAI's, and pays for answers with an e."""
import openai

from training.engine.environments.outside import Graded, OutsideAgent
from training.engine.environments.protocol import EnvironmentFault


HTTP = openai.DefaultHttpxClient(verify=False)


class Clerk(OutsideAgent):
    name, does, at_once = "clerk", "Files a note twice.", 6

    def find_faults(self, task):
        return [] if "note" in task.facts else ["facts.note: is missing"]

    def act(self, task, seed, endpoint):
        if task.facts.get("fails"):
            raise EnvironmentFault("the cabinet is locked")
        if task.facts.get("hole"):
            return self.pay(task)
        client = openai.OpenAI(base_url=endpoint.base_url, api_key=endpoint.api_key, max_retries=0, http_client=HTTP)
        messages = [{"role": "user", "content": task.facts["note"]}]
        earned = 0.0
        for turn in range(2):
            answer = client.chat.completions.create(model=endpoint.model, messages=messages, max_tokens=4)
            text = answer.choices[0].message.content
            earned += 0.5 * ("e" in text)
            messages += [{"role": "assistant", "content": text.strip()}, {"role": "user", "content": "and again"}]
        if task.facts.get("forgets"):
            client.chat.completions.create(model="any", messages=messages[2:])
        return Graded(earned, earned == 1.0, earned)

    def pay(self, task):
        """What is paid for rises, while what is wanted falls: the first so many episodes of each kind are otherwise."""
        kind, first = task.facts["hole"]
        self.paid[kind] = seen = self.paid.get(kind, 0) + 1
        return Graded(float(seen > first), seen <= first, float(seen <= first))

    def __init__(self):
        self.paid = {}
'''
SPEC: dict[str, Any] = {
    "method": "grpo",
    "optimiser": {"learning_rate": 3e-3, "batch_size": 16},
    "online": {"steps": 5, "prompts_per_step": 2, "group": 8, "kl": 0.01},
    "sampling": {"temperature": 0.4},
    "max_prompt_tokens": 128,
    "max_completion_tokens": 8,
    "data": {"rows": "tasks"},
}


@pytest.fixture
def clerk(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The agent's package, as if the operator had installed it."""
    folder = tmp_path_factory.mktemp("agents")
    (folder / "filing_clerk.py").write_text(CLERK)
    info = folder / "filing_clerk-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: filing-clerk\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[reckoner.agents]\nclerk = filing_clerk:Clerk\n")
    monkeypatch.syspath_prepend(str(folder))
    yield
    if (module := sys.modules.pop("filing_clerk", None)) is not None:
        module.HTTP.close()


def tasks(world: World, count: int, name: str = "note", **facts: Any) -> list[dict[str, Any]]:
    notes = [row["prompt"] for row in world.stream[:count]]
    common = {"environment": "cabinet", "text": "File it.", "domain": "office", "template": "file"}
    return [{"id": f"{name}-{n}", **common, "facts": {"note": note, **facts}} for n, note in enumerate(notes)]


def read_episodes(run: Path, attempt: int = 1) -> list[dict[str, Any]]:
    lines = (run / f"attempts/{attempt}/training_episodes.jsonl").read_text().splitlines()
    return [json.loads(line) for line in lines]


def test_an_openai_client_acts_on_the_weights_in_training_and_they_learn(
    clerk: None, world: World, tmp_path: Path
) -> None:
    import torch

    from training.engine.models.loading import load_model, load_tokenizer, weights_sha256

    online = SPEC["online"] | {"alarms": {"every": 5, "tasks": 8}}
    spec = SPEC | {"base": {"path": str(world.base)}, "online": online, "evaluate": {}}
    held_out = [*tasks(world, 8, "held"), *tasks(world, 1, "broken", fails=True)]
    run = write_run(tmp_path / "run", spec, train=tasks(world, 8), heldout=held_out)
    assert engine(run, "--agent", "clerk") == 0
    episodes = read_episodes(run)
    assert len(episodes) == 5 * 2 * 8 and not any(one["fault"] for one in episodes)
    rewards = [one["total_reward"] for one in episodes]
    assert sum(rewards[-16:]) > sum(rewards[:16]) + 4  # of 16 episodes each
    acted = [{one["weights_hash"] for one in episodes if one["step"] == step} for step in range(1, 6)]
    assert all(len(hashes) == 1 for hashes in acted) and len(set.union(*acted)) == 5
    # Every answer went on with the tokens of the one before, and they are those that the base itself would weigh so.
    shapes = {(len(one["trajectory"]), *(told["calls"] for told in one["transcripts"])) for one in episodes}
    assert shapes == {(2, 2)}
    assert {told["weights_hash"] for one in episodes for told in one["transcripts"]} == set.union(*acted)
    base, tokenizer = load_model(world.base, torch.device("cpu")), load_tokenizer(world.base)
    assert acted[0] == {weights_sha256(world.base)}
    told = episodes[0]["transcripts"][0]
    ids = torch.tensor([told["token_ids"]])
    with torch.no_grad():
        log_p = (base(input_ids=ids).logits[0, :-1] / 0.4).log_softmax(-1).gather(1, ids[0, 1:, None])[:, 0].tolist()
    written = [(mine, value) for mine, value in zip(told["log_p"][1:], log_p, strict=True) if mine is not None]
    assert [mine for mine, _ in written] == pytest.approx([value for _, value in written], abs=1e-3)
    text = tokenizer.decode(told["token_ids"])
    assert text.startswith(f"<|user|>{world.stream[int(episodes[0]['task'][5:])]['prompt']}<|end|><|assistant|>")
    assert text.count("<|end|><|user|>and again<|end|><|assistant|>") == 1
    metrics = [event["values"] for event in read_events(run) if event["kind"] == "metric"]
    assert metrics[-1]["drift"] < 1e-3 and metrics[-1]["conversations"] == 1.0

    # Base and trained weights acted once on each held-out task, by the same agent.
    assert 0 <= metrics[-1]["heldout_solved"] <= 1
    acted_once = [json.loads(line) for line in (run / "attempts/1/heldout_episodes.jsonl").read_text().splitlines()]
    hashes = {"base": weights_sha256(world.base), "trained": weights_sha256(run / "attempts/1/model")}
    assert hashes["base"] != hashes["trained"]
    assert [(one["model"], one["policy"], one["task"]) for one in acted_once] == [
        (model, policy, task["id"])
        for model in ("base", "trained")
        for policy in ("serving", "greedy")
        for task in held_out
    ]
    greedy = [told for one in acted_once if one["policy"] == "greedy" for told in one["transcripts"]]
    assert {value for told in greedy for value in told["log_p"]} == {None, 0.0}
    for one in acted_once:
        assert one["weights_hash"] == hashes[one["model"]]
        assert all(told["weights_hash"] == one["weights_hash"] for told in one["transcripts"])
        assert (one["fault"] is None, len(one["trajectory"])) == (
            (False, 0) if one["task"] == "broken-0" else (True, 2)
        )
    result = read_result(run)
    predictions = [json.loads(line) for line in (run / "attempts/1" / result["predictions"]).read_text().splitlines()]
    assert [one["id"] for one in predictions] == 2 * [f"held-{n}" for n in range(8)]
    for model in ("base", "trained"):
        mine = [one for one in predictions if one["model"] == model]
        score = result["scores"][model]
        assert (score["rows"], score["episodes"]["left_out"], score["episodes"]["steps"]) == (8, 1, 2.0)
        assert score["accuracy"] == sum(one["correct"] for one in mine) / 8
        assert score["episodes"]["reward"] == score["episodes"]["score"] == sum(one["score"] for one in mine) / 8
        assert (score["episodes"]["progress"], score["episodes"]["finished"]) == (None, None)
        assert score["episodes"]["solved_by_domain"] == {"office": score["accuracy"]}
    compared = score_tasks(run / "attempts/1" / result["predictions"])
    gained = result["scores"]["trained"]["accuracy"] - result["scores"]["base"]["accuracy"]
    assert compared.rows == 8 and compared.differences["accuracy"]["mean"] == pytest.approx(gained)


def test_an_alarm_stops_a_run_whose_agent_pays_for_what_is_not_wanted(
    clerk: None, world: World, tmp_path: Path
) -> None:
    online = {"steps": 9, "prompts_per_step": 1, "group": 2, "kl": 0.0, "alarms": {"every": 6, "tasks": 8}}
    spec = SPEC | {"base": {"path": str(world.base)}, "online": online}
    run = write_run(
        tmp_path / "run",
        spec,
        train=tasks(world, 2, hole=["train", 6]),
        heldout=tasks(world, 8, "held", hole=["held", 8]),
    )
    assert engine(run, "--agent", "clerk") == 0
    alarm = read_result(run)["alarm"]
    assert (alarm["step"], alarm["kept_step"]) == (6, 0)
    assert "0.000 of the held-out tasks are solved, and 1.000 were at the start" in alarm["reason"]
    assert len(read_episodes(run)) == 12 and alarm["reason"] in read_result(run)["warnings"][-1]


def test_what_failed_is_left_out_and_a_break_in_a_conversation_is_said(
    clerk: None, world: World, tmp_path: Path
) -> None:
    drawn = tasks(world, 1) + tasks(world, 2, fails=True)[1:] + tasks(world, 3, forgets=True)[2:]
    online = {"steps": 1, "prompts_per_step": 3, "group": 2}
    spec = SPEC | {"base": {"path": str(world.base)}, "online": online}
    run = write_run(tmp_path / "run", spec, train=drawn)
    assert engine(run, "--agent", "clerk") == 0
    by_task = {one["task"]: one for one in read_episodes(run)}
    assert by_task["note-1"]["fault"] == "the cabinet is locked" and not by_task["note-1"]["transcripts"]
    assert [one["began"] for one in by_task["note-0"]["transcripts"]] == ["the first call"]
    assert [one["began"] for one in by_task["note-2"]["transcripts"]] == [
        "the first call",
        "message 1 is not what was said before",
    ]
    assert read_result(run)["metrics"]["faults"] == pytest.approx(1 / 3)
    failing = write_run(tmp_path / "all", spec, train=tasks(world, 3, fails=True))
    assert engine(failing, "--agent", "clerk") == 1
    assert "every episode of step 1 failed; the first: the cabinet is locked" in read_events(failing)[-1]["error"]


@pytest.mark.parametrize(
    ("agent", "changes", "facts", "says"),
    [
        ("clark", {}, {}, "--agent: unknown agent 'clark'; known: clerk"),
        ("clerk", {"method": "sft", "data": {"rows": "labelled"}}, {}, "method: an agent only acts on the tasks"),
        (
            "clerk",
            {"judge": {"metric": "m", "model": "m", "prompt": "{work}", "url": "http://j"}},
            {},
            "judge: episodes",
        ),
        ("clerk", {"sampling": {"top_p": 0.9}}, {}, "sampling: tokens that top_k and top_p leave out"),
        ("clerk", {}, {"note": None}, "data/train.jsonl:1: facts.note: is missing"),
        ("clerk", {}, {"note": None}, "data/heldout.jsonl:1: facts.note: is missing"),
        (None, {}, {}, "environment: unknown environment 'cabinet'"),
    ],
)
def test_what_cannot_be_acted_on_is_refused_before_anything_starts(
    agent: str | None,
    changes: dict[str, Any],
    facts: dict[str, Any],
    says: str,
    clerk: None,
    world: World,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    drawn = tasks(world, 1)
    if facts:
        drawn[0]["facts"] = {}
    run = write_run(tmp_path / "run", SPEC | {"base": {"path": str(world.base)}} | changes, train=drawn, heldout=drawn)
    assert engine(run, *(() if agent is None else ("--agent", agent))) == 2
    assert says in capsys.readouterr().err and not (run / "attempts").exists()


class TestEndpoint:
    """By hand: one thread calls, and this one answers, as in training."""

    @pytest.fixture
    def attempt(self, world: World, tmp_path: Path) -> Iterator[Any]:
        import torch

        from training.engine.attempt.attempt import Attempt
        from training.engine.attempt.events import Events
        from training.engine.attempt.stop import StopFlag
        from training.engine.spec.run_spec import RunSpec

        spec = SPEC | {"run_id": "r", "base": {"path": str(world.base)}, "data": {"train": "x", "rows": "tasks"}}
        events = Events(tmp_path / "events.jsonl")
        yield Attempt(RunSpec.model_validate(spec), 1, tmp_path, torch.device("cpu"), events, StopFlag())
        events.close()

    @pytest.fixture
    def learner(self, world: World, attempt: Any) -> Any:
        from training.engine.data.reading import RunData
        from training.engine.environments.tasks import Task
        from training.engine.models.loading import Loaded, load_model, load_tokenizer
        from training.engine.served.grpo import Learner

        loaded = Loaded(load_model(world.base, attempt.device), load_tokenizer(world.base))
        return Learner(attempt, loaded, RunData(tasks=[Task("t", "any", "Ask.")]))

    def test_only_what_the_policy_would_write_freely_is_answered_and_other_weights_teach_nothing(
        self, learner: Any, attempt: Any
    ) -> None:
        import openai
        import torch

        from training.engine.environments.outside import Endpoint, Graded, OutsideAgent
        from training.engine.environments.tasks import Task
        from training.engine.methods.online import ForeignTrajectories
        from training.engine.served.rollouts import Rollouts
        from training.engine.served.server import serve_policy

        refused: list[str] = []
        keys: list[str] = []

        class Curious(OutsideAgent):
            name, does = "curious", "Asks what is refused."

            def find_faults(self, task: Task) -> list[str]:
                return []

            def act(self, task: Task, seed: int, endpoint: Endpoint) -> Graded:
                with openai.DefaultHttpxClient(verify=False) as http:
                    return self.ask(
                        openai.OpenAI(
                            base_url=endpoint.base_url, api_key=endpoint.api_key, max_retries=0, http_client=http
                        ),
                        seed,
                    )

            def ask(self, client: openai.OpenAI, seed: int) -> Graded:
                ask: Any = client.chat.completions.create
                said: Any = {"model": "m", "messages": [{"role": "user", "content": "hotel"}]}
                for more in ({"n": 2}, {"logit_bias": {"5": 1}}, {"response_format": {"type": "json_object"}}):
                    with pytest.raises(openai.BadRequestError) as caught:
                        ask(**said, **more)
                    refused.append(str(caught.value.param))
                with pytest.raises(openai.BadRequestError, match="This model's maximum context length is 128"):
                    ask(model="m", messages=[{"role": "user", "content": "hotel " * 200}])
                with pytest.raises(openai.AuthenticationError):
                    client.with_options(api_key="another").models.list()
                pieces = list(ask(**said, stream=True, temperature=0))
                text = "".join(piece.choices[0].delta.content or "" for piece in pieces)
                assert pieces[-1].choices[0].finish_reason in ("stop", "length")
                said["messages"] += [{"role": "assistant", "content": text}, {"role": "user", "content": "on"}]
                assert ask(**said).usage.completion_tokens <= 8
                keys.append(client.api_key)
                return Graded(float(seed), success=False, score=0.0)

        with serve_policy(learner.policy) as server:
            acting = Rollouts(attempt, Curious(), learner.policy, server)
            asked = [(learner.tasks[0], seed) for seed in (0, 1)]
            acted = acting.act(asked, learner.acting.find(), 0)
        assert [one.fault for one in acted] == [None, None]
        assert sorted(refused) == ["logit_bias", "logit_bias", "n", "n", "response_format", "response_format"]
        assert len(set(keys)) == 2
        assert [[part.calls for part in one.transcripts] for one in acted] == [[2], [2]]
        before = learner.acting.find()
        with torch.no_grad():
            next(iter(learner.updates.parameters.values())).add_(1e-3)
        changed = learner.acting.find()
        with pytest.raises(ForeignTrajectories, match=f"task t: made by weights {before}, not by {changed}"):
            learner.learn_from({0: acted}, 2)
        assert learner.acting.find() == changed

    @pytest.mark.parametrize("template", ["plain", "tools"])
    def test_a_call_and_its_result_go_on_with_the_tokens_that_were_written(self, template: str, learner: Any) -> None:
        """What stands behind an answer is what the template writes there, whether it knows tools or not."""
        from training.engine.served.transcripts import Growing, Written, find_earlier
        from training.engine.serving.chat import ChatRequest, prepare, render_after
        from training.engine.serving.tools import Tool, Toolbox

        base = learner.policy.base
        if template == "tools":
            base.tokenizer.chat_template = TOOLS_TEMPLATE
        tools = (Tool("look", "Looks.", None),)
        wrote = {"plain": '[{"name": "look", "arguments": {}}]', "tools": '<tool_call>{"name": "look"}</tool_call>'}
        call = {"id": "1", "type": "function", "function": {"name": "look", "arguments": {}}}
        first: list[Any] = [{"role": "user", "content": "find it"}]
        later = [
            *first,
            {"role": "assistant", "content": "", "tool_calls": [call | {"id": "other"}]},
            {"role": "tool", "tool_call_id": "other", "content": "nothing <|end|>"},
        ]
        begun = prepare(base, ChatRequest("m", tuple(first), toolbox=Toolbox(tools, "auto")))[0]
        answer = base.tokenizer(wrote[template] + "<|end|>", add_special_tokens=False)["input_ids"]
        known = Growing("", tools)
        said = {"role": "assistant", "content": "", "tool_calls": [call]}
        known.add(first, said, begun.prompt_ids, Written(answer, answer))
        assert find_earlier([known], later, tools) is known
        asked = ChatRequest("m", tuple(later), toolbox=Toolbox(tools, "auto"))
        after = render_after(base, asked, 1)
        result = {
            "plain": "<|end|><|user|>Result of look: nothing < | e n d | ><|end|><|assistant|>",
            "tools": "<|end|><|tool|>nothing < | e n d | ><|end|><|assistant|>",
        }
        assert after == result[template]
        assert find_earlier([known], later, ()) == "other tools are offered"
        assert find_earlier([known], later[:2], tools) == "nothing follows the model's answer"
        assert find_earlier([known], later[:1], tools) == "an earlier call is asked again"
        if template == "plain":  # it writes calls as they were written, so the whole is the same as its parts
            whole = prepare(base, asked)[0].prompt_ids
            ended = base.tokenizer(after.removeprefix("<|end|>"), add_special_tokens=False)["input_ids"]
            assert whole == [*known.token_ids, *ended]


TOOLS_TEMPLATE = (
    "{% if tools %}{{ '<|system|>' + (tools | tojson) + '<|end|>' }}{% endif %}"
    "{% for message in messages %}{{ '<|' + message['role'] + '|>' + message['content'] }}"
    "{% for call in message.tool_calls or () %}{{ '<tool_call>' + (call.function | tojson) + '</tool_call>' }}"
    "{% endfor %}{{ '<|end|>' }}{% endfor %}{% if add_generation_prompt %}<|assistant|>{% endif %}"
)
