"""The served description of the API: valid, complete, and true about who is turned away and what is answered.

The examples stand in each floor's `examples.py`. Each fits its schema; each is sent, and gets the answer it shows.
"""

import io
import json
import tarfile
import time
from dataclasses import replace
from urllib.parse import urlencode

import pytest
from django.test import Client, override_settings
from django.utils import timezone

from decisions.agents.services import AgentSetup, create_agent, create_agent_version, create_notes_agents
from decisions.api import examples as ledger
from decisions.api import queue_examples, reward_examples
from decisions.labelling.matching import Selection, read_filters
from decisions.models import Agent, Step
from decisions.notes_app import examples as notes_app
from decisions.queries.by_name import LAST
from models_registry.api import examples as registry
from project.openapi import EXAMPLES
from tests.api_client import ApiMaker
from tests.architecture.test_api_matrix import undone
from tools.factories import (
    IMPORT_PAYLOAD,
    OPTIONS,
    AgentFactory,
    AliasFactory,
    AliasMoveFactory,
    ApiKeyFactory,
    ArtifactFactory,
    BackendFactory,
    BulkLabelFactory,
    CallFactory,
    DatasetSnapshotFactory,
    DecisionFactory,
    DeploymentFactory,
    EpisodeFactory,
    ErasureFactory,
    EvaluationSuiteFactory,
    ExperimentFactory,
    ExperimentGroupFactory,
    ExportJobFactory,
    FeedbackFactory,
    HoldoutFactory,
    InvitationFactory,
    ItemFactory,
    JobFactory,
    LabelFactory,
    LabelQueueFactory,
    MembershipFactory,
    ModelVersionFactory,
    PhaseFactory,
    ProjectFactory,
    QueueItemFactory,
    ReservationFactory,
    RewardDraftFactory,
    RewardFactory,
    RunEventFactory,
    ShadowAnswerFactory,
    ShadowFactory,
    ShadowPointFactory,
    StatusChangeFactory,
    StepFactory,
    SuiteScoreFactory,
    TrainingRunFactory,
    VariantFactory,
    WorkspaceFactory,
    put_files,
    put_rows,
    uuid7,
)
from tools.openapi import document_faults, example_faults, missing_examples, operations, schema_faults, shown
from training.api import best_examples
from training.api import examples as training
from training.datasets.snapshots import snapshot_ledger
from training.exports import examples as export_examples
from workspaces.access.actors import system
from workspaces.http import examples as workspaces_examples

pytestmark = pytest.mark.slow

ENVELOPE = {"code", "message", "fields", "request_id"}
# Sent, too, but what they show cannot come without more than this test has.
UNANSWERED = {
    "decide": (503, "backend_unavailable"),  # tests/decisions/gateway/test_gateway.py asks a real model server
    # The agent's options are fixed: tests/training/solving has one that acts.
    "solve": (400, "invalid_input"),
    "solve_batch": (400, "invalid_input"),
    "ask_again": (503, "backend_unavailable"),  # tests/decisions/gateway/test_playground.py asks a server
    # No model: tests/decisions/notes_app/test_notes_app_ai.py
    **{f"notes_{name}": (409, "no_champion") for name in ("file", "prioritize", "store", "retrieve", "relate")},
    # The caller holds no place: tests/decisions/labelling/test_label_queue_api.py
    "cancel_bulk_label": (409, "conflict"),  # it has no job: tests/decisions/labelling/test_bulk_labels.py
    **{f"{verb}_in_queue": (409, "conflict") for verb in ("label", "draft", "discard", "skip", "undo")},
}


@pytest.fixture(scope="module")
def document():
    """Those of /api/v1 and of the notes app, together."""
    whole = {}
    for name in ("", "/notes-app"):
        answer = Client().get(f"/api/v1/schema{name}", headers={"Accept": "application/vnd.oai.openapi+json"})
        assert answer.status_code == 200
        served = json.loads(answer.content)
        whole = whole or served
        assert not whole["paths"].keys() & served["paths"].keys() or whole is served
        whole["paths"] |= served["paths"]
        for kind, components in served["components"].items():
            whole["components"].setdefault(kind, {}).update(components)
    return whole


