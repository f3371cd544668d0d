"""Whatever stands in a query or a form, the answer is no 5xx: NUL, numbers of 5,000 digits, numbers out of range."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse

from tests.architecture.api_calls import CALLS, build
from tests.architecture.test_api_matrix import changed_tables, contained, state_of_everything
from tools.factories import WorkspaceFactory

pytestmark = pytest.mark.django_db

Send = Callable[[dict[str, str]], Any]
"""Sends values as a page's query or form; its answer."""

REFUSED = ("a\x00b", "filer:" + "9" * 5000)
ODD = ("-" + "9" * 40, "1e400", "nan", "[" * 2000, '{"a": "\\u0000"}', "²")
QUERIES = {
    "decisions": ("q", "agent", "verdict", "version", "arm", "since", "order", "before"),
    "label": ("q", "agent", "version"),
    "label-bulk": ("q", "agent", "version", "since", "id", "before"),
    "episodes": ("q", "agent", "since", "state", "session", "before"),
    "agents": ("after",),
    "agent": ("before",),
    "agent-traces": ("download", "since", "until", "labelled"),
    "runs": ("agent", "method", "state", "tag", "before", "compare"),
    "run-start": ("like", "agent", "dataset"),
    "datasets": ("before",),
    "dataset-make": ("agent", "version", "which", "kind", "suggestions", "least_confidence"),
    "rewards": ("x",),
    "run-curves": ("after",),
    "run-episodes": ("solved", "domain", "from"),
    "imports": ("before",),
    "import-new": ("what",),
    "pipelines": ("before",),
    "rehearsals": ("before",),
    "rehearsal-start": ("agent",),
    "models": ("agent",),
    "version-try": ("preset",),
    "shadow-start": ("version",),
    "overview": ("x",),
}
FORMS = {
    "decision-label": ("verdict", "option", "suggested", "note", "view", "query", "have", "next"),
    "run-start": (
        *("agent", "dataset", "learning_rate", "epochs", "batch_size", "steps", "lora_r", "seed", "more"),
        *("judge", "judge_backend", "judge_model", "judge_share", "judge_prompt"),
    ),
    "dataset-make": ("agent", "version", "which", "name", "kind", "suggestions", "least_confidence"),
    "train-new": ("agent",),
    "version-try": (
        *("name", "treatment_share", "smallest_effect", "promote_e", "rollback_e", "futility_e", "min_units_per_arm"),
        *("min_seconds", "exposure_window_seconds", "attribution_window_seconds", "error_rate", "latency", "budget_ms"),
        *("missing_feedback", "cost", "budget_cost", "invalid_answers", "secondary", "slices", "guardrail_e"),
        *("max_excess_failures", "min_requests_for_failures"),
    ),
    "agent-edit": (
        *("base", "seen", "prompt_template", "options", "temperature", "epsilon"),
        *("exploration_budget", "action_space"),
        *("max_prompt_tokens", "max_completion_tokens", "action_schema", "state_schema"),
    ),
    "agent-new": (
        *("kind", "name", "slug", "unit", "prompt_template", "options", "temperature", "epsilon"),
        *("exploration_budget", "action_space"),
        *("max_prompt_tokens", "max_completion_tokens", "action_schema", "state_schema"),
    ),
    "key-make": (
        *("name", "agent", "slug", "kind", "options", "scopes", "requests_a_minute", "spend_a_day", "agents"),
    ),
    "key-limits": ("requests_a_minute", "spend_a_day", "agents"),
    "agent-cache": ("seconds",),
    "agent-judge-calibrate": ("metric", "source"),
    "erasures": ("kind", "name"),
    "decision-ask": ("version", "state", "options"),
    "shadow-start": ("agent", "version", "share", "min_decisions", "then", "reason"),
    "import-new": ("agent", "name"),
    "label-bulk": ("query", "matching", "labelled", "digest", "verdict", "right"),
    "label-queue-new": (
        *("name", "subject", "agent", "verdict", "version", "arm", "session", "state", "since", "q", "strategy"),
        *("overlap", "guidelines", "skip_policy", "hold_seconds", "reviewers", "adjudicators", "gold_share", "gold"),
    ),
    "best-new": ("agent", "dataset", "heldout", "kinds", "minutes", "retire_others"),
    "pipeline-new": ("agent", "method", "model", "held_out", "deploy", "settings"),
    "rehearsal-start": ("text_field", "label_field", "seed_share", "decisions", "rounds", "seeds", "noise"),
}
SETUP = {
    "prompt_template": "{{ text }}",
    "options": "a\nb",
    "temperature": "1",
    "epsilon": "0.1",
    "exploration_budget": "20",
    "action_space": "choice",
    "max_prompt_tokens": "64",
    "max_completion_tokens": "16",
}
GIVEN = {
    "decision-label": {"verdict": "confirmed"},
    "agent-edit": SETUP | {"base": "1", "make": "1"},
    "agent-new": SETUP | {"kind": "CUSTOM", "name": "Sorter", "unit": "item"},
    "best-new": {"agent": "filer", "kinds": "words", "minutes": "5"},
    "pipeline-new": {"agent": "filer", "method": "posterior", "held_out": "0.2"},
    "key-make": {"name": "app", "agent": "", "slug": "new", "kind": "CUSTOM", "options": "a\nb", "scopes": "admin"},
    "erasures": {"kind": "unit", "name": "somebody"},
    "label-bulk": {"matching": "1", "labelled": "0", "verdict": "confirmed"},
    "label-queue-new": {
        "name": "n",
        "strategy": "random",
        "overlap": "1",
        "skip_policy": "drop",
        "hold_seconds": "9",
        "gold_share": "0",
    },
}
TOGETHER = {"version-try"}
"""Numbers of one form, of which none is right without the others: all of them are odd at once."""
OBJECT = {
    "decision-label": "decision",
    "decision-ask": "decision",
    "run-curves": "run",
    "run-episodes": "run",
    "version-try": "version",
    "key-limits": "key",
}
OF_AGENT = ("agent", "agent-traces", "agent-edit", "agent-cache", "agent-judge-calibrate")


