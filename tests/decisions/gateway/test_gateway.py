"""Asking an agent to decide, with a real model server and a model that was really trained."""

import datetime as dt
import json
import math
import random
import shutil

import pytest
from django.db import connection
from django.utils import timezone

from decisions.agents.services import AgentSetup, create_agent_version
from decisions.api import examples
from decisions.errors import IdConflict
from decisions.gateway import arms
from decisions.gateway.decide import decide
from decisions.gateway.exploration import acting_policy
from decisions.ingest.schemas import DecideItem
from decisions.models import Decision, Feedback
from decisions.rewards.maturing import mature_outcomes
from models_registry.artifacts.opening import artifact_path
from models_registry.backends.endpoint import ScoreItem, own_endpoint
from models_registry.backends.model_server import score as score_items
from models_registry.backends.outbound import close_clients, headers_of, http_client
from models_registry.backends.prompts import Prompt
from models_registry.errors import BackendUnavailable
from models_registry.experiments.plan import ExperimentPlan
from models_registry.experiments.services import start_experiment
from models_registry.models import Experiment, Exposure, FailedRequest, Observation
from models_registry.versions.services import NewVersion, get_champion, move_alias, register_version, store_artifact
from tests.engine_task import labelled
from tools.factories import OPTIONS, AgentFactory, DecisionFactory
from tools.model_server import running_model_server
from training.engine.rows.slates import log_probability
from workspaces.models import KeptAnswer
from workspaces.storage.ids import uuid7

pytestmark = [pytest.mark.slow, pytest.mark.django_db]


@pytest.fixture(scope="module")
def shelf(tmp_path_factory):
    """The server's artifact root. Each test's store is a link to it: one server for all of them."""
    return tmp_path_factory.mktemp("shelf")


@pytest.fixture(scope="module")
def server(shelf):
    with running_model_server(shelf, "for-this-test") as address:
        yield address


@pytest.fixture
def store(shelf, settings, server):
    settings.ARTIFACTS = str(shelf)
    settings.MODEL_SERVER_URL = server
    settings.MODEL_SERVER_TOKEN = "for-this-test"
    yield shelf
    close_clients()


@pytest.fixture
def challenger(base_version, agent, by, tiny_run, tmp_path):
    """The same weights as the champion's under a digest of their own."""
    folder = tmp_path / "challenger"
    shutil.copytree(tiny_run / "attempts" / "1" / "model", folder)
    artifact = store_artifact(workspace=by.workspace, folder=folder, kind="model", meta={"made": str(tmp_path)})
    return register_version(by=by, model=agent.registered_model, new=NewVersion(artifact=artifact, method="posterior"))


@pytest.fixture
def broken_treatment(challenger, by, settings):
    """In an experiment that started while no model server answered: its treatment cannot be served."""

    def start(**plan):
        close_clients()
        address, settings.MODEL_SERVER_URL = settings.MODEL_SERVER_URL, "http://127.0.0.1:1"
        start_experiment(by=by, treatment=challenger, plan=ExperimentPlan(**plan), reason="a better one")
        settings.MODEL_SERVER_URL = address
        shutil.rmtree(artifact_path(challenger.artifact.digest))

    return start


def item(text="flight hotel", **fields):
    return DecideItem(state={"text": text}, **fields)


def test_a_decision_is_answered_and_recorded_as_it_was_made(api, agent, by, base_version):
    version = create_agent_version(
        by=by, agent=agent, setup=AgentSetup("{{ text }}", options=list(OPTIONS), temperature=0.5, epsilon=0.2)
    )
    sent = {"state": {"text": "flight hotel"}, "unit": "ann", "episode": "e1", "step_number": 2, "external_id": "x"}
    answer = api("route:read").post("agents/filer/decide", sent)
    assert answer.status_code == 201, answer.content
    told = answer.json()
    assert set(told) == set(examples.DECIDED)
    assert set(told["probabilities"]) == set(OPTIONS)
    assert sum(told["probabilities"].values()) == pytest.approx(1)
    assert min(told["probabilities"].values()) >= 0.2 / 3 - 1e-9
    assert told["propensity"] == told["probabilities"][told["action"]]
    assert (told["model_version"], told["variant"], told["fallback"]) == ("filer:1", None, False)
    row = Decision.objects.get(id=told["decision_id"])
    assert (row.action, row.propensity, row.unit, row.step_number) == (told["action"], told["propensity"], "ann", 2)
    assert (row.agent_version, row.model_version, row.policy_name) == (version, base_version, None)
    assert (row.temperature, row.epsilon, row.exposure, row.episode.external_id) == (0.5, 0.2, None, "e1")
    assert {a["action"]: a["probability"] for a in row.alternatives} == told["probabilities"]
    # p from the policy back: the model's own probability is the logged confidence.
    weights = {name: (share - 0.2 / 3) ** 0.5 for name, share in told["probabilities"].items()}
    assert row.confidence == pytest.approx(weights[row.action] / sum(weights.values()), abs=1e-6)