@pytest.fixture(scope="module")
def by_id(document):
    """Method, path and operation, by operation id."""
    return {operation["operationId"]: (method, path, operation) for method, path, operation in operations(document)}


def resolved(document, node):
    return document["components"][node["$ref"].split("/")[-2]][node["$ref"].split("/")[-1]] if "$ref" in node else node


def filled_in(path):
    given = {"slug": "filer", "subjects": "decisions", "id": "0195e1d8-1111-7111-8111-111111111111", "number": "1"}
    given["name"] = "equations"
    return path.format(**given)


def parameter_names(document, operation):
    return [resolved(document, parameter)["name"] for parameter in operation.get("parameters", [])]


def test_the_document_is_valid_openapi_3_1(document):
    assert document["openapi"].startswith("3.1")
    assert document_faults(document) == []


def test_operation_ids_are_unique(document, by_id):
    assert len(by_id) == len(list(operations(document))) >= 50


def test_no_operation_names_a_parameter_twice(document):
    for method, path, operation in operations(document):
        names = parameter_names(document, operation)
        assert len(set(names)) == len(names), (method, path)


def test_every_operation_states_its_refusals_as_shared_responses(document):
    for method, path, operation in operations(document):
        responses = operation["responses"]
        refusals = {status: answer for status, answer in responses.items() if not status.startswith("2")}
        for status, answer in refusals.items():
            stated = resolved(document, answer)
            assert stated is not answer, (method, path, status)
            assert stated["content"]["application/json"]["schema"]["$ref"].endswith("/Error")
        expected = {"401", "403", "429", "503"}
        if "{" in path:
            expected |= {"404"}
        if "requestBody" in operation:
            expected |= {"400", "411", "413", "415"}
        if method == "post":
            expected |= {"400", "409", "422"}
        assert expected <= set(refusals), (method, path)


def test_every_post_and_nothing_else_takes_an_idempotency_key(document):
    for method, path, operation in operations(document):
        takes = "Idempotency-Key" in parameter_names(document, operation)
        replayed = {"Idempotent-Replayed" in answer.get("headers", {}) for answer in operation["responses"].values()}
        assert takes == (method == "post"), (method, path)
        assert (True in replayed) == (method == "post"), (method, path)


def test_every_operation_has_examples_and_every_example_its_operation(document, by_id):
    missing = {name: missing_examples(operation) for name, (_, _, operation) in by_id.items()}
    assert {name: what for name, what in missing.items() if what} == {}
    assert set(EXAMPLES) == set(by_id)
    for name, examples in EXAMPLES.items():
        assert len({example.name for example in examples}) == len(examples), name
        for example in examples:
            # What the path needs is said, so that the example can be sent.
            assert by_id[name][1].format(**example.path)


def test_every_example_fits_its_schema(document):
    assert example_faults(document) == []


def test_an_example_that_does_not_fit_is_found(document, by_id):
    broken = json.loads(json.dumps(document))
    answers = broken["paths"]["/api/v1/keys"]["get"]["responses"]["200"]["content"]
    (value,) = [value for _, value, _ in shown(answers)]
    value["results"][0]["id"] = "no id"
    assert [fault.partition(":")[0] for fault in example_faults(broken)] == [
        "keys_list, example, $.results[0].id",
    ]
    del answers["application/json"]["examples"]
    assert missing_examples(broken["paths"]["/api/v1/keys"]["get"]) == ["200"]


@pytest.mark.django_db
def test_every_operation_turns_an_anonymous_caller_away_with_the_envelope(document):
    for method, path, _ in operations(document):
        url = filled_in(path)
        assert "{" not in url
        answer = Client().generic(method.upper(), url, b"{}", content_type="application/json")
        assert answer.status_code == 401, (method, path)
        assert answer.headers["WWW-Authenticate"].startswith("Bearer")
        error = answer.json()["error"]
        assert set(error) == ENVELOPE
        assert error["code"] == "not_authenticated"
        assert error["request_id"] == answer.headers["X-Request-Id"]


