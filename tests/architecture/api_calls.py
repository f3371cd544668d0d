"""Every endpoint of /api/v1 with the scope that it needs and a body that it takes, and a workspace with one of
everything to call it on."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from tools.factories import (
    IMPORT_PAYLOAD,
    OPTIONS,
    AgentFactory,
    AgentVersionFactory,
    AliasFactory,
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
    LabelQueueFactory,
    MembershipFactory,
    ModelVersionFactory,
    PhaseFactory,
    QueueItemFactory,
    RewardDraftFactory,
    RewardFactory,
    RewardSpecFactory,
    ShadowFactory,
    StatusChangeFactory,
    StepFactory,
    SuiteScoreFactory,
    TrainingRunFactory,
    VariantFactory,
    put_files,
    put_rows,
)
from workspaces.models import Scope


@dataclass(frozen=True)
class Call:
    """One way to call an endpoint. `path` and `body` are filled with the ids of `World`; `object` says that another
    workspace's ids must give 404 (or 400 in a body), not only an empty list. `lines` are streamed, one JSON each."""

    method: str
    path: str
    scope: str
    body: Callable[[World], Any] | None = None
    status: int = 200
    foreign: tuple[int, ...] = ()
    lines: bool = False


@dataclass
class World:
    """One workspace with one of everything."""

    agent: Any
    decision: Any
    champion: Any
    version: Any
    dataset: Any
    run: Any
    experiment: Any
    export: Any
    key: Any
    episode: Any
    step: Any
    change: Any
    extra: dict[str, Any] = field(default_factory=dict)

    def fill(self, path: str) -> str:
        names = ("decision", "version", "run", "experiment", "export", "key", "episode", "change")
        ids = {name: getattr(self, name).pk for name in names}
        more = {name: one.pk for name, one in self.extra.items()}
        return path.format(slug=self.agent.slug, dataset=self.dataset.pk, **ids, **more)


def build(workspace: Any, slug: str) -> World:
    agent = AgentFactory(workspace=workspace, slug=slug)
    AgentVersionFactory(agent=agent)
    spec = RewardSpecFactory(agent=agent)
    model = agent.registered_model
    champion, version, third = (ModelVersionFactory(registered_model=model) for _ in range(3))
    AliasFactory(version=champion)
    other = AgentFactory(workspace=workspace, slug=f"{slug}-tried").registered_model
    group = ExperimentGroupFactory(registered_model=other)
    experiment = ExperimentFactory(registered_model=other, group=group)
    PhaseFactory(experiment=experiment)
    for arm in ("control", "treatment"):
        VariantFactory(experiment=experiment, arm=arm, version=ModelVersionFactory(registered_model=other))
    rows = put_rows([{"id": "1", "prompt": "x", "options": ["a", "b"], "answer": "a"}])
    dataset = DatasetSnapshotFactory(
        agent=agent, artifact=ArtifactFactory(workspace=workspace, kind="dataset", digest=rows.digest)
    )
    files = ArtifactFactory(workspace=workspace, digest=put_files({"config.json": "{}"}).digest)
    run = TrainingRunFactory(
        agent=agent, dataset=dataset, job=JobFactory(workspace=workspace, kind="training.supervise_run")
    )
    decision = DecisionFactory(agent=agent)
    FeedbackFactory(decision=decision, metric="clicks", value=3)
    RewardFactory(decision=decision, spec=spec)
    return World(
        agent=agent,
        decision=decision,
        champion=champion,
        version=version,
        dataset=dataset,
        run=run,
        experiment=experiment,
        export=ExportJobFactory(version=third, state="ready", artifact=files),
        episode=(episode := EpisodeFactory(agent=agent)),
        change=StatusChangeFactory(item=ItemFactory(workspace=workspace)),
        step=StepFactory(episode=episode),
        key=ApiKeyFactory(workspace=workspace),
        extra={
            "group": group,
            "holdout": HoldoutFactory(version=ModelVersionFactory(registered_model=other)),
            "backend": (backend := BackendFactory(workspace=workspace)),
            "deployment": DeploymentFactory(version=version, backend=backend),
            "model": model,
            "call": CallFactory(assigned=version),
            "label_queue_item": QueueItemFactory(
                queue=LabelQueueFactory(workspace=workspace, slug=slug), decision=decision
            ),
            "member": MembershipFactory(workspace=workspace, role="labeller"),
            "admin": MembershipFactory(workspace=workspace, role="admin"),
            "invitation": InvitationFactory(workspace=workspace),
            "erasure": ErasureFactory(workspace=workspace),
            "calculation": JobFactory(
                workspace=workspace, kind="decisions.calculate_rewards", payload={"requested_by": "someone"}
            ),
            "bulk": BulkLabelFactory(workspace=workspace),
            "draft": RewardDraftFactory(agent=agent, base=spec),
            "import": JobFactory(workspace=workspace, kind="training.import", payload=IMPORT_PAYLOAD),
            "suite": (suite := EvaluationSuiteFactory(agent=agent, dataset=dataset)),
            "shadow": ShadowFactory(agent=agent, version=version),
            "score": SuiteScoreFactory(suite=suite, version=version),
            "scoring": JobFactory(workspace=workspace, kind="training.score_suite"),
            "best": JobFactory(
                workspace=workspace, kind="training.train_best", payload={"agent": agent.slug, "tag": "best-1"}
            ),
            "freezing": JobFactory(
                workspace=workspace, kind="training.freeze_dataset", payload={"agent": slug, "name": "n"}
            ),
        },
    )


