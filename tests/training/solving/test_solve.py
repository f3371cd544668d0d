"""An agent that acts in an environment: what is answered, recorded, given again, and said where it goes wrong."""

import json
import shutil

import pytest
from django.core.cache import cache

from decisions.agents.caching import change_cache
from decisions.agents.services import AgentSetup, create_agent
from decisions.erasure.erasing import Person, erase_decisions, find_decisions
from decisions.labelling.labels import label_decision
from decisions.models import Decision, Episode, Feedback, Reward
from decisions.rewards.calculate import calculate_rewards
from decisions.rewards.specs import current_reward_spec
from models_registry.artifacts.opening import artifact_path
from models_registry.backends.outbound import close_clients
from models_registry.models import Call
from models_registry.versions.services import NewVersion, move_alias, register_version, store_artifact
from tests.training.environments.custom_environment import installed  # noqa: F401 - a fixture
from tools.factories import BackendFactory, DeploymentFactory
from tools.model_server import running_model_server
from training.datasets.snapshots import snapshot_ledger
from training.engine.environments.equations import Equations

pytestmark = pytest.mark.django_db
SETUP = AgentSetup("{{ observation }}", max_prompt_tokens=64, temperature=0.7, epsilon=0.2)
PROBLEM = {"environment": "equations", "problem": "3x + 7 = 16", "greedy": True}
EXPERT = ["identify linear", "subtract 7", "divide 3", "answer 3"]
EARNED = [1.5, 2.0, 2.0, 3.0]


def picks(*options):
    """What a server answers that picks these options, one a request."""
    bodies = [
        {"index": 0, "message": {"role": "assistant", "content": one}, "finish_reason": "stop"} for one in options
    ]
    return [(200, {"choices": [body], "usage": {"prompt_tokens": 20, "completion_tokens": 3}}) for body in bodies]


@pytest.fixture
def solver(by):
    cache.clear()
    return create_agent(by=by, slug="solver", name="Solver", setup=SETUP)


@pytest.fixture
def deploy(by, solver, serve):
    def put(name):
        new = NewVersion(remote_name=name, method="remote")
        version = register_version(by=by, model=solver.registered_model, new=new)
        server = serve()
        server.models = [name]
        backend = BackendFactory(workspace=by.workspace, url=server.url, retries=0, price_in=1, price_out=10, name=name)
        DeploymentFactory(version=version, backend=backend)
        return version, server

    return put


@pytest.fixture
def server(deploy):
    """The champion's, which picks what it is told."""
    return deploy("gpt")[1]


@pytest.fixture
def ask(api):
    client = api("route:read")

    def send(path="solve", body=PROBLEM, **headers):
        return client.post(f"agents/solver/{path}", body, **headers)

    return send


def outcome_of(episode):
    return dict(Feedback.objects.filter(episode=episode, source="code").values_list("metric", "value"))


def test_every_step_is_a_decision_of_one_episode_and_its_reward_is_feedback(ask, server):
    server.answers.extend(picks(*EXPERT))
    answer = ask(body=PROBLEM | {"problem": "Solve for x: 3x + 7 = 16"})
    assert answer.status_code == 201, answer.content
    told = answer.json()
    assert (told["success"], told["score"], told["total_reward"], told["steps"]) == (True, 1.0, 8.5, 4)
    assert (told["problem"], told["finished"], told["progress"], told["cached"]) == (
        "Solve 3x + 7 = 16",
        True,
        1.0,
        False,
    )
    assert [(one["action"], one["reward"]) for one in told["trajectory"]] == list(zip(EXPERT, EARNED, strict=True))
    assert {one["model_version"] for one in told["trajectory"]} == {"solver:1"}
    rows = list(Decision.objects.filter(episode=told["episode_id"]).order_by("step_number"))
    assert [str(row.id) for row in rows] == [one["decision_id"] for one in told["trajectory"]]
    assert [row.state["observation"] for row in rows] == [one["observation"] for one in told["trajectory"]]
    assert rows[0].state["task"] == "Solve 3x + 7 = 16"
    assert [row.next_state["observation"] for row in rows] == [one["next_observation"] for one in told["trajectory"]]
    assert rows[-1].next_state["observation"].endswith("answer 3")
    assert all(row.next_state.keys() == row.state.keys() for row in rows)
    assert all(row.action in row.options and row.item_ref == "equations-3x+7=16" for row in rows)
    # Greedy: what was done was certain, and no other action could have been.
    assert {(row.propensity, row.temperature, row.epsilon) for row in rows} == {(1.0, None, 0.0)}
    rewards = Feedback.objects.filter(decision__in=rows, metric="step_reward", source="code")
    assert [rewards.get(decision=row).value for row in rows] == EARNED
    assert outcome_of(told["episode_id"]) == {"solved": True, "score": 1.0, "finished": True}
    episode = Episode.objects.get(id=told["episode_id"])
    assert (episode.query, episode.final_response, episode.tasks_completed) == ("Solve 3x + 7 = 16", "answer 3", 1)
    assert episode.ended_at is not None
    assert list(Call.objects.values_list("state", "cached").distinct()) == [("answered", False)]