def test_actions_are_drawn_from_the_policy(agent, by, base_version):
    answers = decide(by=by, agent="filer", items=[item() for _ in range(256)], rng=random.Random(0))
    policy = dict(zip(answers[0].options, answers[0].probabilities, strict=True))
    for option, share in policy.items():
        found = sum(a.action == option for a in answers) / len(answers)
        assert found == pytest.approx(share, abs=4 * (share * (1 - share) / len(answers)) ** 0.5 + 1e-9)
    assert Decision.objects.count() == 256


def test_a_ranking_is_drawn_from_what_the_model_says_of_each_item(agent, by, base_version, api):
    setup = AgentSetup("{{ options }}", action_space="ranking", temperature=0.5, epsilon=0.2)
    create_agent_version(by=by, agent=agent, setup=setup)
    offered = ["flight hotel", "doctor fever", "tax refund", "visa"]
    told = api("route:read").post("agents/filer/decide", {"state": {}, "options": offered, "places": 3}).json()
    row = Decision.objects.get(id=told["decision_id"])
    first = {one["action"]: one["probability"] for one in row.alternatives}
    assert (first, row.options) == (told["probabilities"], offered)
    assert math.fsum(first.values()) == pytest.approx(1)
    left, by_hand = 1.0, 1.0
    for item in row.action:
        by_hand *= first[item] / left
        left -= first[item]
    assert (len(row.action), row.propensity, told["propensity"]) == (3, pytest.approx(by_hand), row.propensity)
    # What a dataset of these decisions would take them for.
    assert math.exp(log_probability({item: math.log(p) for item, p in first.items()}, row.action)) == pytest.approx(
        row.propensity
    )
    asked = [ScoreItem(base_version.artifact.digest, Prompt(item), ("yes", "no"), 64) for item in offered]
    odds = [score.probabilities[0] / score.probabilities[1] for score in score_items(asked)]
    policy = acting_policy([one / sum(odds) for one in odds], temperature=0.5, epsilon=0.2)
    assert list(first.values()) == pytest.approx(policy, rel=1e-3)


def test_what_the_model_writes_has_the_form_and_its_log_probability(agent, by, base_version, api):
    form = {
        "type": "object",
        "properties": {"found": {"type": "array", "items": {"enum": ["a", "b"]}, "maxItems": 2}},
        "required": ["found"],
        "additionalProperties": False,
    }
    client = api("route:read")
    for space, schema in (("structured", form), ("text", None)):
        setup = AgentSetup(
            "{{ text }}", action_space=space, action_schema=schema, max_completion_tokens=500, temperature=0.1
        )
        create_agent_version(by=by, agent=agent, setup=setup)
        answer = client.post("agents/filer/decide", {"state": {"text": "flight hotel " * 40}})
        assert answer.status_code == 201, answer.content
        row = Decision.objects.get(id=answer.json()["decision_id"])
        assert math.fsum(row.logprobs) == answer.json()["logprob"] <= 0
        assert len(row.logprobs) == len(row.token_ids) == row.tokens_out
        assert row.tokens_in < 100  # the middle of the prompt is left out, as in training
        written = row.action if space == "text" else json.loads(row.completion)
        assert (row.action, row.propensity, row.model_version) == (written, None, base_version)


def test_a_batch_is_answered_in_order_and_by_what_was_learned(agent, by, base_version, api):
    rows = labelled(60, 9)
    answers = api("route:read").post(
        "agents/filer/decide", [{"state": {"text": row["prompt"]}} for row in rows]
    ).json()["answers"]  # fmt: skip
    assert len(answers) == 60
    best = [max(a["probabilities"], key=a["probabilities"].get) for a in answers]
    hits = sum(guess == row["answer"] for guess, row in zip(best, rows, strict=True))
    assert hits >= 24  # guessing gives 20: and a shuffled order would, too


