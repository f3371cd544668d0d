"""Requests made up from the OpenAPI document by schemathesis: usable ones, and ones that break the schema on purpose.

The tests send some hundreds through Django, `benchmarks.generated_requests` thousands over HTTP. Whoever sends decides
what is a failure.
"""

from __future__ import annotations

import copy
import datetime as dt
import random
from collections.abc import Callable, Mapping
from typing import Any

import hypothesis
import requests
import schemathesis.openapi
from hypothesis import strategies as st
from hypothesis.errors import Unsatisfiable
from schemathesis.generation import GenerationMode

BASE = "http://testserver"
NO_MODEL = (("/decide", "/ask"), 503)
"""Ends of paths, and what it answers where no model server is: that is no fault."""
JSON = "application/json"
# Fields of bodies that name something, and where in the API it lies.
NAMES = {
    "agent": "agents",
    "decision_id": "decisions",
    "episode_id": "episodes",
    "dataset": "datasets",
    "heldout": "datasets",
    "replay": "datasets",
    "base_version": "versions",
    "treatment": "versions",
    "version": "versions",
}


def is_fault(request: requests.PreparedRequest, status: int) -> bool:
    """Whether the server is to blame."""
    ends, status_without_model = NO_MODEL
    return status >= 500 and not (request.path_url.partition("?")[0].endswith(ends) and status == status_without_model)


def make_known(agent: Any) -> dict[str, str]:
    """One of everything beside the agent, in its workspace: the ids by their place in the API. Call with Django set up;
    `tools.factories` makes them."""
    from decisions.agents.services import create_agent
    from tools import factories as made
    from workspaces.access.actors import system

    workspace, model = agent.workspace, agent.registered_model
    create_agent(by=system(workspace), slug="notes", name="Notes", kind="FILER")
    champion, version = made.ModelVersionFactory.create_batch(2, registered_model=model)
    made.AliasFactory(version=champion)
    other = made.AgentFactory(workspace=workspace).registered_model
    group = made.ExperimentGroupFactory(registered_model=other)
    experiment = made.ExperimentFactory(registered_model=other, group=group)
    made.PhaseFactory(experiment=experiment)
    for arm in ("control", "treatment"):
        made.VariantFactory(experiment=experiment, arm=arm, version=made.ModelVersionFactory(registered_model=other))
    episode = made.EpisodeFactory(agent=agent)
    decision = made.DecisionFactory(agent=agent, episode=episode, unit="ann")
    made.StepFactory(episode=episode)
    made.FeedbackFactory(decision=decision)
    made.RewardFactory(decision=decision)
    dataset = made.DatasetSnapshotFactory(agent=agent)
    job = made.JobFactory(workspace=workspace, kind="training.supervise_run")
    run = made.TrainingRunFactory(agent=agent, dataset=dataset, job=job)
    made.RunEventFactory(run=run)
    there = {
        "decisions": decision,
        "episodes": episode,
        "datasets": dataset,
        "suites": (suite := made.EvaluationSuiteFactory(agent=agent, dataset=dataset)),
        "scorings": made.JobFactory(workspace=workspace, kind="training.score_suite"),
        "freezings": made.JobFactory(
            workspace=workspace, kind="training.freeze_dataset", payload={"agent": agent.slug, "name": "n"}
        ),
        "imports": made.JobFactory(workspace=workspace, kind="training.import", payload=made.IMPORT_PAYLOAD),
        "runs": run,
        "shadows": made.ShadowFactory(agent=agent, version=version),
        "versions": version,
        "experiments": experiment,
        "experiment-groups": group,
        "holdouts": made.HoldoutFactory(version=made.ModelVersionFactory(registered_model=other)),
        "models": version.registered_model,
        "backends": (backend := made.BackendFactory(workspace=workspace)),
        "deployments": made.DeploymentFactory(version=version, backend=backend),
        "bulk-labels": made.BulkLabelFactory(workspace=workspace),
        "exports": made.ExportJobFactory(version=version),
        "erasures": made.ErasureFactory(workspace=workspace),
        "keys": made.ApiKeyFactory(workspace=workspace),
        "members": made.MembershipFactory(workspace=workspace, role="labeller"),
        "invitations": made.InvitationFactory(workspace=workspace),
        "status-changes": made.StatusChangeFactory(item=made.ItemFactory(workspace=workspace)),
    }
    made.SuiteScoreFactory(suite=suite, version=version)
    there["reward-drafts"] = made.RewardDraftFactory(base=agent.reward_specs.get(number=1))
    queue = made.LabelQueueFactory(workspace=workspace)
    made.ReservationFactory(item=made.QueueItemFactory(queue=queue, decision=decision))
    slugs = {"agents": agent.slug, "reward-specs": "1", "label-queues": queue.slug, "environments": "equations"}
    # What follows a queue's slug in a path, and what follows that.
    slugs |= {"{slug}": "decisions", "{subjects}": str(decision.pk)}
    return {**slugs, **{place: str(one.pk) for place, one in there.items()}}


