"""An environment as a class of tools, as TRL's GRPOTrainer finds them: their schemas, and what calls earn."""

from __future__ import annotations

import inspect
import json
from typing import Any

import msgspec
import pytest
from transformers.utils import get_json_schema

from tests.training.environments.custom_environment import installed  # noqa: F401 - a fixture
from training.engine.environments.factory import FAILED, OVER, environment_factory
from training.engine.environments.protocol import draw_tasks
from training.engine.environments.registry import find_environment

SOLVED = ["identify linear", "subtract 7", "divide 3", "answer 3"]
TASK = {
    "id": "t",
    "environment": "equations",
    "text": "Solve 3x + 7 = 16",
    "facts": {"factor": 3, "shift": 7, "right": 16},
}


def tools_of(world: Any) -> dict[str, Any]:
    """As TRL looks for them."""
    found = inspect.getmembers(type(world), predicate=inspect.isfunction)
    return {name: getattr(world, name) for name, _ in found if name not in ("reset", "get_reward") and name[0] != "_"}


def test_every_tool_has_the_schema_that_a_chat_template_is_given() -> None:
    for name in ("equations", "office"):
        world = environment_factory(name)()
        tools = tools_of(world)
        known = {tool.name: tool for tool in find_environment(name)().tools()}
        assert set(tools) == set(known)
        for method in tools.values():
            told = get_json_schema(method)["function"]
            tool = known[told["name"]]
            assert told["description"] == tool.does
            assert set(told["parameters"].get("properties", {})) == set(tool.parameters["properties"])
            assert set(told["parameters"].get("required", [])) == set(tool.parameters.get("required", []))


def test_calls_act_and_are_paid_and_wrong_ones_say_why() -> None:
    world = environment_factory("equations")()
    assert "3x + 7 = 16" in world.reset(task=json.dumps(TASK), prompt="ignored")
    assert world.act(action="take a walk").startswith("Error: 'take a walk' is no valid action here")
    for action in SOLVED:
        world.act(action=action)
    assert world.get_reward() == pytest.approx(8.5 / 9.5)
    assert world.act(action="answer 3") == OVER
    world.reset(task=TASK)
    assert world.get_reward() == 0.0
    with pytest.raises(ValueError, match="the row has no task"):
        world.reset(prompt="x")


@pytest.mark.usefixtures("installed")
def test_an_episode_whose_grader_failed_has_no_reward() -> None:
    world = environment_factory("flickering")()
    drawn = draw_tasks(find_environment("flickering"), 40, "train")
    world.reset(task=msgspec.to_builtins(next(task for task in drawn if task.facts["wanted"] == ["green"])))
    assert world.act(action="press green") == FAILED
    assert world.get_reward() is None
