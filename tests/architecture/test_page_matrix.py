"""Every page of a workspace × every role × someone else's workspace: who may see and do what; refusals change nothing.

The table is the whole answer. A URL name that it does not hold fails the first test: a new page says here which role
each of its methods needs, and of what it is.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import pytest
from django.test import Client
from django.urls import get_resolver, reverse
from django.utils import timezone

from tests.architecture.api_calls import World, build
from tests.architecture.test_api_matrix import Refusal, refusal_faults, state_of_everything, undone
from tools.factories import InvitationFactory, JobFactory, MembershipFactory, RehearsalFactory, WorkspaceFactory
from training.loops.best import KIND as BEST
from training.loops.pipeline.plan import PipelinePlan, Prepared
from training.loops.pipeline.services import KIND
from training.loops.pipeline.stored import StoredPipeline
from training.models import DatasetKind

VIEWER, LABELLER, ADMIN = "viewer", "labeller", "admin"
ROLES = (VIEWER, LABELLER, ADMIN)


@dataclass(frozen=True)
class Page:
    """The least role that each method needs; "" where the method is a 405. `of`: the arguments of its address, from a
    workspace's world. `there` is False where it needs more than the world has: then it is a 404 for an admin, too."""

    get: str = VIEWER
    post: str = ""
    of: Callable[[World], list[Any]] = lambda world: []
    there: bool = True
    everyones: bool = False
    """Of what every workspace of the instance has."""


def of(name: str) -> Callable[[World], list[Any]]:
    """An object of the world, by its primary key."""

    def find(world: World) -> list[Any]:
        return [(world.extra[name] if name in world.extra else getattr(world, name)).pk]

    return find


def drafted(world: World) -> list[Any]:
    return [world.agent.slug, world.extra["draft"].pk]


def queued(world: World) -> list[Any]:
    return [world.extra["label_queue_item"].queue.slug]


def queued_decision(world: World) -> list[Any]:
    return [*queued(world), world.decision.pk]