def test_decisions_have_a_reward_and_make_rows_without_any_spec_of_ones_own(ask, server, solver, by, store):
    """Each is worth its episode's score, which a verdict shares the weight with."""
    server.answers.extend([*picks(*EXPERT), *picks("identify linear", "answer 16")])
    solved, missed = ask().json()["episode_id"], ask(body=PROBLEM | {"seed": 1}).json()
    assert missed["success"] is False, missed
    spec = current_reward_spec(solver)
    calculate_rewards(spec)
    rewards = dict(Reward.objects.filter(spec=spec).values_list("decision__episode_id", "value").distinct())
    assert {str(pk): value for pk, value in rewards.items()} == {solved: 0.75, missed["episode_id"]: 0.5}
    dataset = snapshot_ledger(by=by, agent=solver, name="steps")
    lines = (artifact_path(dataset.artifact.digest) / "rows.jsonl").read_text().splitlines()
    rows = [json.loads(line) for line in lines]
    assert [row["reward"] for row in rows] == [1.0] * 4 + [0.0] * 2
    assert [row["done"] for row in rows] == [False, False, False, True, False, True]
    assert all(row["next_state"]["observation"] for row in rows)
    first = Decision.objects.filter(episode=solved).order_by("step_number").first()
    label_decision(by=by, decision=first, verdict="corrected")
    calculate_rewards(spec)
    assert Reward.objects.filter(decision=first).latest("version").raw == 0.5  # the mean of 1 and -0.5, times 2


def test_brackets_fractions_and_both_sides_are_worked_out_by_the_agent(ask, server):
    actions = ["set up 4x - 6 = 1", "identify linear", "add 6", "divide 4", "answer 7/4"]
    server.answers.extend(picks(*actions))
    told = ask(body=PROBLEM | {"problem": "Solve for y: 3(y - 2) + y = 1"}).json()
    assert (told["problem"], told["success"], told["total_reward"]) == ("Solve 3(x - 2) + x = 1", True, 9.5)
    assert [step["action"] for step in told["trajectory"]] == actions


