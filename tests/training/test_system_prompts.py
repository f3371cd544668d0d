"""One system prompt: what serves, learns and leaves the house reads the same one, and where there is none nothing has
changed, to the byte."""

from __future__ import annotations

import hashlib
import json
import uuid
from typing import Any

import pytest

from decisions.agents.prompts import make_prompt
from decisions.models import Agent, AgentVersion
from models_registry.backends.endpoint import Endpoint, ScoreItem, WriteItem
from models_registry.backends.model_server import ModelServerClient
from models_registry.backends.openai import OpenAIClient
from models_registry.backends.prompts import put_before
from training.engine.rows.types import normalise_prompt
from training.exports.modelfile import write_modelfile
from training.rows.selection import Rewarded
from training.rows.shapes_of.shapes import shape_of

SYSTEM = "You file notes.\nAnswer with a folder."
STATE = {"text": "Flights to Oslo", "notes": [{"id": "n1"}, {"id": "n2"}]}
DECISION = uuid.UUID("01890000-0000-7000-8000-000000000001")
KINDS: dict[str, dict[str, Any]] = {
    "choice": {"options": ["work", "travel"], "action": "travel", "template": "File: {{ text }}"},
    "ranking": {"options": ["n1", "n2"], "action": ["n2", "n1"], "template": "Is {{ options }} about {{ text }}?"},
    "text": {"options": None, "action": "By train.", "template": "{{ text }}?"},
    "tool_calls": {"options": None, "action": [{"name": "find", "arguments": {}}], "template": "{{ text }}!"},
}
WITHOUT = "10fcbb6368fcccd9c5b9728ae4cc30b556d416a80058c05fca256e2ab938aecb"
"""SHA-256 of the rows below of versions without a system prompt, as they were before there were any."""


def rows_of(space: str, system: str) -> list[dict[str, Any]]:
    kind = KINDS[space]
    fields: dict[str, Any] = {"action_space": space, "prompt_template": kind["template"]}
    version = AgentVersion(**fields | ({"system_prompt": system} if system else {}))
    decision = Rewarded(
        id=DECISION, version=version, state=STATE, options=kind["options"], action=kind["action"], propensity=0.5,
        unit="ann", episode=None, alternatives=None, temperature=1.0, epsilon=0.1, completion=None, logprobs=None,
        reward=0.75, raw=1.5, right=None, reward_version=1,
    )  # fmt: skip
    rows = shape_of(version).write_rows(decision)
    assert not isinstance(rows, str), rows
    return rows


def digest_of(told: Any) -> str:
    return hashlib.sha256(json.dumps(told).encode()).hexdigest()


def version_of(system: str) -> AgentVersion:
    return AgentVersion(prompt_template="File: {{ text }}", system_prompt=system)


def test_rows_of_every_shape_carry_it_and_are_as_they_were_without() -> None:
    assert digest_of([rows_of(space, "") for space in KINDS]) == WITHOUT
    for space in KINDS:
        plain, told = rows_of(space, ""), rows_of(space, SYSTEM)
        assert [row.pop("system") for row in told] == [SYSTEM] * len(plain)
        assert told == plain


@pytest.mark.parametrize("system", ["", SYSTEM])
def test_servers_of_both_kinds_are_asked_with_it(system: str, serve: Any, settings: Any) -> None:
    """Our model server as the rows above say it, others by a system message; the whole body, where there is none."""
    prompt = make_prompt(version_of(system), STATE)
    own, other = serve(), serve()
    score = ScoreItem("m", prompt, ("work", "travel"), 64)
    write = WriteItem("m", prompt, 64, max_tokens=9, temperature=1.0)
    ours, theirs = Endpoint("ours", "model_server", own.origin), Endpoint("theirs", "openai", other.url)
    own.answers.append((200, {"results": [{"probabilities": [0.25, 0.75]}]}))
    assert ModelServerClient().score(ours, [score], seconds=5)[0].probabilities == (0.25, 0.75)
    ModelServerClient().write(ours, [write], seconds=5)
    OpenAIClient().score(theirs, [score], seconds=5)
    OpenAIClient().write(theirs, [write], seconds=5)
    said = [{"role": "system", "content": SYSTEM}] if system else []
    asked = {"prompt": "File: Flights to Oslo", "options": ["work", "travel"], "max_prompt_tokens": 64}
    assert own.asked[0] == {"items": [{"model": "m", **asked, **({"system": SYSTEM} if system else {})}]}
    turn = {"role": "user", "content": "File: Flights to Oslo"}
    body = {"model": "m", "temperature": 1.0, "max_tokens": 9, "messages": [*said, turn]}
    assert own.asked[1] == body | {"max_prompt_tokens": 64} and other.asked[1] == body
    [*before, question] = other.asked[0]["messages"]
    assert before == said and question["content"].startswith("File: Flights to Oslo\n\nAnswer with one of")


def test_a_client_s_own_system_message_follows_the_agent_s_in_the_same_one() -> None:
    user, own = {"role": "user", "content": "Hello"}, {"role": "system", "content": "Be brief."}
    assert put_before("", [own, user]) == [own, user]
    assert put_before("Agent.", [user, own]) == [{"role": "system", "content": "Agent."}, user, own]
    assert put_before("Agent.", [own, user]) == [{"role": "system", "content": "Agent.\n\nBe brief."}, user]
    parts = own | {"content": [{"type": "text", "text": "Be brief."}]}
    said, _ = put_before("Agent.", [parts, user])
    assert "".join(part["text"] for part in said["content"]) == "Agent.\n\nBe brief."


def test_questions_under_other_system_prompts_are_no_group() -> None:
    same = {normalise_prompt("A  note", system) for system in (None, "")}
    assert same == {"a note"} == {normalise_prompt("a NOTE")}
    assert len({normalise_prompt("a note", system) for system in (None, "One.", "Two.")}) == 3


@pytest.mark.parametrize(
    ("system", "last"),
    [
        ("", "PARAMETER num_predict 16\n"),
        (SYSTEM, f'SYSTEM """{SYSTEM}"""\n'),
        ('Say "no"', 'SYSTEM """Say "no""""\n'),
        ('Quote it:\n"""x""" \nso.', None),
    ],
)
def test_the_modelfile_says_it_where_ollama_can_read_it(system: str, last: str | None) -> None:
    asks = AgentVersion(agent=Agent(slug="filer"), number=3, system_prompt=system, temperature=0.5)
    told = write_modelfile(asks)
    assert told.startswith("# as filer v3 asks\n# trained on prompts of up to 64 tokens: ")
    assert "\nFROM .\nPARAMETER temperature 0.5\n" in told and "num_ctx" not in told
    assert "\nPARAMETER num_ctx 2048\n" in write_modelfile(asks, parameters={"num_ctx": 2048})
    if last is None:
        assert 'SYSTEM "' not in told and "# No SYSTEM" in told
    else:
        assert told.endswith(last)
