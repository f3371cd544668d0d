"""Connecting an app: makes a key and an agent, and programs that run with both as copied.

The programs are template files, `templates/project/snippets/`, filled here by `write_snippets`; a test runs each of
them against a live server. `project.pages.connect_views` is the page.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from django.conf import settings
from django.db import transaction
from django.template.loader import render_to_string

from decisions.agents.current import find_current_version
from decisions.agents.example_values import write_example
from decisions.agents.prompts import template_fields
from decisions.agents.services import AgentSetup, check_setup, create_agent
from decisions.models import ActionSpaceKind, Agent, AgentKind, AgentVersion
from models_registry.models import Alias, AliasName
from workspaces.access.actors import Actor
from workspaces.access.services import NO_LIMITS, KeyLimits, NewKey, create_api_key
from workspaces.errors import FieldFault, InvalidInput
from workspaces.models import Scope

EXAMPLE = "Dinner with Kim on Friday at eight"
EXAMPLE_OPTIONS = ("today", "this week", "later")
USUAL_SCOPES = (Scope.ROUTE_READ, Scope.DECISIONS_WRITE, Scope.FEEDBACK_WRITE, Scope.EXPORT_READ)
SLUG = re.compile(r"[a-z0-9][a-z0-9_-]{0,62}")
NAMES = re.compile(r"(?<=[ \[])(true|false|null)(?=,?$)", re.MULTILINE)
"""JSON's names where they are values: a text has quotes around it."""
NAMED = {"true": "True", "false": "False", "null": "None"}
LANGUAGES = (("curl", "curl.sh"), ("Python", "python.py"), ("TypeScript", "typescript.ts"))
"""Name and file, in the order of the page."""
CHAT_LANGUAGES = (("curl", "chat_curl.sh"), ("Python", "chat_python.py"), ("JavaScript", "chat_javascript.mjs"))
"""The same for agents that are asked by chats, with OpenAI's own clients."""
GATEWAY_PORT = 8020


@dataclass(frozen=True, slots=True)
class NewAgent:
    """An agent that chooses one of `options` after reading `{{ text }}`."""

    slug: str
    name: str
    kind: str = AgentKind.CUSTOM
    options: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class Snippet:
    """One program, complete: it runs as it is copied. `file` is the name to save it under."""

    language: str
    file: str
    text: str


@dataclass(frozen=True, slots=True)
class Connection:
    """A key that was just made. `asks`: the agent has a model, or chats, so the programs ask it; else they record
    decisions."""

    made: NewKey
    agent: Agent
    asks: bool
    lacking: tuple[str, ...]  # scopes that the programs need and the key has not


@transaction.atomic
def connect_app(
    *,
    by: Actor,
    name: str,
    scopes: Sequence[str],
    agent: Agent | None,
    new: NewAgent | None = None,
    limits: KeyLimits = NO_LIMITS,
) -> Connection:
    """Makes the key, and the agent where `new` describes one. Raises InvalidInput with every fault; then nothing is
    made."""
    faults: list[FieldFault] = []
    if not 0 < len(name.strip()) <= 200:
        faults.append(FieldFault("name", "1 to 200 characters", "my-app"))
    if agent is None:
        try:
            agent = _make_agent(by, new)
        except InvalidInput as error:
            faults += error.faults
    try:
        made = create_api_key(by=by, name=name.strip()[:200], scopes=scopes, limits=limits)
    except InvalidInput as error:
        faults += error.faults
    if faults or agent is None:
        raise InvalidInput("The key was not created.", faults=faults)
    return show_connection(made=made, agent=agent)


def show_connection(*, made: NewKey, agent: Agent) -> Connection:
    """What a page or a terminal says of a key that was just made."""
    asks = is_asked(agent)
    return Connection(made, agent, asks, lacking_scopes(made.key.scopes, asks=asks))


def is_served(agent: Agent) -> bool:
    """A version answers for this agent: it can be asked."""
    return Alias.objects.filter(registered_model=agent.registered_model_id, name=AliasName.CHAMPION).exists()


def is_asked(agent: Agent) -> bool:
    """Whether programs ask the agent: also one that chats and has no model yet, since an outside model may answer."""
    version = find_current_version(agent)
    return (version is not None and version.chats) or is_served(agent)


def _make_agent(by: Actor, new: NewAgent | None) -> Agent:
    if new is None:
        raise InvalidInput("No agent was chosen.", faults=[FieldFault("agent", "is missing", "an agent")])
    faults: list[FieldFault] = []
    if not SLUG.fullmatch(new.slug):
        faults.append(FieldFault("slug", "1 to 63 lower-case letters, digits and hyphens", "for example filer"))
    if new.kind not in AgentKind.values:
        faults.append(FieldFault("kind", f"{new.kind!r} is unknown", ", ".join(AgentKind)))
    setup = AgentSetup(prompt_template="{{ text }}", options=list(new.options))
    try:
        check_setup(setup)
    except InvalidInput as error:
        faults += error.faults
    if faults:
        raise InvalidInput("The agent is invalid.", faults=faults)
    return create_agent(by=by, slug=new.slug, name=new.name or new.slug, kind=new.kind, setup=setup)