@pytest.mark.slow
def test_a_greedy_episode_is_given_again_until_another_model_or_an_erasure(ask, by, solver, server, deploy):
    change_cache(by=by, agent=solver, seconds=3600)

    def solved(problem="3x + 7 = 16", factor=3, **headers):
        server.answers.extend(picks(*EXPERT[:2], f"divide {factor}", "answer 3"))
        body = PROBLEM | {"problem": problem, "user_ref": "ann"}
        told = ask(body=body, **headers).json()
        server.answers.clear()
        return told

    first, again = solved(), solved("16 = 7 + 3x")  # the same task
    assert (first["cached"], again["cached"], len(server.asked)) == (False, True, 4)
    assert again["episode_id"] != first["episode_id"]
    assert [one["action"] for one in again["trajectory"]] == EXPERT
    rows = Decision.objects.filter(episode=again["episode_id"])
    assert rows.count() == 4
    assert Feedback.objects.filter(decision__in=rows, metric="step_reward").count() == 4
    calls = Call.objects.filter(id__in=rows.values("id"))
    assert list(calls.values_list("state", "cached", "cost").distinct()) == [("answered", True, 0)]
    assert outcome_of(again["episode_id"])["solved"] is True
    assert solved("2x + 7 = 13", factor=2)["cached"] is False
    assert solved(**{"Cache-Control": "no-cache"})["cached"] is False
    found = find_decisions(workspace=by.workspace, person=Person("user", "ann"), after=None, size=99)
    erase_decisions(workspace=by.workspace, ids=found, secret=b"s" * 32)
    assert [solved()["cached"], solved()["cached"]] == [False, True]
    version, server = deploy("other")
    move_alias(by=by, version=version, name="champion", reason="better")
    assert [solved()["cached"], solved()["cached"]] == [False, True]


REFUSED = {
    "environment": ({"environment": "chess", "problem": "e4"}, "environment", "is not installed"),
    "text": ({"problem": "3x² + 7 = 16"}, "problem", "is not linear: the unknown has the power 2"),
    "two unknowns": ({"problem": "Solve for x: 3x + y = 16"}, "problem", "more than one unknown: x, y"),
    "no solution": ({"problem": "x = x + 1"}, "problem", "has no solution"),
    "every number": ({"problem": "2(x + 1) = 2x + 2"}, "problem", "is true of every number"),
    "no equation": ({"problem": "Solve for x: 3x + 7"}, "problem", "has no equals sign"),
    "no text": ({"problem": {"factor": 3, "shift": 7, "right": 16}}, "text", "is missing"),
    "facts": ({"problem": {"factor": 0, "shift": 7, "right": 16}, "text": "?"}, "problem", "must not be 0"),
    "both": ({"task": {"id": "1", "text": "Solve it"}}, "problem", "are both given"),
    "steps": ({"max_steps": 9}, "max_steps", "is more than equations takes"),
}


@pytest.mark.parametrize("name", REFUSED)
@pytest.mark.quick_cases(4)
def test_what_cannot_be_solved_is_refused_before_anything_is_asked(ask, server, name):
    body, field, reason = REFUSED[name]
    answer = ask(body=PROBLEM | body)
    assert answer.status_code == 400
    [fault] = answer.json()["error"]["fields"]
    assert (fault["field"], reason in fault["reason"]) == (field, True), fault
    assert (len(server.asked), Episode.objects.count(), Decision.objects.count()) == (0, 0, 0)


def test_an_agent_with_options_of_its_own_and_one_without_a_model_are_refused(api, agent, solver):
    client = api("route:read")
    [fault] = client.post("agents/filer/solve", PROBLEM).json()["error"]["fields"]
    assert (fault["field"], fault["expected"]) == ("agent", "an agent that chooses, with options: null")
    answer = client.post("agents/solver/solve", PROBLEM)
    assert (answer.status_code, answer.json()["error"]["code"]) == (409, "no_champion")
    assert client.post("agents/solver/solve/batch", [PROBLEM, PROBLEM]).status_code == 409
    assert (Episode.objects.count(), Decision.objects.count()) == (0, 0)


def test_an_interrupted_episode_says_what_is_recorded_and_a_repeat_goes_on(ask, server):
    server.answers.extend([*picks(*EXPERT[:2]), (500, {}), (500, {})])
    answer = ask(**{"Idempotency-Key": "once"})
    error = answer.json()["error"]
    episode = Episode.objects.get()
    assert (answer.status_code, error["code"]) == (503, "backend_unavailable")
    assert f"2 steps are recorded in the episode {episode.id}" in error["message"]
    assert outcome_of(episode) == {"interrupted": "backend_unavailable"}
    first = set(Decision.objects.values_list("id", flat=True))
    assert (len(first), episode.ended_at) == (2, None)
    server.answers.clear()
    server.answers.extend(picks(*EXPERT[2:]))
    told = ask(**{"Idempotency-Key": "once"}).json()
    assert (told["success"], told["episode_id"], told["total_reward"]) == (True, str(episode.id), 8.5)
    assert Decision.objects.filter(episode=episode).count() == 4
    assert first < set(Decision.objects.values_list("id", flat=True))
    asked = len(server.asked)
    repeated = ask(**{"Idempotency-Key": "once"}).json()
    assert (repeated["trajectory"], len(server.asked)) == (told["trajectory"], asked)
    assert Feedback.objects.filter(metric="step_reward").count() == 4