@pytest.mark.django_db
def test_every_operation_says_that_it_answers_with_nothing_that_is_asked_for(document, api):
    """But for exports, curves and traces, which answer in one way."""
    stating = [(method, path) for method, path, operation in operations(document) if "406" in operation["responses"]]
    assert len(stating) == len(list(operations(document))) - 7
    for method, path in stating:
        url = filled_in(path)
        answer = api().request(method.upper(), url, {}, Accept="image/png")
        assert answer.status_code == 406, (method, path, answer.content)
        assert set(answer.json()["error"]) == ENVELOPE
        assert answer.json()["error"]["code"] == "not_acceptable"


def test_every_answer_says_what_it_means(document):
    for method, path, operation in operations(document):
        for status, answer in operation["responses"].items():
            assert resolved(document, answer)["description"], (method, path, status)


@pytest.fixture(scope="module")
def stories(module_db, tmp_path_factory):
    """The workspaces in which the examples are sent, made once; what an example changes is undone after it. By whether
    it is the notes app's: the workspace, and the real id of each id that the examples show."""
    folder = tmp_path_factory.mktemp("store")
    (folder / "runs").mkdir()
    with override_settings(ARTIFACTS=str(folder / "artifacts"), RUNS=folder / "runs"):
        ledger_of, notes_of = WorkspaceFactory(slug="acme", name="Acme"), WorkspaceFactory(slug="notes", name="Notes")
        yield {
            False: (ledger_of, make_ledger(ledger_of)),
            True: (notes_of, make_notes_app(notes_of)),
        }


def make_served_chat(workspace, refs):
    """The decision of the agent that plans journeys: a chat that it answered by calling a tool."""
    setup = AgentSetup(prompt_template="{{ input }}", action_space="tool_calls", system_prompt="You plan journeys.")
    planner = create_agent(by=system(workspace), slug="planner", name="Planner", kind="CUSTOM", setup=setup)
    served = json.loads(ledger.served_line({}))
    [_, asked, answer] = served["messages"]
    [call] = answer["tool_calls"]
    state = {"input": asked["content"], "messages": [asked], "tools": served["tools"]}
    action = [{"id": call["id"], **call["function"]}]
    decision = DecisionFactory(agent=planner, state=state, options=["weather"], action=action, confidence=None, **refs)
    FeedbackFactory(decision=decision)
    return decision