FORM = Page(get=ADMIN, post=ADMIN)
ACTION = Page(get="", post=ADMIN)
PAGES: dict[str, Page] = {
    "overview": Page(),
    "loop": Page(),
    "disk": Page(get=ADMIN),
    "connect": Page(),
    "key-make": ACTION,
    "key-made": Page(get=ADMIN, of=of("key"), there=False),  # it wants its agent: tests/project/test_connect.py
    "key-arrival": Page(get=ADMIN, of=of("key")),
    "key-limits": replace(FORM, of=of("key")),
    "key-revoke": replace(ACTION, of=of("key")),
    "demo-start": ACTION,
    "agents": Page(),
    "agent-new": FORM,
    "agent": Page(of=lambda world: [world.agent.slug]),
    "agent-action-quality": Page(of=lambda world: [world.agent.slug]),
    "agent-reward-history": Page(of=lambda world: [world.agent.slug]),
    "agent-cache": replace(FORM, of=lambda world: [world.agent.slug]),
    "agent-edit": replace(FORM, of=lambda world: [world.agent.slug]),
    "agent-version": Page(of=lambda world: [world.agent.slug, 1]),
    "agent-version-use": replace(FORM, of=lambda world: [world.agent.slug, 1]),
    "agent-judges": Page(of=lambda world: [world.agent.slug]),
    "agent-judge-calibrate": replace(ACTION, of=lambda world: [world.agent.slug]),
    "agent-suggestions": Page(of=lambda world: [world.agent.slug]),
    "agent-suggestions-learn": replace(ACTION, of=lambda world: [world.agent.slug]),
    "agent-traces": Page(of=lambda world: [world.agent.slug]),
    "agent-rewards": Page(of=lambda world: [world.agent.slug]),
    "agent-rewards-status": Page(of=lambda world: [world.agent.slug]),
    "agent-rewards-edit": replace(FORM, of=lambda world: [world.agent.slug]),
    "agent-reward-spec": Page(of=lambda world: [world.agent.slug, 1]),
    "agent-reward-yaml": Page(of=lambda world: [world.agent.slug, 1]),
    "reward-draft": Page(of=drafted),
    "reward-draft-status": Page(of=drafted),
    "reward-draft-publish": replace(ACTION, of=drafted),
    "reward-draft-drop": replace(ACTION, of=drafted),
    "decisions": Page(),
    "rewards": Page(),
    "rewards-status": Page(),
    "rewards-calculate": ACTION,
    "label": Page(get=LABELLER),
    "label-bulk": Page(get=LABELLER, post=LABELLER),
    "label-bulk-detail": Page(of=of("bulk")),
    "label-bulk-status": Page(of=of("bulk")),
    "label-bulk-cancel": Page(get="", post=LABELLER, of=of("bulk")),
    "label-bulk-undo": Page(get="", post=LABELLER, of=of("bulk")),
    "label-queues": Page(),
    "label-queue-new": FORM,
    "label-queue": Page(of=queued),
    "label-queue-edit": replace(FORM, of=queued),
    "label-queue-change": replace(ACTION, of=queued),
    "label-queue-work": Page(get=LABELLER, of=queued),
    "label-queue-label": Page(get="", post=LABELLER, of=queued_decision),
    "label-queue-undo": Page(get="", post=LABELLER, of=queued_decision),
    "label-queue-disputes": Page(get=LABELLER, of=queued),
    "label-queue-adjudicate": Page(get="", post=LABELLER, of=queued_decision),
    "decision": Page(of=of("decision")),
    "decision-ask": Page(post=LABELLER, of=of("decision")),
    "episode-ask": Page(post=LABELLER, of=of("episode")),
    "decision-similar": Page(of=of("decision")),
    "decision-label": Page(get="", post=LABELLER, of=of("decision")),
    "decision-unlabel": Page(get="", post=LABELLER, of=of("decision")),
    "episodes": Page(),
    "episode": Page(of=of("episode")),
    "environments": Page(),
    "environment": Page(of=lambda world: ["equations"], everyones=True),
    "environment-draw": replace(FORM, of=lambda world: ["equations"], everyones=True),
    "run-episodes": Page(of=of("run")),
    "run-episode": Page(of=lambda world: [world.run.pk, 1], there=False),  # it wants a run's files
    "datasets": Page(),
    "dataset-make": FORM,
    "dataset": Page(of=of("dataset")),
    "dataset-rows": Page(of=of("dataset")),
    "dataset-making": Page(of=of("freezing")),
    "imports": Page(),
    "import-new": FORM,
    "import-check": replace(FORM, of=lambda world: [uuid.uuid4()], there=False),
    "import": Page(of=of("import")),
    "import-status": Page(of=of("import")),
    "import-cancel": replace(FORM, of=of("import")),
    "runs": Page(),
    "run-start": FORM,
    "train-new": FORM,
    "run": Page(of=of("run")),
    "run-row": Page(of=of("run")),
    "run-status": Page(of=of("run")),
    "run-curves": Page(of=of("run")),
    "run-curves-csv": Page(of=of("run")),
    "run-predictions": Page(of=of("run")),
    "run-note": replace(ACTION, of=of("run")),
    "run-cancel": replace(FORM, of=of("run")),
    "pipelines": Page(),
    "best-new": FORM,
    "best": Page(of=of("best")),
    "best-cancel": replace(FORM, of=of("best")),
    "pipeline-new": FORM,
    "pipeline-row": Page(of=of("pipeline")),
    "pipeline": Page(of=of("pipeline")),
    "pipeline-cancel": replace(FORM, of=of("pipeline")),
    "pipeline-resume": replace(ACTION, of=of("pipeline")),
    "erasures": FORM,
    "suites": Page(),
    "suite-new": FORM,
    "suite": Page(of=of("suite")),
    "suite-score-ask": replace(ACTION, of=of("suite")),
    "suite-score": Page(of=of("score")),
    "shadows": Page(),
    "shadow-start": FORM,
    "shadow": Page(of=of("shadow")),
    "shadow-stop": replace(FORM, of=of("shadow")),
    "rehearsals": Page(),
    "rehearsal-start": FORM,
    "rehearsal": Page(of=of("rehearsal")),
    "rehearsal-status": Page(of=of("rehearsal")),
    "rehearsal-cancel": replace(FORM, of=of("rehearsal")),
    "rehearsal-resume": replace(ACTION, of=of("rehearsal")),
    "models": Page(),
    "version": Page(of=of("version")),
    "version-exports": Page(of=of("version")),
    "version-export": replace(ACTION, of=of("version")),
    "version-promote": replace(FORM, of=of("version")),
    "backends": Page(),
    "backend-new": FORM,
    "backend": Page(of=of("backend")),
    "backend-edit": replace(FORM, of=of("backend")),
    "backend-switch": replace(ACTION, of=of("backend")),
    "backend-check": replace(ACTION, of=of("backend")),
    "backend-remove": replace(FORM, of=of("backend")),
    "backend-deploy": replace(ACTION, of=of("backend")),
    "backend-remote": replace(ACTION, of=of("backend")),
    "deployment-change": replace(ACTION, of=of("deployment")),
    "deployment-remove": replace(ACTION, of=of("deployment")),
    "calls": Page(),
    "call": Page(of=of("call")),
    "version-alias": replace(ACTION, of=of("version")),
    "version-alias-remove": replace(ACTION, of=of("version")),
    "version-alias-revert": replace(ACTION, of=of("version")),
    "version-note": replace(ACTION, of=of("version")),
    "version-approve": replace(ACTION, of=of("version")),
    "version-unapprove": replace(ACTION, of=of("version")),
    "version-retire": replace(FORM, of=of("version")),
    "version-restore": replace(ACTION, of=of("version")),
    "version-try": replace(FORM, of=of("version")),
    "export-cancel": replace(ACTION, of=of("export")),
    "export-download": Page(get=ADMIN, of=of("export")),
    "experiments": Page(),
    "experiment": Page(of=of("experiment")),
    "experiment-status": Page(of=of("experiment")),
    "experiment-evidence": Page(of=of("experiment")),
    "experiment-share": replace(FORM, of=of("experiment")),
    "experiment-stop": replace(FORM, of=of("experiment")),
    "experiment-group": Page(of=of("group")),
    "experiment-group-status": Page(of=of("group")),
    "experiment-group-stop": replace(FORM, of=of("group")),
    "version-hold-out": replace(FORM, of=of("version")),
    "holdouts": Page(),
    "holdout": Page(of=of("holdout")),
    "holdout-end": replace(FORM, of=of("holdout")),
    "people": Page(),
    "person-invite": ACTION,
    "invitation-revoke": replace(ACTION, of=of("invitation")),
    "workspace-rename": ACTION,
    "workspace-approvals": ACTION,
    "workspace-leave": Page(get="", post=VIEWER),
    "person-role": replace(ACTION, of=of("member")),
    "person-deactivate": replace(ACTION, of=of("member")),
    "person-reactivate": replace(ACTION, of=of("member")),
    "person-password-link": replace(ACTION, of=of("member")),
    "audit": Page(get=ADMIN),
    "audit-csv": Page(get=ADMIN),
}