def test_a_repeated_id_gets_the_recorded_answer(agent, by, base_version):
    own = uuid7()
    first = decide(by=by, agent="filer", items=[item(id=own)])[0]
    again = decide(by=by, agent="filer", items=[item(), item(id=own)])
    assert (again[1].decision_id, again[1].action, again[1].propensity) == (own, first.action, first.propensity)
    assert Decision.objects.count() == 2
    with pytest.raises(IdConflict):
        decide(by=by, agent="filer", items=[item("other text", id=own)])
    with pytest.raises(IdConflict):
        decide(by=by, agent="filer", items=[item("other text", id=own), item(id=own)])
    twice = uuid7()
    with pytest.raises(IdConflict):
        decide(by=by, agent="filer", items=[item(id=twice), item("other text", id=twice)])
    assert Decision.objects.count() == 2
    first, again = decide(by=by, agent="filer", items=[item(id=twice), item(id=twice)])
    assert first == again
    assert Decision.objects.count() == 3


@pytest.mark.django_db(transaction=True)
def test_one_id_at_the_same_moment_gets_one_answer(api, agent, by, challenger, base_version, at_once):
    """Alone and within a batch, of which the rest is each caller's own. An experiment runs: exposures count too."""
    start_experiment(by=by, treatment=challenger, plan=ExperimentPlan(), reason="a better one")
    client = api("route:read")
    for shared in range(1, 7):
        ids = [str(uuid7()) for _ in range(shared)]

        def ask(ids=ids):
            own = [{"state": {"text": "hotel"}}] if len(ids) > 1 else []
            sent = [{"id": one, "state": {"text": "flight hotel"}, "unit": one} for one in ids] + own
            answer = client.post("agents/filer/decide", sent if own else sent[0])
            assert answer.status_code == 201, answer.content
            return [json.dumps(one) for one in (answer.json()["answers"] if own else [answer.json()])]

        told = at_once(8, ask)
        assert len({tuple(answers[:shared]) for answers in told}) == 1
        stored = {str(row.id): row for row in Decision.objects.filter(id__in=ids)}
        for one in map(json.loads, told[0][:shared]):
            row = stored[one["decision_id"]]
            assert (row.action, row.propensity) == (one["action"], one["propensity"])
    assert Decision.objects.count() == sum(range(1, 7)) + 5 * 8
    assert Exposure.objects.count() == Decision.objects.count()


@pytest.mark.django_db(transaction=True)
def test_a_hundred_ids_decided_and_judged_by_eight_at_once_have_one_effect_each(api, agent, base_version, at_once):
    """Every caller decides, then judges what it was answered; by id and by an idempotency key in turns."""
    client = api("route:read", "feedback:write")
    for number in range(100):
        decision = str(uuid7())
        keyed = {"id": str(uuid7())} if number % 2 else {"idempotency_key": "once"}

        def decide_and_judge(decision=decision, keyed=keyed):
            answer = client.post("agents/filer/decide", {"id": decision, "state": {"text": "flight"}})
            assert answer.status_code == 201, answer.content
            verdict = {"decision_id": decision, "metric": "verdict", "value": "confirmed", **keyed}
            judged = client.post("feedback", verdict)
            assert judged.status_code == 201, judged.content
            return answer.json()["action"], answer.json()["propensity"], judged.json()["kept"][0]["id"]

        assert len(set(at_once(8, decide_and_judge))) == 1
    assert (Decision.objects.count(), Feedback.objects.count()) == (100, 100)