PROBLEM = {"environment": "equations", "problem": "3x + 7 = 16"}


def decision_body(world: World) -> Any:
    return {"agent": world.agent.slug, "state": {"text": "x"}, "action": OPTIONS[0], "policy_name": "outside"}


def bulk_body(world: World) -> Any:
    return {"decisions": [str(world.decision.id)], "verdict": "confirmed", "dry_run": True}


def episode_body(world: World) -> Any:
    return {"agent": world.agent.slug, "episode": "mailbox", "query": "what came in?"}


def step_body(world: World) -> Any:
    return {"kind": "tool_call", "name": "search", "decision_id": str(world.decision.id)}


def traces_body(world: World) -> Any:
    """One span of the world's agent, as OTLP's JSON."""
    start = time.time_ns()
    span = {
        "traceId": f"{world.agent.id.int:032x}",
        "spanId": "00f067aa0ba902b7",
        "startTimeUnixNano": str(start),
        "endTimeUnixNano": str(start + 1000),
        "attributes": [{"key": "reckoner.agent", "value": {"stringValue": world.agent.slug}}],
    }
    return {"resourceSpans": [{"scopeSpans": [{"spans": [span]}]}]}


def feedback_body(world: World) -> Any:
    return {"metric": "verdict", "value": "confirmed", "decision_id": str(world.decision.id)}


def suite_body(world: World) -> Any:
    return {"agent": world.agent.slug, "name": "tickets", "dataset": str(world.dataset.id)}


def agent_body(world: World) -> Any:
    return {"slug": "brand-new", "name": "New", "prompt_template": "{{ text }}", "options": ["a", "b"]}


def spec_body(world: World) -> Any:
    return {"expected_number": 1, "components": [{"name": "verdict", "weight": 2}]}


def run_body(world: World) -> Any:
    fields = {"agent": world.agent.slug, "dataset": str(world.dataset.id), "base_model": "tiny"}
    return {"method": "pretrain", **fields}


def import_body(world: World) -> Any:
    row = {"id": "1", "prompt": "x", "options": ["a", "b"], "answer": "a"}
    content = {"file": "rows.jsonl", "content": json.dumps(row)}
    return {"what": "labelled", "agent": world.agent.slug, "name": "gold", **content}