@pytest.fixture(scope="module")
def world(module_db: None) -> Any:
    """One of everything, made once for this module; what a form changes is undone after its test."""
    return build(WorkspaceFactory(slug="acme", name="Acme"), "filer")


@pytest.fixture
def workspace(db: None, world: Any) -> Any:
    return world.agent.workspace


def address(name: str, world: Any) -> str:
    of = [world.agent.workspace.slug]
    if name in OF_AGENT:
        of.append(world.agent.slug)
    return reverse(f"pages:{name}", args=[*of, getattr(world, OBJECT[name]).pk] if name in OBJECT else of)


def unnamed(answer: Any, fields: tuple[str, ...]) -> list[str]:
    """The fields whose fault a refusal does not name. All of them were faulty in one request."""
    said = answer.content.decode()
    return [field for field in fields if f"<code>{field}</code> contains a" not in said]


def refusal_faults(send: Send, fields: tuple[str, ...]) -> Iterator[str]:
    """What is wrong with the answers to values that no field may hold."""
    for value in REFUSED:
        answer = send(dict.fromkeys(fields, value))
        if answer.status_code != 400 or unnamed(answer, fields):
            yield f"{value[:20]!r} in every field: {answer.status_code}, not named: {unnamed(answer, fields)}"


def odd(fields: tuple[str, ...], *, together: bool = False) -> Iterator[dict[str, str]]:
    """Queries or forms in which every field is odd, each by another value, until each had all of them; and such in
    which one field alone is odd, by two of the values, since the fault of one may hide that of another."""
    for shift in range(len(ODD)):
        yield {field: ODD[(place + shift) % len(ODD)] for place, field in enumerate(fields)}
    if len(fields) > 1 and not together:
        for place, field in enumerate(fields):
            yield from ({field: ODD[(place + shift) % len(ODD)]} for shift in (0, 3))


def server_faults(send: Send, values: Iterator[dict[str, str]]) -> Iterator[str]:
    for given in values:
        with contained():
            status = send(given).status_code
        if status >= 500:
            yield f"{ {field: value[:20] for field, value in given.items()} }: {status}"


@pytest.mark.parametrize("name", QUERIES)
def test_a_query_is_answered_or_refused(world: Any, admin: Any, page_client: Any, name: str) -> None:
    client, path, fields = page_client(admin), address(name, world), QUERIES[name]

    def send(query: dict[str, str]) -> Any:
        return client.get(path, query)

    faults = [*refusal_faults(send, fields), *server_faults(send, odd(fields))]
    assert not faults, "\n".join(faults)


@pytest.mark.parametrize("name", FORMS)
def test_a_form_is_answered_or_refused(world: Any, admin: Any, page_client: Any, name: str) -> None:
    client, path, fields = page_client(admin), address(name, world), FORMS[name]
    client.get("/")
    before = state_of_everything()

    def send(form: dict[str, str]) -> Any:
        return client.post(path, GIVEN.get(name, {}) | form)

    faults = [*refusal_faults(send, fields)]
    if name == "decision-label":  # a query inside of a field
        status = send({"query": "q=a%00b"}).status_code
        faults += [] if status == 400 else [f"a NUL in the query inside of `query`: {status}"]
    faults += [f"a refused form changes {table}" for table in changed_tables(before)]
    faults += server_faults(send, odd(fields, together=name in TOGETHER))
    assert not faults, "\n".join(faults)


def test_the_log_in_is_answered_or_refused(viewer: Any) -> None:
    def send(given: dict[str, str]) -> Any:
        return Client(raise_request_exception=False).post("/log-in", {"login": viewer.email, "password": "x"} | given)

    faults = []
    for field in ("login", "password", "next"):
        for value in REFUSED:
            answer = send({field: value})
            if answer.status_code != 400 or b"The request was refused" not in answer.content:
                faults.append(f"{field} {value[:20]!r}: {answer.status_code}")
        faults += server_faults(send, ({field: value} for value in ODD))
    assert not faults, "\n".join(faults)


def test_the_api_s_queries_are_answered_or_refused(world: Any, api: Any) -> None:
    client, faults = api(), []
    for path in ("decisions", "/api/training/decisions", "/api/v1/nothing-here"):
        for value in ("%00", "9" * 5000):
            answer = client.get(f"{path}?agent={value}")
            named = answer.status_code == 400 and answer.json()["error"]["fields"][0]["field"] == "agent"
            if not named and answer.status_code != 404:
                faults.append(f"{path}?agent={value[:20]}: {answer.status_code}, or agent is not named")
    names = ("item", "limit", "cursor", "since", "metric", "agentType", "after")
    for call in (call for calls in CALLS.values() for call in calls if call.method == "GET"):
        path = world.fill(call.path) + ("&" if "?" in call.path else "?")
        for value in ("9" * 40, "-1e400", "nan"):
            query = "&".join(f"{name}={value}" for name in names)
            if (status := client.get(f"{path}{query}").status_code) >= 500:
                faults.append(f"{call.path}, each value {value[:20]}: {status}")
    assert not faults, "\n".join(faults)