@pytest.mark.django_db(transaction=True)
class TestAnIdempotencyKey:
    KEY = {"Idempotency-Key": "ask-once"}
    SENT = [{"state": {"text": "flight"}}, {"state": {"text": "doctor"}}]

    @pytest.fixture
    def ask(self, api, agent, base_version):
        client = api("route:read")
        return lambda sent=self.SENT: client.post("agents/filer/decide", sent, **self.KEY)

    def test_no_transaction_is_open_while_the_model_answers(self, ask, monkeypatch):
        asked = []

        def spy(questions):
            asked.append((len(questions), connection.in_atomic_block))
            return score_versions(questions)

        score_versions = arms.score_versions
        monkeypatch.setattr(arms, "score_versions", spy)
        first, again = ask(), ask()
        assert (first.status_code, again.status_code) == (201, 201), first.content
        assert again.json() == first.json() and again.headers["Idempotent-Replayed"] == "true"
        assert [one for one in asked if one[0]] == [(2, False)]
        assert Decision.objects.count() == 2
        assert ask(self.SENT[:1]).status_code == 422

    def test_what_was_killed_in_between_is_found_by_the_repeat(self, ask, monkeypatch):
        with monkeypatch.context() as broken:
            broken.setattr("decisions.api.agents.as_plain", lambda answer: 1 / 0)  # after the rows were written
            assert ask().status_code == 500
        assert Decision.objects.count() == 2
        KeptAnswer.objects.update(created_at=timezone.now())  # as a SIGKILL leaves it
        held = ask()
        assert (held.status_code, held.json()["error"]["code"]) == (409, "request_in_flight")
        KeptAnswer.objects.update(created_at=timezone.now() - dt.timedelta(minutes=2))
        answers = ask().json()["answers"]
        rows = {str(row.id): row.action for row in Decision.objects.all()}
        assert {answer["decision_id"]: answer["action"] for answer in answers} == rows and len(rows) == 2

    def test_what_was_refused_or_could_not_be_answered_may_be_asked_again(self, ask, settings):
        address = settings.MODEL_SERVER_URL
        assert ask([{"state": {}}]).status_code == 400
        settings.MODEL_SERVER_URL = "http://127.0.0.1:1"
        assert ask().status_code == 503
        settings.MODEL_SERVER_URL = address
        assert ask().status_code == 201
        assert Decision.objects.count() == 2

    def test_many_at_once_have_one_effect(self, ask, at_once):
        answers = at_once(12, ask)
        assert {answer.status_code for answer in answers} <= {201, 409}
        assert len({answer.content for answer in answers if answer.status_code == 201}) == 1
        assert Decision.objects.count() == 2


def test_a_structured_action_is_chosen_among_what_its_schema_allows(api, agent, by, base_version):
    schema = {
        "type": "object",
        "properties": {
            "item": {"type": "string", "x-offered": "items[].id"},
            "urgent": {"type": "boolean"},
            "confidence": {"type": "number"},
        },
        "required": ["item", "urgent"],
    }
    setup = AgentSetup("{{ items }}", action_space="structured", action_schema=schema, epsilon=0.2)
    version = create_agent_version(by=by, agent=agent, setup=setup)
    sent = {"state": {"items": [{"id": "a"}, {"id": "b"}]}, "id": str(uuid7())}
    client = api("route:read")
    answer = client.post("agents/filer/decide", sent)
    assert answer.status_code == 201, answer.content
    told = answer.json()
    options = [
        json.dumps({"item": item, "urgent": urgent}, separators=(",", ":")) for item in "ab" for urgent in (True, False)
    ]
    assert list(told["probabilities"]) == options
    assert told["propensity"] == told["probabilities"][json.dumps(told["action"], separators=(",", ":"))]
    row = Decision.objects.get(id=told["decision_id"])
    assert (row.action, row.options, row.agent_version) == (told["action"], None, version)
    assert [one["action"] for one in row.alternatives] == [json.loads(option) for option in options]
    assert client.post("agents/filer/decide", sent).json() == told
    for wrong, field in (({"state": {"items": []}}, "state"), (sent | {"options": ["a", "b"]}, "options")):
        refused = client.post("agents/filer/decide", wrong | {"id": str(uuid7())})
        assert (refused.status_code, refused.json()["error"]["fields"][0]["field"]) == (400, field)
    assert Decision.objects.count() == 1


def test_an_experiment_exposes_each_unit_once_and_keeps_it(agent, by, challenger, base_version):
    start_experiment(by=by, treatment=challenger, plan=ExperimentPlan(), reason="a better one")
    units = [f"unit-{n % 20}" for n in range(60)]
    answers = decide(by=by, agent="filer", items=[item(unit=unit) for unit in units])
    assert Exposure.objects.count() == 20
    arms = {}
    for unit, answer in zip(units, answers, strict=True):
        assert arms.setdefault(unit, answer.arm) == answer.arm
        assert answer.model_version == (challenger if answer.arm == "treatment" else base_version)
        assert answer.assignment_probability == 0.5
    assert set(arms.values()) == {"control", "treatment"}
    for decision in Decision.objects.select_related("exposure"):
        assert (decision.exposure.unit, decision.exposure.arm) == (decision.unit, arms[decision.unit])
        assert decision.exposure.exposed_at <= decision.recorded_at
    decide(by=by, agent="filer", items=[item(unit="unit-0")])
    assert Exposure.objects.count() == 20


