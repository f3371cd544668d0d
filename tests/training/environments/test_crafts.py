"""Code, writing and business: what each step pays, and the named criteria of the work."""

from __future__ import annotations

from typing import Any

import pytest

from sandbox.errors import SandboxError
from training.engine.environments import code
from training.engine.environments.agents import RandomAgent, act_now
from training.engine.environments.business import Business
from training.engine.environments.code import Code
from training.engine.environments.tasks import Task
from training.engine.environments.writing import Writing, find_faults


def earn(world: Any, *actions: str) -> list[float]:
    for action in actions:
        assert action in world.get_valid_actions(), action
    return [world.step(action).reward for action in actions]


def program(*lines: str) -> Code:
    """For the sum of the numbers that 3 divides; 4 is the number that misleads."""
    world = Code()
    world.reset(Task("t", "code", "Return the sum", {"family": "sum", "k": 3, "j": 4}))
    for verb, line in zip(("write", "add", "return"), lines, strict=True):
        world.step(f"{verb} {line}")
    return world


class TestCode:
    def test_the_sandbox_says_which_cases_pass_and_progress_pays_once(self) -> None:
        world = program("found = 1", "if n % 3 == 0: found += n", "found")
        assert earn(world, "test") == [0.0]
        assert "0 of 5 pass, [] gave 1" in world.observe()
        assert earn(world, "debug start: found = 0") == [0.0]
        assert earn(world, "test") == [2.0]
        assert earn(world, "test", "submit") == [0.0, 1.0]
        assert (world.solved, world.components()["tests"]) == (True, 1.0)

    def test_style_and_efficiency_have_their_own_names(self) -> None:
        clumsy = program("found = 0", "if (n % 3 == 0) == True: found += n", "found")
        assert clumsy.components() == {"tests": 1.0, "efficiency": 1.0, "style": 0.0}
        assert program("found = 0", "if n % 3 == 0: found += n", "found").components()["style"] == 1.0

    def test_a_sandbox_that_fails_is_a_fault_of_the_episode_and_no_score(self, monkeypatch: pytest.MonkeyPatch) -> None:
        def broken(*_: Any, **__: Any) -> None:
            raise SandboxError("bubblewrap broke off")

        monkeypatch.setattr(code, "run_code", broken)
        code.run_program.cache_clear()
        task = Task("t", "code", "Return the sum", {"family": "sum", "k": 7, "j": 6})
        episodes = [act_now(RandomAgent(seed), Code(), task, seed) for seed in range(12)]
        failed = [one for one in episodes if one.fault]
        assert failed and {one.fault for one in failed} == {"the sandbox failed: bubblewrap broke off"}
        assert not any(one.success for one in failed)


class TestBusiness:
    @pytest.fixture
    def world(self) -> Business:
        """A returns most and costs too much; B returns 0.8, C 0.2."""
        world = Business()
        offers = [[50, 50, 0], [20, 10, 1], [20, 6, 0]]
        world.reset(Task("t", "business", "Choose an offer", {"budget": 40, "offers": offers}))
        return world

    def test_each_step_pays_once_and_the_affordable_best_is_right(self, world: Business) -> None:
        assert earn(world, "analyse budget", "calculate B", "calculate B", "risk C", "risk B") == [0.5, 0.5, 0, 0, 0.5]
        assert "B returns 80%" in world.observe() and "Affordable: B C" in world.observe()
        assert world.components() == {"feasibility": None, "roi": None, "risk": None, "judgement": None}
        assert earn(world, "decide B") == [3.0]
        told = world.components()
        assert world.solved and told["feasibility"] == 1.0 and told["risk"] == 0.9
        assert told["roi"] == pytest.approx((0.8 - 0.2) / (3.0 - 0.2))

    def test_what_cannot_be_afforded_is_wrong_whatever_it_returns(self, world: Business) -> None:
        assert earn(world, "decide A") == [0.0]
        assert not world.solved and world.components()["feasibility"] == 0.0


class TestWriting:
    def test_rules_of_grammar_find_what_they_name(self) -> None:
        assert find_faults("There was an owl by the sea.") == []
        assert find_faults("there was a owl owl by the sea") == [
            "no capital at the start",
            "no full stop at the end",
            "owl twice",
            "a owl",
        ]

    def test_a_flawed_sentence_earns_nothing_until_it_is_edited(self) -> None:
        world = Writing()
        facts = {"topic": "owl", "other": "fox", "forms": [0, 0, 0], "flaws": 2}
        world.reset(Task("t", "writing", "Write three sentences about an owl", facts))
        assert earn(world, "brainstorm owl", "outline opening middle ending") == [0.5, 0.5]
        assert earn(world, "write There was a fox by the sea.") == [0.0]
        assert world.components() == {"coherence": 0.0, "grammar": 1 / 3, "creativity": None}
        assert earn(world, "edit opening") == [0.0]
        for sentence in ("There was an owl by the sea.", "One night the owl was gone.", "At last the owl was safe."):
            assert earn(world, f"write {sentence}") == [1.0]
        assert earn(world, "finish") == [1.0]
        assert world.solved and world.components() == {"coherence": 1.0, "grammar": 1.0, "creativity": None}