def lacking_scopes(scopes: Sequence[str], *, asks: bool) -> tuple[str, ...]:
    """The scopes that the programs need and `scopes` has not."""
    if Scope.ADMIN in scopes:
        return ()
    needed = (Scope.ROUTE_READ if asks else Scope.DECISIONS_WRITE, Scope.FEEDBACK_WRITE)
    return tuple(scope.value for scope in needed if scope not in scopes)


def find_gateway(url: str) -> str:
    """The gateway's address without a path. `url` is the instance's."""
    if settings.GATEWAY_URL:
        return str(settings.GATEWAY_URL).rstrip("/")
    parts = urlsplit(url)
    host = f"[{parts.hostname}]" if ":" in (parts.hostname or "") else parts.hostname
    return f"{parts.scheme}://{host}:{GATEWAY_PORT}"


def write_snippets(*, url: str, token: str, agent: Agent, asks: bool) -> tuple[Snippet, ...]:
    """The programs for one agent. `url` is the instance's address without a path."""
    version = find_current_version(agent)
    assert version is not None  # the page offers agents with one
    if asks and version.chats:
        return _write_chats(url=url.rstrip("/"), token=token, slug=agent.slug)
    item = example_item(version, asks=asks)
    if not asks:
        item = {"agent": agent.slug, **item, "policy_name": "my-own-rules"}
    context = {
        "url": url.rstrip("/"),
        "token": token,
        "asks": asks,
        "path": f"/api/v1/agents/{agent.slug}/decide" if asks else "/api/v1/decisions",
        # JSON is a literal of TypeScript as well, and of Python as long as it holds neither true, false nor null.
        "line": json.dumps(item, ensure_ascii=False),
        "python": NAMES.sub(lambda name: NAMED[name[1]], json.dumps(item, ensure_ascii=False, indent=4)),
        "typescript": json.dumps(item, ensure_ascii=False, indent=2).replace("\n", "\n  "),
    }
    return _fill(LANGUAGES, context)


def _write_chats(*, url: str, token: str, slug: str) -> tuple[Snippet, ...]:
    messages = [{"role": "user", "content": EXAMPLE}]
    context = {
        "url": url,
        "gateway": find_gateway(url),
        "token": token,
        "slug": slug,
        "line": json.dumps({"model": slug, "messages": messages}),
        "messages": json.dumps(messages),
    }
    return _fill(CHAT_LANGUAGES, context)


def _fill(languages: Sequence[tuple[str, str]], context: Mapping[str, Any]) -> tuple[Snippet, ...]:
    # A rendered template counts as safe HTML, which a program with an agent's options in it is not: strip() makes it
    # plain text again, so that the page escapes it.
    texts = {
        file: render_to_string(f"project/snippets/{file}.txt", dict(context)).strip() + "\n" for _, file in languages
    }
    return tuple(Snippet(language, file, texts[file]) for language, file in languages)


def example_item(version: AgentVersion, *, asks: bool) -> dict[str, Any]:
    """A state that fits the version, with options where each decision brings its own, and unless a model is asked
    (`asks`) with an action."""
    state = example_state(version.prompt_template)
    if version.state_schema is not None:
        written = write_example(version.state_schema)
        state = state | written if isinstance(written, dict) else state
    item: dict[str, Any] = {"state": state, "unit": "example-1"}
    space, options = version.action_space, version.options or list(EXAMPLE_OPTIONS)
    if version.options is None and space in (ActionSpaceKind.CHOICE, ActionSpaceKind.RANKING):
        item["options"] = options
    if asks:
        return item
    if space == ActionSpaceKind.STRUCTURED:
        item["action"] = write_example(version.action_schema or {}, state=state)
        if isinstance(item["action"], dict) and "confidence" in item["action"]:
            item["confidence"] = item["action"]["confidence"]
    elif space == ActionSpaceKind.RANKING:
        item["action"] = options
    elif space == ActionSpaceKind.TOOL_CALLS:
        item["action"] = [{"name": "look_up", "arguments": {"query": EXAMPLE}}]
    else:
        item["action"] = EXAMPLE if space == ActionSpaceKind.TEXT else options[0]
    return item


def example_state(template: str) -> dict[str, Any]:
    """A state that has every field which the template names."""
    state: dict[str, Any] = {}
    for path in template_fields(template):
        if path == "options":
            continue  # filled with the offered options
        *outer, last = path.split(".")
        place = state
        for name in outer:
            inner = place.setdefault(name, {})
            place = inner if isinstance(inner, dict) else place
        if isinstance(place, dict) and not isinstance(place.get(last), Mapping):
            place[last] = EXAMPLE
    return state or {"text": EXAMPLE}