def test_the_control_answers_for_a_treatment_that_cannot(agent, by, base_version, broken_treatment):
    broken_treatment()
    answers = decide(by=by, agent="filer", items=[item(unit=f"unit-{n}") for n in range(30)])
    assert {answer.model_version for answer in answers} == {base_version}
    treated = [answer for answer in answers if answer.arm == "treatment"]
    assert treated
    for answer in answers:
        assert answer.fallback == (answer.arm == "treatment")
    assert set(Exposure.objects.values_list("arm", "served_arm", "fallback", "version")) == {
        ("control", "control", False, base_version.id),
        ("treatment", "control", True, base_version.id),
    }


def test_the_control_answers_for_one_unit_alone_as_well(agent, by, base_version, broken_treatment):
    """With one item the model server's whole answer is an error."""
    broken_treatment(treatment_share=0.99)
    answers = [decide(by=by, agent="filer", items=[item(unit=f"unit-{n}")])[0] for n in range(3)]
    assert {answer.model_version for answer in answers} == {base_version}
    assert any(answer.fallback for answer in answers)


@pytest.mark.parametrize("conditioned", [True, False])
def test_both_arms_probabilities_of_an_action_are_logged(agent, by, challenger, base_version, conditioned):
    """The arms have the same weights here, so both give the action drawn the same probability."""
    decide(by=by, agent="filer", items=[item(unit="before")])
    start_experiment(by=by, treatment=challenger, plan=ExperimentPlan(conditioned=conditioned), reason="a better one")
    decide(by=by, agent="filer", items=[item(unit=f"unit-{n}") for n in range(20)])
    logged = Decision.objects.exclude(unit="before").values_list("propensity", "other_arm_propensity", "exposure__arm")
    assert {arm for *_, arm in logged} == {"control", "treatment"}
    for propensity, other, _ in logged:
        assert other == (pytest.approx(propensity, rel=1e-5) if conditioned else None)
    assert Decision.objects.get(unit="before").other_arm_propensity is None


def test_a_decision_that_no_arm_can_answer_counts_against_the_arm_that_was_asked(
    agent, by, base_version, challenger, api, settings
):
    experiment = start_experiment(by=by, treatment=challenger, plan=ExperimentPlan(), reason="a better one")
    close_clients()
    settings.MODEL_SERVER_URL = "http://127.0.0.1:1"
    for number in range(12):
        answer = api("route:read").post("agents/filer/decide", {"state": {"text": "x"}, "unit": f"unit-{number}"})
        assert (answer.status_code, answer.json()["error"]["code"]) == (503, "backend_unavailable")
    assert not Decision.objects.exists()
    failed = FailedRequest.objects.values_list("exposure__arm", "exposure__served_arm", "exposure__fallback")
    assert len(failed) == 12
    assert set(failed) == {("control", "control", False), ("treatment", "treatment", False)}
    mature_outcomes(timezone.now() + dt.timedelta(days=3))
    experiment.refresh_from_db()
    assert experiment.requests_control == experiment.failed_control > 0
    assert experiment.requests_treatment == experiment.failed_treatment > 0
    assert experiment.guardrail_evidence["error_rate"]["units"] == 12
    assert set(Observation.objects.values_list("guardrails__error_rate", flat=True)) == {1.0}


def test_a_version_is_loaded_before_it_gets_traffic(agent, by, challenger, base_version, api):
    """And one that cannot be loaded gets none, by hand or in an experiment."""

    def is_loaded():
        own = own_endpoint()
        address = f"{own.url}/v1/models/{challenger.artifact.digest}"
        return http_client(own.url, own=True).get(address, headers=headers_of(own)).json()["loaded"]

    client, address = api("admin"), f"versions/{challenger.id}/promote"
    folder = artifact_path(challenger.artifact.digest)
    folder.rename(folder.with_name("elsewhere"))
    reason = {"reason": "better"}
    for refused in (
        client.post(address, reason),
        client.post("experiments", {"treatment": str(challenger), **reason}),
    ):
        assert (refused.status_code, refused.json()["error"]["code"]) == (422, "backend_refused")
    assert get_champion(agent.registered_model) == base_version
    assert not Experiment.objects.exists()
    folder.with_name("elsewhere").rename(folder)
    assert not is_loaded()
    assert client.post(address, reason).status_code == 200
    assert is_loaded()


def test_a_champion_that_cannot_answer_is_an_error_and_nothing_is_recorded(agent, by, challenger, api):
    move_alias(by=by, version=challenger, name="champion")
    shutil.rmtree(artifact_path(challenger.artifact.digest))
    answer = api("route:read").post("agents/filer/decide", {"state": {"text": "x"}})
    assert (answer.status_code, answer.json()["error"]["code"]) == (503, "backend_unavailable")
    assert not Decision.objects.exists()