@dataclass
class Scene:
    """Two workspaces with one of everything, made once for this module; what a call changes is undone after it."""

    world: World
    elsewhere: World
    people: dict[str, Client]
    """Of the first workspace, by role."""
    stranger: Client
    """An admin of the second one."""
    nobody: Client
    state: dict[str, int]
    """Of everything, before any call: each test leaves it so, or what it changes is undone."""


def make_pipeline(agent: Any) -> Any:
    """Queued; a pipeline has no row but its job's."""
    prepared = Prepared(
        plan=PipelinePlan(method="grpo"), kind=DatasetKind.LOGGED, base_version=None, base_model="tiny", root="tiny",
        heldout=None, replay=None, unused_at=None,
    )  # fmt: skip
    payload = StoredPipeline(agent, "pipeline-1", "ann@example.org", prepared).as_payload()
    return JobFactory(workspace=agent.workspace, kind=KIND, payload=payload)


def make_comparison(agent: Any) -> Any:
    """Queued; a comparison of candidates has no row but its job's."""
    payload = {
        "agent": agent.slug, "name": "Best policy", "tag": "best-1", "left_out": {}, "requested_by": "ann@example.org",
        "until": timezone.now().isoformat(),
    }  # fmt: skip
    return JobFactory(workspace=agent.workspace, kind=BEST, payload=payload)


def enrich(world: World, workspace: Any) -> World:
    job = JobFactory(workspace=workspace, kind="training.rehearse")
    world.extra |= {
        "rehearsal": RehearsalFactory(workspace=workspace, job=job),
        "pipeline": make_pipeline(world.agent),
        "best": make_comparison(world.agent),
        "member": MembershipFactory(workspace=workspace, role=LABELLER),
        "invitation": InvitationFactory(workspace=workspace),
    }
    return world


@pytest.fixture(scope="module")
def scene(module_db: None) -> Scene:
    workspace, other = WorkspaceFactory(slug="acme"), WorkspaceFactory(slug="elsewhere")

    def person(of: Any, role: str) -> Client:
        client = Client(raise_request_exception=False)
        client.force_login(MembershipFactory(workspace=of, role=role).user)
        client.get("/")  # whatever a first look writes is written
        return client

    people = {role: person(workspace, role) for role in ROLES}
    MembershipFactory(workspace=workspace, role=ADMIN)  # so that the admin of the scene is not the last
    worlds = enrich(build(workspace, "filer"), workspace), enrich(build(other, "theirs"), other)
    return Scene(*worlds, people, person(other, ADMIN), Client(), state_of_everything())