def make_ledger(workspace):
    """What the story of the examples says that there is; the real id of each of its ids."""
    by = system(workspace)
    setup = AgentSetup(prompt_template="{{ text }}", options=OPTIONS)
    agent = create_agent(by=by, slug="filer", name="Filer", kind="FILER", setup=setup)
    create_agent_version(by=by, agent=agent, setup=replace(setup, epsilon=0.1), acts=False)
    champion, version, exported = ModelVersionFactory.create_batch(3, registered_model=agent.registered_model)
    AliasFactory(version=champion)
    other = AgentFactory(workspace=workspace).registered_model
    group = ExperimentGroupFactory(registered_model=other)
    experiment = ExperimentFactory(registered_model=other, group=group)
    PhaseFactory(experiment=experiment)
    for arm in ("control", "treatment"):
        VariantFactory(experiment=experiment, arm=arm, version=ModelVersionFactory(registered_model=other))
    episode = EpisodeFactory(agent=agent, external_id="mailbox-7", session="ann-monday")
    refs = {"unit": "item-1", "item_ref": "item-1", "project_ref": "opus-1", "user_ref": "user-1"}
    decision = DecisionFactory(agent=agent, state=ledger.STATE, action="travel", episode=episode, **refs)
    FeedbackFactory(decision=decision)
    RewardFactory(decision=decision)
    RewardFactory(decision=make_served_chat(workspace, refs))
    queue = LabelQueueFactory(workspace=workspace, slug="tickets", overlap=2, filters={"agent": "filer"})
    disputed = QueueItemFactory(queue=queue, decision=decision, state="disputed")
    for place, said, right in ((1, "confirmed", None), (2, "corrected", "finance")):
        label = LabelFactory(decision=decision, verdict=said, corrected_action=right, reviewer__name=said)
        ReservationFactory(item=disputed, place=place, holder=said, label=label)
    answered = put_rows([{"id": "17", "prompt": "x", "options": ["finance", "travel"], "answer": "travel"}])
    held_out = DatasetSnapshotFactory(
        agent=agent, artifact=ArtifactFactory(workspace=workspace, kind="dataset", digest=answered.digest)
    )
    suite = EvaluationSuiteFactory(agent=agent, dataset=held_out)
    files = ArtifactFactory(workspace=workspace, digest=put_files({"config.json": "{}"}).digest)
    run = TrainingRunFactory(
        agent=agent, dataset=held_out, job=JobFactory(workspace=workspace, kind="training.supervise_run")
    )
    backend = BackendFactory(workspace=workspace, name="openai", url="https://api.openai.com/v1")
    deployment = DeploymentFactory(version=version, backend=backend)
    AliasFactory(version=version, name="fallback")
    AliasMoveFactory(after=version, name="fallback")
    CallFactory(assigned=version)
    return {
        workspaces_examples.KEY: ApiKeyFactory(workspace=workspace).id,
        workspaces_examples.MEMBER: MembershipFactory(workspace=workspace, role="labeller").id,
        workspaces_examples.INVITATION: InvitationFactory(workspace=workspace).id,
        registry.VERSION: version.id,
        registry.CHAMPION: champion.id,
        registry.SPARE: ModelVersionFactory(registered_model=agent.registered_model).id,
        registry.EXPERIMENT: experiment.id,
        registry.GROUP: group.id,
        registry.HOLDOUT: HoldoutFactory(
            version=ModelVersionFactory(registered_model=other),
            counted_at=timezone.now(),
            figures={name: {"served": [60, 30.0, 20.0], "held": [60, 30.0, 20.0]} for name in ("0", "whole")},
        ).id,
        registry.MODEL: version.registered_model_id,
        registry.BACKEND: backend.id,
        registry.DEPLOYMENT: deployment.id,
        registry.UNUSED: BackendFactory(workspace=workspace, name="unused").id,
        ledger.DECISION: decision.id,
        ledger.FRESH: uuid7(),
        ledger.EPISODE: episode.id,
        ledger.STEP: StepFactory(episode=episode).id,
        ledger.TRACE_SECONDS: int(time.time()),
        training.DATASET: snapshot_ledger(by=by, agent=agent, name="notes of November").id,
        training.IMPORT: JobFactory(workspace=workspace, kind="training.import", payload=IMPORT_PAYLOAD).id,
        training.FREEZING: JobFactory(
            workspace=workspace, kind="training.freeze_dataset", payload={"agent": "filer", "name": "n"}
        ).id,
        best_examples.BEST: JobFactory(
            workspace=workspace, kind="training.train_best", payload={"agent": "filer", "tag": "best-1"}
        ).id,
        ledger.CALCULATION: JobFactory(
            workspace=workspace, kind="decisions.calculate_rewards", payload={"requested_by": "system"}
        ).id,
        reward_examples.DRAFT: draft_of(agent).id,
        queue_examples.BULK: BulkLabelFactory(workspace=workspace, undone_at=None).id,
        queue_examples.BEFORE: LAST,
        queue_examples.DIGEST: Selection(read_filters({"agent": "filer"}), before=LAST).digest,
        training.HELD_OUT: held_out.id,
        training.SUITE: suite.id,
        training.SUITE_SCORE: SuiteScoreFactory(suite=suite, version=version).id,
        training.SCORING: JobFactory(workspace=workspace, kind="training.score_suite").id,
        training.RUN: run.id,
        training.EVENT: RunEventFactory(run=run).id,
        training.SHADOW: shadow_of(agent, exported, decision).id,
        export_examples.EXPORT: ExportJobFactory(version=exported, state="ready", artifact=files).id,
        export_examples.QUEUED_EXPORT: ExportJobFactory(
            version=exported, format="lora", job=JobFactory(workspace=workspace, kind="training.export_version")
        ).id,
        workspaces_examples.ADMIN_EMAIL: MembershipFactory(workspace=workspace, role="admin").user.email,
        training.ERASURE: ErasureFactory(workspace=workspace).id,
    }


