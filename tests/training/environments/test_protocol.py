"""The protocol, kept by every environment that is known by name, and by the template that operators copy."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import msgspec
import pytest

from training.engine.environments.agents import ExpertAgent, RandomAgent, act_now
from training.engine.environments.demonstrations import demonstrate
from training.engine.environments.episodes import Episode
from training.engine.environments.protocol import BaseEnvironment, draw_tasks
from training.engine.environments.registry import (
    BUILT_IN,
    GROUP,
    BadEnvironment,
    UnknownEnvironment,
    find_environment,
    find_installed,
    known_environments,
)
from training.engine.environments.tasks import Split

pytestmark = pytest.mark.usefixtures("installed", "problem_folder")
KNOWN = [*BUILT_IN, "lamps"]
COUNT = 12


def split_of(environment: type[BaseEnvironment]) -> Split:
    return environment.splits[0]


def run(agent: ExpertAgent | RandomAgent, environment: type[BaseEnvironment]) -> list[Episode]:
    tasks = draw_tasks(environment, COUNT, split_of(environment))
    return [act_now(agent, environment(), task, seed) for seed, task in enumerate(tasks)]


@pytest.fixture(params=KNOWN)
def environment(request: pytest.FixtureRequest) -> type[BaseEnvironment]:
    return find_environment(request.param)


@pytest.mark.slow
def test_the_expert_solves_every_task_and_earns_no_more_than_the_most(environment: type[BaseEnvironment]) -> None:
    for episode in run(ExpertAgent(), environment):
        assert (episode.success, episode.score, episode.fault) == (True, 1.0, None)
        assert 0 < episode.total_reward <= environment.most_reward + 1e-9
        assert all(step.error is None for step in episode.trajectory)


def test_solved_is_a_score_of_one_and_nothing_is_paid_for_what_is_refused(environment: type[BaseEnvironment]) -> None:
    for episode in run(RandomAgent(3), environment):
        assert episode.success == (episode.score == 1.0)
        assert 0.0 <= episode.score <= 1.0
        assert episode.steps <= environment.max_steps
    world = environment()
    world.reset(environment.draw_task(0, split_of(environment)))
    before = world.get_state()
    refused = world.step("no such action")
    assert (refused.reward, world.steps) == (0.0, 1)
    assert "no such action" in refused.info["error"]
    assert {**world.get_state(), "steps": 0} == before


def test_the_same_task_seed_and_actions_give_the_same_episode(environment: type[BaseEnvironment]) -> None:
    assert run(RandomAgent(1), environment) == run(RandomAgent(1), environment)
    task = environment.draw_task(1, split_of(environment))
    assert task == environment.draw_task(1, split_of(environment))
    assert msgspec.json.decode(msgspec.json.encode(task), type=type(task)) == task


def test_no_task_is_in_both_splits(environment: type[BaseEnvironment]) -> None:
    if environment.splits == ("heldout",):
        with pytest.raises(ValueError, match="has no tasks to learn from"):
            environment.draw_task(0, "train")
        return
    names = [{task.id for task in draw_tasks(environment, COUNT, split)} for split in ("train", "heldout")]  # type: ignore[arg-type]
    assert not names[0] & names[1]
    assert len(names[0]) == COUNT


def test_an_episode_goes_on_from_a_snapshot_as_it_did(environment: type[BaseEnvironment]) -> None:
    world = environment()
    world.reset(environment.draw_task(2, split_of(environment)), seed=5)
    kept, offered = world.snapshot(), world.get_valid_actions()
    went = [world.step(offered[0]), world.get_state()]
    for _ in range(2):  # as often as one likes
        world.restore(kept)
        assert world.get_valid_actions() == offered
        assert [world.step(offered[0]), world.get_state()] == went


def test_a_task_of_another_environment_is_refused(environment: type[BaseEnvironment]) -> None:
    task = msgspec.structs.replace(environment.draw_task(0, split_of(environment)), environment="another")
    with pytest.raises(ValueError, match="of environment 'another', not of"):
        environment().reset(task)


def test_nothing_is_offered_or_done_after_the_end(environment: type[BaseEnvironment]) -> None:
    world = environment()
    world.reset(environment.draw_task(0, split_of(environment)))
    while not world.done:
        world.step(world.get_valid_actions()[0])
    assert world.get_valid_actions() == ()
    with pytest.raises(RuntimeError, match="reset the environment"):
        world.step("finish")


def test_a_call_of_a_tool_means_an_action(environment: type[BaseEnvironment]) -> None:
    world = environment()
    world.reset(environment.draw_task(0, split_of(environment)))
    names = [tool.as_openai()["function"]["name"] for tool in world.tools()]
    with pytest.raises(ValueError, match=names[0]):
        world.read_call("no_such_tool", {})


def test_an_agent_that_waits_is_awaited() -> None:
    """Such as one that asks a server for its next action."""

    class Slow(RandomAgent):
        async def select_action(self, *given: Any) -> str:
            await asyncio.sleep(0)
            return await super().select_action(*given)

    world, task = find_environment("lamps"), find_environment("lamps").draw_task(0, "train")
    with pytest.raises(RuntimeError, match="Slow is asynchronous"):
        act_now(Slow(), world(), task)
    with ThreadPoolExecutor(1) as apart:  # this thread may have a loop already, of a browser
        awaited = apart.submit(lambda: asyncio.run(Slow(1).run_episode(world(), task))).result()
    assert awaited == act_now(RandomAgent(1), world(), task)


def test_demonstrations_are_rows_of_what_the_worker_did() -> None:
    tasks = list(draw_tasks(find_environment("lamps"), 40, "train"))
    right, wrong = list(demonstrate(tasks)), list(demonstrate(tasks, wrong=0.5, seed=1))
    assert not [fault for row in [*right, *wrong] for fault in row.faults()]
    assert {row.group for row in right} == {"lamps-1", "lamps-2"}
    assert len(wrong) > len(right)  # a worker who errs needs more steps


class TestNames:
    def test_installed_packages_add_environments_by_name(self, installed: Path) -> None:
        assert {*BUILT_IN, "lamps", "flickering"} <= set(known_environments())
        assert find_environment("lamps").does.startswith("A panel")

    def test_packages_are_read_once_until_one_comes(self, installed: Path) -> None:
        assert "late" not in known_environments()
        assert find_installed(GROUP) is find_installed(GROUP)
        (info := installed / "late_tasks-1.0.dist-info").mkdir()
        (info / "METADATA").write_text("Metadata-Version: 2.1\nName: late-tasks\nVersion: 1.0\n")
        (info / "entry_points.txt").write_text("[reckoner.environments]\nlate = late_tasks:Late\n")
        assert "late" in known_environments()

    def test_an_unknown_name_is_answered_with_those_that_are_known(self) -> None:
        with pytest.raises(UnknownEnvironment, match=r"'lampz'; known: .*equations"):
            find_environment("lampz")

    def test_a_package_that_cannot_be_loaded_says_why(self) -> None:
        with pytest.raises(BadEnvironment, match="'broken' cannot be loaded: ModuleNotFoundError"):
            find_environment("broken")