def address(name: str, page: Page, world: World, *, workspace: World | None = None) -> str:
    """Of an object of `world`, in its own workspace or in another one."""
    return reverse(f"pages:{name}", args=[(workspace or world).agent.workspace.slug, *page.of(world)])


def send(client: Client, method: str, path: str) -> Any:
    return client.post(path) if method == "POST" else client.get(path)


def methods(page: Page) -> list[tuple[str, str]]:
    return [(method, role) for method, role in (("GET", page.get), ("POST", page.post)) if role]


def test_every_page_of_a_workspace_stands_in_the_table() -> None:
    (pages,) = [one for one in get_resolver().url_patterns if getattr(one, "namespace", None) == "pages"]
    assert {name for name in pages.reverse_dict if isinstance(name, str)} == set(PAGES)


@pytest.mark.parametrize("name", PAGES)
def test_a_page_answers_whom_it_should_and_refusals_change_nothing(db: None, scene: Scene, name: str) -> None:
    """Of the lesser roles the highest stands for all, and of the answers to who may those to a form or an action that
    is sent empty: what each page shows is seen by tests of its own."""
    faults = refusal_faults(who_may_not(scene, name) + lesser_roles(scene, name, slice(-1, None)), scene.state)
    if PAGES[name].there:
        faults += who_may(scene, name, lambda least: least, wanted={"POST"})
    assert not faults, "\n".join(faults)


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name, page in PAGES.items() if page.there])
def test_an_admin_may_whatever_the_least_role_may(db: None, scene: Scene, name: str) -> None:
    faults = [*who_may(scene, name, lambda least: least), *who_may(scene, name, lambda least: ADMIN)]
    assert not faults, "\n".join(faults)


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name, page in PAGES.items() if ADMIN in (page.get, page.post)])
def test_every_lesser_role_is_refused_and_changes_nothing(db: None, scene: Scene, name: str) -> None:
    faults = refusal_faults(lesser_roles(scene, name, slice(None)), scene.state)
    assert not faults, "\n".join(faults)


def refused(client: Client, method: str, path: str, expected: tuple[int, str]) -> str | None:
    """What is wrong with the status and the place that it leads to."""
    answer = send(client, method, path)
    given = answer.status_code, answer.headers.get("Location", "").split("?")[0]
    return None if given == expected else f"answers {given}, not {expected}"


def lesser_roles(scene: Scene, name: str, which: slice) -> list[Refusal]:
    """A lesser role is 403. `which` of them, from the least to the highest."""
    path = address(name, PAGES[name], scene.world)
    return [
        (f"{method} {name} by {role}", partial(refused, scene.people[role], method, path, (403, "")))
        for method, least in methods(PAGES[name])
        for role in ROLES[: ROLES.index(least)][which]
    ]


def who_may_not(scene: Scene, name: str) -> list[Refusal]:
    """Nobody goes to the log-in, a stranger's page is 404, and a method that it lacks 405."""
    page = PAGES[name]
    path = address(name, page, scene.world)
    refusals: list[Refusal] = []

    def refuses(who: str, client: Client, method: str, path: str, status: int, location: str = "") -> None:
        refusals.append((f"{method} {name} by {who}", partial(refused, client, method, path, (status, location))))

    for method, _ in methods(page):
        refuses("nobody", scene.nobody, method, path, 302, "/log-in")
        refuses("a stranger", scene.stranger, method, path, 404)
        if page.of(scene.world) and not page.everyones:
            theirs = address(name, page, scene.world, workspace=scene.elsewhere)
            refuses("a stranger, by way of a workspace of their own", scene.stranger, method, theirs, 404)
    for method in sorted({"GET", "POST"} - {method for method, _ in methods(page)}):
        refuses("an admin, which it lacks", scene.people[ADMIN], method, path, 405)
    return refusals


def who_may(
    scene: Scene, name: str, choose: Callable[[str], str], wanted: Collection[str] = ("GET", "POST")
) -> Iterator[str]:
    """The role that `choose` returns for the least one. A form that is sent empty may be refused for what it lacks, and
    an action for the state that it finds."""
    page = PAGES[name]
    for method, least in methods(page):
        if method not in wanted:
            continue
        usual = {200, 286, 302} if method == "GET" else {200, 302, 400, 409}
        role = choose(least)
        with undone():
            answer = send(scene.people[role], method, address(name, page, scene.world))
        if answer.status_code not in usual:
            yield f"{method} {name} by {role}: answers {answer.status_code}, not one of {sorted(usual)}"