def test_an_environment_that_fails_is_an_error_and_no_score(ask, server, installed):  # noqa: F811
    # Greedy: a drawn action may be to wait, which asks the grader nothing.
    lamps = {"environment": "flickering", "text": "Light green", "problem": {"wanted": ["green"]}, "greedy": True}
    server.answers.extend(picks("press green"))
    answer = ask(body=lamps)
    error = answer.json()["error"]
    assert (answer.status_code, error["code"]) == (500, "environment_failed")
    assert "the panel's sensor does not answer. 1 step is recorded" in error["message"]
    assert outcome_of(Episode.objects.get()) == {"interrupted": "environment_failed"}
    assert not Feedback.objects.filter(metric="step_reward").exists()
    [fault] = ask(body=lamps | {"problem": "green", "text": None}).json()["error"]["fields"]
    assert "cannot read plain texts" in fault["reason"]


@pytest.mark.slow
def test_problems_of_a_batch_advance_together_and_fail_by_themselves(ask, by, solver, settings, tmp_path, tiny_run):
    settings.ARTIFACTS, settings.MODEL_SERVER_TOKEN = str(tmp_path / "store"), "for-this-test"
    folder = shutil.copytree(tiny_run / "attempts" / "1" / "model", tmp_path / "model")
    artifact = store_artifact(workspace=by.workspace, folder=folder, kind="model", meta={"made": "here"})
    register_version(by=by, model=solver.registered_model, new=NewVersion(artifact=artifact, method="pretrain"))
    drawn = PROBLEM | {"greedy": False, "max_steps": 3, "unit": "ann"}
    with running_model_server(tmp_path / "store", "for-this-test") as settings.MODEL_SERVER_URL:
        body = [drawn, drawn | {"problem": "x"}, drawn | {"problem": "4x - 1 = 11"}, {"environment": 1}]
        answer = ask("solve/batch", body)
        close_clients()
    assert answer.status_code == 207, answer.content
    first, unreadable, second, untyped = answer.json()["answers"]
    assert [one["error"]["code"] for one in (unreadable, untyped)] == ["invalid_input"] * 2
    assert (unreadable["error"]["fields"][0]["field"], unreadable["error"]["episode_id"]) == ("problem", None)
    recorded = []
    for one, problem in ((first, "3x + 7 = 16"), (second, "4x - 1 = 11")):
        solution = one["solution"]
        world = Equations()
        observation = world.reset(Equations.read_problem(problem))
        for step in solution["trajectory"]:
            assert (step["observation"], step["action"] in world.get_valid_actions()) == (observation, True)
            offered = len(world.get_valid_actions())
            result = world.step(step["action"])
            observation = result.observation
            assert (step["reward"], step["next_observation"]) == (result.reward, observation)
            assert 0.2 / offered <= step["probability"] < 1
        rows = Decision.objects.filter(episode=solution["episode_id"]).order_by("step_number")
        assert [row.propensity for row in rows] == [step["probability"] for step in solution["trajectory"]]
        assert {(row.unit, row.temperature, row.epsilon) for row in rows} == {("ann", 0.7, 0.2)}
        assert outcome_of(solution["episode_id"])["finished"] is solution["finished"]
        recorded.append([row.recorded_at for row in rows])
    # A round is one request: its decisions are of one moment.
    together = list(zip(*recorded, strict=False))
    assert together
    assert all(one == other for one, other in together)