def shadow_of(agent, version, decision):
    """It has answered one decision, otherwise."""
    shadow = ShadowFactory(agent=agent, version=version)
    ShadowAnswerFactory(shadow=shadow, decision=decision, agrees=False)
    return ShadowPointFactory(shadow=shadow).shadow


def draft_of(agent):
    return RewardDraftFactory(base=agent.reward_specs.get(number=1))


def make_notes_app(workspace):
    """The same for the notes app, whose filer is the kind's own; its decision waits for its reward."""
    create_notes_agents(by=system(workspace))
    refs = {"unit": "item-1", "item_ref": "item-1", "project_ref": "opus-1", "user_ref": "user-1"}
    shared = {"state": notes_app.STATE, "action": notes_app.ACTION, "options": None}
    filer = Agent.objects.get(workspace=workspace, kind="FILER")
    waiting, rewarded = (
        DecisionFactory(agent=filer, policy_name=name, **shared, **refs) for name in ("outside", "rules")
    )
    FeedbackFactory(decision=waiting)
    FeedbackFactory(decision=rewarded)
    RewardFactory(decision=rewarded)
    ProjectFactory(workspace=workspace, ref="opus-1")
    item = ItemFactory(workspace=workspace, ref="item-1")
    return {ledger.DECISION: waiting.id, ledger.CHANGE: StatusChangeFactory(item=item).id}


def names(value):
    """Of an object or of a list's first: its names, and those in its lists' first objects."""
    if isinstance(value, list):
        return names(value[0]) if value else None
    if not isinstance(value, dict):
        return None
    lists = {name: names(inner) for name, inner in value.items() if isinstance(inner, list) and inner}
    return {name: lists.get(name) for name in value}


def alike(one, other):
    """The same names; a list that is empty on one side says nothing."""
    return (
        one is None or other is None or (set(one) == set(other) and all(alike(one[name], other[name]) for name in one))
    )


def test_every_example_is_answered_as_it_shows(db, stories, document, by_id):
    faults = []
    for operation_id, examples in EXAMPLES.items():
        for example in examples:
            try:
                with undone():
                    send_example(stories, operation_id, example, document, by_id)
            except Exception as error:  # noqa: BLE001 - whatever it was, the others are sent, too
                faults.append(f"{operation_id}, {example.name}: {type(error).__name__}: {error}")
    assert not faults, "\n".join(faults)


def send_example(stories, operation_id, example, document, by_id):
    workspace, there = stories[operation_id.startswith("notes_")]

    def real(value):
        text = json.dumps(value)
        for told, found in there.items():
            text = text.replace(told, str(found))
        return json.loads(text)

    method, path, operation = by_id[operation_id]
    url = path.format(**real(dict(example.path)))
    url += f"?{urlencode(real(dict(example.query)))}" if example.query else ""
    steps = Step.objects.count()
    client = ApiMaker(workspace)()
    answer = client.request(method.upper(), url, real(example.request) if example.request is not None else None)
    status, refusal = UNANSWERED.get(operation_id, (example.status, ""))
    assert answer.status_code == status, answer.content
    if operation_id in UNANSWERED:
        assert answer.json()["error"]["code"] == refusal
        return
    assert answer.headers["Content-Type"].partition(";")[0] == example.media
    if example.media == export_examples.TAR:
        assert tarfile.is_tarfile(io.BytesIO(b"".join(answer.streaming_content)))
        return
    if example.media == "text/csv":
        told = b"".join(answer.streaming_content).decode()
        assert told.splitlines()[0] == example.answer.splitlines()[0]
        return
    if example.media == ledger.NDJSON:
        found = [json.loads(line) for line in b"".join(answer.streaming_content).splitlines()]
        example_lines = [json.loads(line) for line in example.answer.splitlines()]
        assert found
        assert names(found) == names(example_lines)
        assert set(found[0].get("metadata", ())) == set(example_lines[0].get("metadata", ()))
        return
    found = answer.json()
    schema = operation["responses"][str(status)]["content"][example.media]["schema"]
    assert schema_faults(document, schema, found) == []
    assert alike(names(found), names(example.answer)), (names(found), names(example.answer))
    if operation_id == "export_traces":
        assert Step.objects.count() == steps + 1