def remote_body(world: World) -> Any:
    return {
        "model": world.extra["model"].name, "remote_name": "gpt", "backend": str(world.extra["backend"].id)
    }  # fmt: skip


def deploy_body(world: World) -> Any:
    return {"backend": str(world.extra["backend"].id), "remote_name": "another"}


def shadow_body(world: World) -> Any:
    return {"agent": world.agent.slug, "version": str(world.export.version.id), "reason": "a better one"}


def workspace_body(world: World) -> Any:
    return {"name": "Mail", "slug": "mail", "admin": world.extra["admin"].user.email}


def notes_body(world: World) -> Any:
    return {"agentType": world.agent.kind, "state": {}, "action": OPTIONS[0], "modelVersion": "outside"}


def notes_verdict(world: World) -> Any:
    return {"feedback": "CONFIRMED"}


def notes_ask(name: str, state: Callable[[World], Any]) -> Call:
    """The workspace has no agent of the notes app."""
    return Call("POST", f"/api/ai/{name}", "route:read", lambda w: {"input": state(w)}, 404)


NOTES = "/api/training"
READ, ADMIN = Scope.EXPORT_READ.value, Scope.ADMIN.value
CALLS: dict[str, list[Call]] = {
    "api-keys": [
        Call("GET", "keys", ADMIN),
        Call("POST", "keys", ADMIN, lambda w: {"name": "n", "scopes": ["export:read"]}, 201),
    ],
    "api-key": [Call("PATCH", "keys/{key}", ADMIN, lambda w: {"requests_a_minute": 60}, foreign=(404,))],
    "api-key-use": [Call("GET", "keys/{key}/use", ADMIN, foreign=(404,))],
    "api-key-rotate": [Call("POST", "keys/{key}/rotate", ADMIN, foreign=(404,))],
    "api-key-revoke": [Call("POST", "keys/{key}/revoke", ADMIN, foreign=(404,))],
    "api-workspace": [
        Call("GET", "workspace", ADMIN),
        Call("PATCH", "workspace", ADMIN, lambda w: {"name": "New name"}),
    ],
    "api-workspaces": [Call("POST", "workspaces", ADMIN, workspace_body, 201, foreign=(400,))],
    "api-members": [Call("GET", "members", ADMIN)],
    "api-member": [Call("PATCH", "members/{member}", ADMIN, lambda w: {"active": False}, foreign=(404,))],
    "api-invitations": [
        Call("GET", "invitations", ADMIN),
        Call("POST", "invitations", ADMIN, lambda w: {"email": "new@example.org", "role": "viewer"}, 201),
    ],
    "api-invitation-revoke": [Call("POST", "invitations/{invitation}/revoke", ADMIN, foreign=(404,))],
    "api-audit": [Call("GET", "audit", ADMIN)],
    "api-models": [Call("GET", "models", READ)],
    "api-alias-moves": [Call("GET", "models/{model}/alias-moves", READ, foreign=(404,))],
    "api-backends": [
        Call("GET", "backends", READ),
        Call("POST", "backends", ADMIN, lambda w: {"name": "new", "url": "https://api.openai.com/v1"}, 201),
    ],
    "api-backend": [
        Call("GET", "backends/{backend}", READ, foreign=(404,)),
        Call("PATCH", "backends/{backend}", ADMIN, lambda w: {"url": "https://api.openai.com/v1"}, foreign=(404,)),
        # Something is deployed there: tests/models_registry/backends/test_serving_api.py removes one.
        Call("DELETE", "backends/{backend}", ADMIN, status=409, foreign=(404,)),
    ],
    "api-backend-check": [Call("POST", "backends/{backend}/check", ADMIN, foreign=(404,))],
    "api-calls": [Call("GET", "calls", READ)],
    "api-deployments": [
        Call("GET", "versions/{version}/deployments", READ, foreign=(404,)),
        Call("POST", "versions/{version}/deployments", ADMIN, deploy_body, 201, foreign=(404,)),
    ],
    "api-deployment": [
        Call("PATCH", "deployments/{deployment}", ADMIN, lambda w: {"priority": 1}, foreign=(404,)),
        Call("DELETE", "deployments/{deployment}", ADMIN, foreign=(404,)),
    ],
    "api-remote-versions": [Call("POST", "remote-versions", ADMIN, remote_body, 201, foreign=(404,))],
    "api-version-aliases": [
        Call("POST", "versions/{version}/aliases", ADMIN, lambda w: {"alias": "tried"}, foreign=(404,))
    ],
    "api-version-alias-remove": [
        Call("POST", "versions/{version}/aliases/remove", ADMIN, lambda w: {"alias": "tried"}, foreign=(404,))
    ],
    "api-versions": [Call("GET", "versions", READ)],
    "api-version": [
        Call("GET", "versions/{version}", READ, foreign=(404,)),
        Call("PATCH", "versions/{version}", ADMIN, lambda w: {"tags": ["tried"]}, foreign=(404,)),
    ],
    "api-version-promote": [
        Call("POST", "versions/{version}/promote", ADMIN, lambda w: {"reason": "better"}, foreign=(404,))
    ],
    "api-version-approve": [
        Call("POST", "versions/{version}/approve", ADMIN, lambda w: {"note": "read"}, foreign=(404,))
    ],
    "api-version-approval-withdraw": [
        Call("POST", "versions/{version}/approve/withdraw", ADMIN, foreign=(404,)),
    ],
    # No alias of the world was ever moved: tests/models_registry/test_aliases.py reverts moves.
    "api-alias-revert": [
        Call("POST", "models/{model}/aliases/revert", ADMIN, lambda w: {"alias": "tried"}, 409, foreign=(404,))
    ],
    "api-version-lineage": [Call("GET", "versions/{version}/lineage", READ, foreign=(404,))],
    "api-run-lineage": [Call("GET", "runs/{run}/lineage", READ, foreign=(404,))],
    "api-dataset-lineage": [Call("GET", "datasets/{dataset}/lineage", READ, foreign=(404,))],
    "api-version-retire": [
        # It is in use: tests/models_registry/test_versions.py retires one.
        Call("POST", "versions/{version}/retire", ADMIN, lambda w: {"reason": "old"}, 409, foreign=(404,)),
    ],
    "api-version-restore": [Call("POST", "versions/{version}/restore", ADMIN, foreign=(404,))],
    "api-version-exports": [Call("GET", "versions/{version}/exports", READ, foreign=(404,))],
    "api-version-export": [Call("POST", "versions/{version}/export", ADMIN, status=201, foreign=(404,))],
    "api-experiments": [
        Call("GET", "experiments", READ),
        Call(
            "POST",
            "experiments",
            ADMIN,
            lambda w: {"treatment": str(w.version.id), "reason": "better"},
            201,
            foreign=(404,),
        ),
    ],
    "api-experiment-estimate": [
        Call("POST", "experiments/estimate", READ, lambda w: {"treatment": str(w.version.id)}, foreign=(404,))
    ],
    "api-experiment": [Call("GET", "experiments/{experiment}", READ, foreign=(404,))],
    "api-experiment-looks": [Call("GET", "experiments/{experiment}/looks", READ, foreign=(404,))],
    "api-experiment-share": [
        Call(
            "POST",
            "experiments/{experiment}/share",
            ADMIN,
            lambda w: {"treatment_share": 0.25, "reason": "slower"},
            foreign=(404,),
        )
    ],
    "api-experiment-stop": [
        Call("POST", "experiments/{experiment}/stop", ADMIN, lambda w: {"reason": "enough"}, foreign=(404,))
    ],
    "api-experiment-groups": [
        Call("GET", "experiment-groups", READ),
        Call(
            "POST",
            "experiment-groups",
            ADMIN,
            lambda w: {"treatments": [str(w.version.id), str(w.export.version_id)], "reason": "better"},
            201,
            foreign=(404,),
        ),
    ],
    "api-experiment-group": [Call("GET", "experiment-groups/{group}", READ, foreign=(404,))],
    "api-experiment-group-stop": [
        Call("POST", "experiment-groups/{group}/stop", ADMIN, lambda w: {"reason": "enough"}, foreign=(404,))
    ],
    "api-holdouts": [
        Call("GET", "holdouts", READ),
        Call(
            "POST",
            "holdouts",
            ADMIN,
            lambda w: {"version": str(w.champion.id), "share": 0.05, "reason": "a month"},
            201,
            foreign=(404,),
        ),
    ],
    "api-holdout": [Call("GET", "holdouts/{holdout}", READ, foreign=(404,))],
    "api-holdout-end": [Call("POST", "holdouts/{holdout}/end", ADMIN, lambda w: {"reason": "enough"}, foreign=(404,))],
    "api-agents": [Call("GET", "agents", READ), Call("POST", "agents", ADMIN, agent_body, 201)],
    "api-agent-reward-summary": [Call("GET", "agents/{slug}/rewards/summary", READ, foreign=(404,))],
    "api-agent": [
        Call("GET", "agents/{slug}", READ, foreign=(404,)),
        Call("PATCH", "agents/{slug}", ADMIN, lambda w: {"expected_version": 1, "epsilon": 0.2}, foreign=(404,)),
    ],
    "api-agent-version-use": [Call("POST", "agents/{slug}/versions/1/use", ADMIN, foreign=(404,))],
    "api-agent-experiments": [
        Call(
            "POST",
            "agents/{slug}/experiments",
            ADMIN,
            lambda w: {"agent_version": 1, "treatment": str(w.version.id), "reason": "better"},
            201,
            foreign=(404,),
        ),
    ],
    "api-agent-experiment-groups": [
        Call(
            "POST",
            "agents/{slug}/experiment-groups",
            ADMIN,
            lambda w: {
                "agent_versions": [1],
                "treatments": [str(w.version.id), f"{w.version.registered_model}:3"],
                "reason": "better",
            },
            201,
            foreign=(404,),
        ),
    ],
    "api-agent-cache": [Call("PATCH", "agents/{slug}/cache", ADMIN, lambda w: {"seconds": 0}, foreign=(404,))],
    # Nobody serves models in this test: who may ask gets as far as the missing backend.
    "api-decide": [
        Call("POST", "agents/{slug}/decide", "route:read", lambda w: {"state": {"text": "x"}}, 503, foreign=(404,))
    ],
    # Its options are fixed: tests/training/solving has one that acts.
    "api-solve": [Call("POST", "agents/{slug}/solve", "route:read", lambda w: PROBLEM, 400, foreign=(404,))],
    "api-solve-batch": [
        Call("POST", "agents/{slug}/solve/batch", "route:read", lambda w: [PROBLEM], 400, foreign=(404,))
    ],
    "api-action-quality": [Call("GET", "agents/{slug}/action-quality", READ, foreign=(404,))],
    "api-decisions": [
        Call("GET", "decisions", READ),
        Call("POST", "decisions", "decisions:write", decision_body, 201, foreign=(400,)),
    ],
    "api-decisions-export": [Call("GET", "decisions/export", READ, lines=True)],
    "api-decision": [Call("GET", "decisions/{decision}", READ, foreign=(404,))],
    "api-decision-similar": [Call("GET", "decisions/{decision}/similar", READ, foreign=(404,))],
    # No model server answers: who may ask hears so.
    "api-decision-ask": [
        Call("POST", "decisions/{decision}/ask", "route:read", lambda w: {"version": str(w.champion.id)}, 503, (404,))
    ],
    "api-episode-ask": [
        Call("POST", "episodes/{episode}/ask", "route:read", lambda w: {"version": str(w.champion.id)}, 200, (404,))
    ],
    "api-decision-labels": [
        Call("POST", "decisions/{decision}/labels", "feedback:write", lambda w: {"verdict": "confirmed"}, 201, (404,))
    ],
    "api-bulk-labels": [
        Call("GET", "bulk-labels", READ),
        Call("POST", "bulk-labels", "feedback:write", bulk_body, foreign=(400,)),
    ],
    "api-bulk-label": [Call("GET", "bulk-labels/{bulk}", READ, foreign=(404,))],
    # It is over and was undone: tests/decisions/labelling/test_bulk_labels.py.
    "api-bulk-label-cancel": [Call("POST", "bulk-labels/{bulk}/cancel", "feedback:write", status=409, foreign=(404,))],
    "api-bulk-label-undo": [Call("POST", "bulk-labels/{bulk}/undo", "feedback:write", status=409, foreign=(404,))],
    "api-label-queues": [
        Call("GET", "label-queues", READ),
        Call("POST", "label-queues", ADMIN, lambda w: {"slug": "more", "name": "n"}, 201),
    ],
    "api-label-queue": [
        Call("GET", "label-queues/{slug}", READ, foreign=(404,)),
        Call("PATCH", "label-queues/{slug}", ADMIN, lambda w: {"state": "closed"}, foreign=(404,)),
    ],
    "api-label-queue-next": [Call("POST", "label-queues/{slug}/next", "feedback:write", foreign=(404,))],
    "api-label-queue-disputes": [Call("GET", "label-queues/{slug}/disputes", READ, foreign=(404,))],
    "api-label-queue-agreement": [Call("GET", "label-queues/{slug}/agreement", ADMIN, foreign=(404,))],
    # The decision has no label, and nobody of the table holds a place: tests/decisions/labelling.
    "api-label-queue-gold": [
        Call("POST", "label-queues/{slug}/gold", ADMIN, lambda w: {"decisions": [str(w.decision.id)]}, 400, (404,))
    ],
    **{
        f"api-label-queue-{verb}": [
            Call("POST", f"label-queues/{{slug}}/decisions/{{decision}}/{verb}", "feedback:write", body, 409, (404,))
        ]
        for verb, body in {
            "label": lambda w: {"verdict": "confirmed"},
            "draft": lambda w: {"note": "n"},
            "discard": None,
            "skip": None,
            "undo": None,
            "adjudicate": lambda w: {"verdict": "confirmed"},
        }.items()
    },
    "api-episodes": [
        Call("GET", "episodes", READ),
        Call("POST", "episodes", "decisions:write", episode_body, 201, foreign=(400,)),
    ],
    "api-episode": [Call("GET", "episodes/{episode}", READ, foreign=(404,))],
    "api-steps": [
        Call("GET", "steps", READ),
        Call("POST", "steps", "decisions:write", step_body, 201, foreign=(400,)),
    ],
    "api-status-changes": [
        Call("POST", "status-changes", "feedback:write", lambda w: {"item_ref": "i", "status": "DONE"}, 201)
    ],
    "api-notes-record": [Call("POST", f"{NOTES}/decisions/record", "decisions:write", notes_body, 201)],
    "api-notes-decisions": [
        Call("GET", f"{NOTES}/decisions", READ),
        Call("POST", f"{NOTES}/decisions", "feedback:write", lambda w: {"decisionIds": [str(w.decision.id)]}),
    ],
    "api-notes-calculate-pending": [
        Call("GET", f"{NOTES}/calculate-pending", READ),
        Call("POST", f"{NOTES}/calculate-pending", "feedback:write"),
    ],
    "api-notes-outcomes": [Call("GET", f"{NOTES}/outcomes", READ), Call("POST", f"{NOTES}/outcomes", "feedback:write")],
    "api-notes-track-outcomes": [
        Call("GET", f"{NOTES}/track-outcomes", READ),
        Call("POST", f"{NOTES}/track-outcomes", "feedback:write"),
    ],
    "api-notes-export": [Call("GET", f"{NOTES}/export", READ)],
    "api-notes-export-file": [Call("GET", f"{NOTES}/export-file?agentType=FILER", READ)],
    "api-notes-file": [notes_ask("file", lambda w: {"item": {}})],
    "api-notes-prioritize": [notes_ask("prioritize", lambda w: {"todoItems": [{"id": "i"}]})],
    "api-notes-store": [notes_ask("store", lambda w: {"completedItem": {}, "targetOpus": {}})],
    "api-notes-relate": [notes_ask("relate", lambda w: {"newItem": {}})],
    "api-notes-retrieve": [
        Call("POST", "/api/ai/retrieve", "route:read", lambda w: {"query": "x", "relevantOpuses": []}, 404)
    ],
    "api-notes-ab-test": [Call("GET", f"{NOTES}/ab-test?agentType=FILER", READ)],
    "api-notes-stats": [Call("GET", f"{NOTES}/stats", READ)],
    "api-notes-decision-feedback": [
        Call("PATCH", "/api/decisions/{decision}/feedback", "feedback:write", notes_verdict, foreign=(404,))
    ],
    "api-notes-status-change-feedback": [
        Call("PATCH", "/api/status-changes/{change}/feedback", "feedback:write", notes_verdict, foreign=(404,))
    ],
    "otlp-traces": [Call("POST", "/v1/traces", "decisions:write", traces_body)],
    "api-feedback": [
        Call("GET", "feedback", READ),
        Call("POST", "feedback", "feedback:write", feedback_body, 201, foreign=(400, 404)),
    ],
    "api-rewards": [Call("GET", "rewards", READ)],
    "api-auto-labeler": [Call("GET", "agents/{slug}/auto-labeler", READ, foreign=(404,))],
    "api-suggestions": [
        Call("GET", "agents/{slug}/suggestions", READ, foreign=(404,)),
        Call("POST", "agents/{slug}/suggestions", ADMIN, status=202, foreign=(404,)),
    ],
    "api-judges": [
        Call("GET", "agents/{slug}/judges", READ, foreign=(404,)),
        Call("POST", "agents/{slug}/judges", ADMIN, lambda w: {"metric": "helpful"}, 202, foreign=(404,)),
    ],
    "api-reward-components": [Call("GET", "reward-components", READ)],
    "api-reward-specs": [
        Call("GET", "agents/{slug}/reward-specs", READ, foreign=(404,)),
        Call("POST", "agents/{slug}/reward-specs", ADMIN, spec_body, 201, foreign=(404,)),
    ],
    "api-reward-spec": [Call("GET", "agents/{slug}/reward-specs/1", READ, foreign=(404,))],
    "api-reward-drafts": [
        Call("GET", "agents/{slug}/reward-drafts", READ, foreign=(404,)),
        Call("POST", "agents/{slug}/reward-drafts", ADMIN, spec_body, 202, foreign=(404,)),
    ],
    "api-reward-draft": [Call("GET", "agents/{slug}/reward-drafts/{draft}", READ, foreign=(404,))],
    "api-reward-draft-publish": [
        Call("POST", "agents/{slug}/reward-drafts/{draft}/publish", ADMIN, status=201, foreign=(404,))
    ],
    "api-reward-draft-drop": [Call("POST", "agents/{slug}/reward-drafts/{draft}/drop", ADMIN, foreign=(404,))],
    "api-reward-calculations": [
        Call("GET", "rewards/calculations", READ),
        Call("POST", "rewards/calculations", ADMIN, status=202),
    ],
    "api-datasets": [
        Call("GET", "datasets", READ),
        Call("POST", "datasets", ADMIN, lambda w: {"agent": w.agent.slug, "name": "n"}, 202, foreign=(404,)),
    ],
    "api-shadows": [
        Call("GET", "shadows", READ),
        Call("POST", "shadows", ADMIN, shadow_body, 201, foreign=(404,)),
    ],
    "api-shadow": [Call("GET", "shadows/{shadow}", READ, foreign=(404,))],
    "api-shadow-stop": [
        Call("POST", "shadows/{shadow}/stop", ADMIN, lambda w: {"reason": "seen enough"}, foreign=(404,))
    ],
    "api-suites": [
        Call("GET", "suites", READ),
        Call("POST", "suites", ADMIN, suite_body, 201, foreign=(404,)),
    ],
    "api-suite": [Call("GET", "suites/{suite}", READ, foreign=(404,))],
    "api-suite-scores": [
        Call("GET", "suites/{suite}/scores", READ, foreign=(404,)),
        Call("POST", "suites/{suite}/scores", ADMIN, lambda w: {"version": str(w.champion.id)}, 202, foreign=(404,)),
    ],
    "api-suite-scoring": [Call("GET", "suites/scorings/{scoring}", READ, foreign=(404,))],
    "api-version-scores": [Call("GET", "versions/{version}/scores", READ, foreign=(404,))],
    "api-environments": [Call("GET", "environments", READ)],
    "api-environment-datasets": [
        Call(
            "POST",
            "environments/equations/datasets",
            ADMIN,
            lambda w: {"agent": w.agent.slug, "name": "n", "tasks": 2},
            202,
            foreign=(404,),
        )
    ],
    "api-dataset-freezing": [Call("GET", "datasets/freezings/{freezing}", READ, foreign=(404,))],
    "api-dataset-rows": [Call("GET", "datasets/{dataset}/rows", READ, foreign=(404,), lines=True)],
    # The dataset was imported: who may ask hears that it cannot be rebuilt.
    "api-dataset-rebuild": [Call("POST", "datasets/{dataset}/rebuild", ADMIN, status=409, foreign=(404,))],
    "api-imports": [Call("POST", "imports", ADMIN, import_body, 202, foreign=(404,))],
    "api-import-cancel": [Call("POST", "imports/{import}/cancel", ADMIN, foreign=(404,))],
    "api-import": [Call("GET", "imports/{import}", READ, foreign=(404,))],
    "api-erasures": [
        Call("GET", "erasures", ADMIN),
        Call("POST", "erasures", ADMIN, lambda w: {"unit": "somebody"}, 201),
    ],
    "api-erasure": [Call("GET", "erasures/{erasure}", ADMIN, foreign=(404,))],
    "api-runs": [Call("GET", "runs", READ), Call("POST", "runs", ADMIN, run_body, 201, foreign=(404,))],
    "api-run-sweeps": [
        Call("POST", "runs/sweeps", ADMIN, lambda w: run_body(w) | {"grid": {"seed": [1, 2]}}, 201, foreign=(404,))
    ],
    "api-run-best": [Call("POST", "runs/best", ADMIN, lambda w: {"agent": w.agent.slug}, 202, foreign=(404,))],
    "api-run-best-detail": [Call("GET", "runs/best/{best}", READ, foreign=(404,))],
    "api-train-new": [Call("POST", "runs/train", ADMIN, lambda w: {"agent": w.agent.slug}, 202, foreign=(404,))],
    "api-run": [
        Call("GET", "runs/{run}", READ, foreign=(404,)),
        Call("PATCH", "runs/{run}", ADMIN, lambda w: {"tags": ["a"]}, foreign=(404,)),
    ],
    "api-run-events": [Call("GET", "runs/{run}/events", READ, foreign=(404,))],
    "api-run-curves": [Call("GET", "runs/{run}/curves", READ, foreign=(404,))],
    "api-run-samples": [Call("GET", "runs/{run}/samples", READ, foreign=(404,))],
    "api-run-cancel": [Call("POST", "runs/{run}/cancel", ADMIN, foreign=(404,))],
    "api-export": [Call("GET", "exports/{export}", READ, foreign=(404,))],
    "api-export-cancel": [Call("POST", "exports/{export}/cancel", ADMIN, status=409, foreign=(404,))],
    "api-export-download": [Call("GET", "exports/{export}/download", ADMIN, foreign=(404,))],
}