def send_generated(
    document: dict[str, Any],
    send: Callable[[requests.PreparedRequest, frozenset[int]], None],
    *,
    each: int,
    known: Mapping[str, str],
    seed: int = 0,
) -> int:
    """Makes up to `each` requests an operation and mode, the same for the same seed; returns how many were sent.

    `send` also hears which statuses the operation states. `known`, as `make_known` gives it, says what is there: every
    second request names it, and its body is an example with some fields made up, so that it comes further than to the
    first refusal.
    """
    sent = 0
    rng = random.Random(seed)
    for result in schemathesis.openapi.from_dict(document).get_all_operations():
        operation = result.ok()
        for mode in (GenerationMode.POSITIVE, GenerationMode.NEGATIVE):

            def one(case: Any) -> None:
                nonlocal sent
                if rng.random() < 0.5:
                    _come_further(case, rng, known, f"generated-{seed}-{sent}")
                stated = frozenset(map(int, case.operation.definition.raw["responses"]))
                send(requests.Request(**case.as_transport_kwargs(base_url=BASE)).prepare(), stated)
                sent += 1

            settings = _settings(each)
            try:
                hypothesis.seed(seed)(settings(hypothesis.given(operation.as_strategy(generation_mode=mode))(one)))()
            except Unsatisfiable:
                continue  # an operation without parameters has no request that breaks its schema
    return sent


def _settings(each: int) -> hypothesis.settings:
    """Examples are drawn and sent once: none is kept, shrunk or timed."""
    return hypothesis.settings(
        max_examples=each,
        deadline=None,
        database=None,
        suppress_health_check=list(hypothesis.HealthCheck),
        phases=[hypothesis.Phase.generate],
    )


def send_allowed(
    document: dict[str, Any],
    send: Callable[[requests.PreparedRequest, str], None],
    *,
    each: int,
    known: Mapping[str, str],
    seed: int = 0,
) -> int:
    """Makes up to `each` requests an operation that the document allows, for what is there; returns how many were sent.
    `send` also hears the operation."""
    schemathesis.openapi.format("date-time", _moments())
    sent = 0
    for result in schemathesis.openapi.from_dict(document).get_all_operations():
        operation = result.ok()

        def one(case: Any) -> None:
            nonlocal sent
            _name_known(case, known)
            if case.method == "POST":
                case.headers["Idempotency-Key"] = f"allowed-{seed}-{sent}"
            prepared = requests.Request(**case.as_transport_kwargs(base_url=BASE)).prepare()
            send(prepared, f"{case.operation.method} {case.operation.path}")
            sent += 1

        settings = _settings(each)
        strategy = operation.as_strategy(generation_mode=GenerationMode.POSITIVE)
        hypothesis.seed(seed)(settings(hypothesis.given(strategy)(one)))()
    return sent


def _moments() -> Any:
    """Times as bodies and queries take them."""
    earliest, latest = dt.datetime(1970, 1, 2), dt.datetime(2199, 12, 30)
    return st.datetimes(earliest, latest).map(lambda moment: f"{moment.isoformat()}Z")


def _name_known(case: Any, known: Mapping[str, str]) -> None:
    """In place: what the path names is there."""
    segments = case.path.split("/")
    for name in case.path_parameters or ():
        case.path_parameters[name] = known.get(segments[segments.index(f"{{{name}}}") - 1], "there-is-none")


def _come_further(case: Any, rng: random.Random, known: Mapping[str, str], fresh: str) -> None:
    """In place: what the path and the body name is there, the key is fresh, most of the body is usable."""
    _name_known(case, known)
    if case.method == "POST":
        case.headers["Idempotency-Key"] = fresh
    examples = case.operation.definition.raw.get("requestBody", {}).get("content", {}).get(JSON, {}).get("examples")
    if examples is None or case.media_type != JSON:
        return
    body = copy.deepcopy(rng.choice(list(examples.values()))["value"])
    made_up = next((one for one in (case.body if isinstance(case.body, list) else [case.body]) if one), None)
    for item in body if isinstance(body, list) else [body]:
        if isinstance(made_up, dict):
            taken = rng.sample(sorted(made_up, key=repr), min(len(made_up), 2))
            item.update({name: made_up[name] for name in taken})
        item.update({name: known[place] for name, place in NAMES.items() if name in item})
        # Its ids are of the story, or were used by the request before.
        item.pop("id", None)
    case.body = body