def test_without_a_server_the_answer_is_an_error_and_nothing_is_recorded(agent, by, base_version, settings):
    settings.MODEL_SERVER_URL = "http://127.0.0.1:1"
    with pytest.raises(BackendUnavailable):
        decide(by=by, agent="filer", items=[item()])
    assert not Decision.objects.exists()
    assert not Exposure.objects.exists()


@pytest.mark.parametrize(
    ("body", "fields"),
    [
        ({"state": {}}, {"state.text"}),
        ([{"state": {}}, {"state": {"text": "x"}, "options": ["a", "b"]}], {"items[0].state.text", "items[1].options"}),
        ({"state": {"text": "x"}, "id": "0195e1d8-1111-4111-8111-111111111111"}, {"id"}),
        ([{"state": {"text": "x"}}] * 257, set()),
    ],
    ids=["missing field", "several", "id", "too many"],
)
def test_what_cannot_be_asked_is_refused_before_anything_is_asked(api, agent, base_version, body, fields):
    answer = api("route:read").post("agents/filer/decide", body)
    assert answer.status_code == 400
    assert {fault["field"] for fault in answer.json()["error"]["fields"]} == fields
    assert not Decision.objects.exists()


def test_an_item_at_fault_has_an_error_in_its_place_and_the_others_are_decided_on(
    api, by, agent, base_version, other_workspace
):
    """By its fields, its state, its options, and an id that was taken by another question, here or elsewhere."""
    client, taken = api("route:read"), [str(uuid7()) for _ in range(2)]
    asked = {"state": {"text": "flight hotel"}}
    assert client.post("agents/filer/decide", asked | {"id": taken[0]}).status_code == 201
    DecisionFactory(id=taken[1], agent=AgentFactory(workspace=other_workspace))
    items = [
        asked,
        {"state": "flight"},
        {"state": {}},
        asked | {"id": taken[0], "state": {"text": "other"}},
        asked | {"id": taken[1]},
        asked | {"options": ["a", "b"]},
        asked | {"unit": "ann"},
    ]
    key = {"Idempotency-Key": "several"}
    answer = client.post("agents/filer/decide", items, **key)
    assert answer.status_code == 207, answer.content
    told = answer.json()["answers"]
    wrong = {number: one["error"] for number, one in enumerate(told) if "error" in one}
    assert {number: (error["code"], error["fields"][0]["field"]) for number, error in wrong.items()} == {
        1: ("invalid_input", "state"),
        2: ("invalid_input", "state.text"),
        3: ("id_conflict", "id"),
        4: ("invalid_input", "id"),
        5: ("invalid_input", "options"),
    }
    assert {told[0]["decision_id"], told[6]["decision_id"], taken[0]} == {
        str(pk) for pk in Decision.objects.filter(workspace=agent.workspace).values_list("id", flat=True)
    }
    again = client.post("agents/filer/decide", items, **key)
    assert (again.status_code, again.json()) == (207, answer.json())
    alone = client.post("agents/filer/decide", items[1:5])
    assert (alone.status_code, Decision.objects.count()) == (400, 4)


def test_an_agent_without_a_model_says_so(api, agent):
    answer = api("route:read").post("agents/filer/decide", json.loads('{"state": {"text": "x"}}'))
    assert (answer.status_code, answer.json()["error"]["code"]) == (409, "no_champion")
    message = answer.json()["error"]["message"]
    assert all(word in message for word in ("filer", "import_labelled", "POST /api/v1/runs", "docs/runs.md"))
    assert not Decision.objects.exists()


def test_a_question_that_no_model_could_answer_is_the_askers_fault(api, agent, by, base_version, challenger):
    setup = AgentSetup("{{ text }}", options=list(OPTIONS), max_prompt_tokens=5000)
    create_agent_version(by=by, agent=agent, setup=setup)
    start_experiment(by=by, treatment=challenger, plan=ExperimentPlan(), reason="a better one")
    short, long = {"state": {"text": "flight"}}, {"state": {"text": "flight " * 3000}}
    answer = api("route:read").post("agents/filer/decide", [short, long])
    assert (answer.status_code, answer.json()["error"]["code"]) == (422, "backend_refused")
    assert [fault["field"] for fault in answer.json()["error"]["fields"]] == ["items[1]"]
    assert not Decision.objects.exists()
    assert not Exposure.objects.exists()
