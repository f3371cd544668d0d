"""The office as an environment: an expert solves every task, a random agent hardly any, and solving is what pays."""

from __future__ import annotations

import re
from collections import Counter

import pytest

from training.engine.environments.agents import ExpertAgent, RandomAgent, act_now
from training.engine.environments.office.environment import Office, OfficeUnseen
from training.engine.environments.office.templates.catalogue import TRAINED, UNSEEN, split_of
from training.engine.environments.protocol import EnvironmentFault, draw_tasks
from training.engine.environments.registry import find_environment
from training.engine.environments.tasks import Task

TRAIN = list(draw_tasks(Office, len(TRAINED), "train"))
HELD_OUT = list(draw_tasks(Office, len(TRAINED), "heldout"))
NOT_SEEN = list(draw_tasks(OfficeUnseen, len(UNSEEN), "heldout"))


def begun(template: str) -> Office:
    """An office at the beginning of a task of this template."""
    office = Office()
    office.reset(next(task for task in TRAIN if task.template == template))
    return office


def follow(office: Office, steps: int) -> float:
    """What so many steps of the expert earn."""
    return sum(office.step(office.find_expert_action()).reward for _ in range(steps))


def test_there_are_24_templates_of_eight_domains_and_three_levels_and_others_to_measure_on() -> None:
    assert find_environment("office") is Office
    assert find_environment("office-unseen") is OfficeUnseen
    assert len(TRAINED) >= 24
    assert len({template.domain for template in TRAINED}) == 8
    assert {(template.domain, template.level) for template in TRAINED} >= {
        (template.domain, level) for template in TRAINED for level in (1, 2, 3)
    }
    names = [template.name for template in (*TRAINED, *UNSEEN)]
    assert len(names) == len(set(names))
    assert len(UNSEEN) >= 4
    with pytest.raises(ValueError, match="is for measuring"):
        OfficeUnseen.draw_task(0, "train")


def test_no_task_is_drawn_for_both_splits() -> None:
    assert Office.draw_task(7, "train") == Office.draw_task(7, "train") == TRAIN[7]
    for task in (*TRAIN, *HELD_OUT):
        facts = {name: value for name, value in task.facts.items() if name != "request"}
        assert split_of(task.facts["request"], facts) == task.id.split("/")[1]
    assert not {task.text for task in TRAIN} & {task.text for task in HELD_OUT}


@pytest.mark.parametrize("tasks", [TRAIN, HELD_OUT, NOT_SEEN], ids=["train", "heldout", "unseen"])
@pytest.mark.quick_cases(1)
def test_the_expert_solves_every_task_and_earns_all(tasks: list[Task]) -> None:
    for task in tasks:
        office = find_environment(task.environment)()
        seen = office.reset(task, seed=3)
        points = office.checkpoints()
        assert not any(point.reached for point in points), task.id
        assert 3 <= len(points) <= 8
        assert all(point.points >= 1 for point in points)
        assert 8 <= len(office.get_valid_actions()) <= 16
        assert len(seen) < 600
        episode = act_now(ExpertAgent(), office, task, seed=3)
        assert (episode.success, episode.fault) == (True, None), task.id
        assert episode.total_reward == pytest.approx(office.most_reward)
        # No step of the plan can be left out: each is there for a reason.
        assert episode.steps == len(task.facts["plan"]) + 1 <= office.max_steps, task.id
        assert max(len(step.next_state) for step in episode.trajectory) < 900
        assert max(len(option) for step in episode.trajectory for option in step.options) <= 40


def test_a_random_agent_solves_hardly_anything() -> None:
    office, solved = Office(), 0
    for seed in range(13):
        for task in TRAIN:
            solved += act_now(RandomAgent(seed), office, task, seed).success
    assert solved / (13 * len(TRAIN)) <= 0.05


def test_a_checkpoint_pays_once_and_the_rest_is_for_ending_with_all_of_them() -> None:
    office = begun("late")
    assert office.step("done").reward == 0.0
    assert office.done
    office = begun("late")
    first = office.find_expert_action()
    assert office.step(first).reward > 0
    assert office.step(first).reward == 0.0  # again
    assert follow(office, 2) > 0
    assert office.step("done").reward == 0.0  # too early
    assert not office.solved
    office = begun("late")
    on_the_way = follow(office, 5)
    assert on_the_way == pytest.approx(0.5)
    assert (office.solved, office.done) == (True, False)
    assert office.step("done").reward == pytest.approx(0.5)
    assert office.most_reward == 1.0


def test_the_whole_table_is_no_answer() -> None:
    office = begun("quote")
    opened, least, told = office.find_expert_action(), "min price", None
    office.step(opened)
    told = next(action for action in office.plan if action.startswith("tell"))
    office.step(office.deal.shorten(told))
    assert [point.reached for point in office.checkpoints()] == [True, False, False]
    office.step(least)
    office.step(office.deal.shorten(told))  # the last word counts
    assert office.solved


def test_what_was_undone_is_not_solved() -> None:
    office = begun("reopen")
    follow(office, 3)
    assert office.solved
    undone = office.read_call("set_issue_state", {"issue": office.world.issue, "state": "closed"})
    assert office.step(undone).reward == 0.0
    assert not office.solved
    assert office.step("done").reward == 0.0


def test_the_expert_finds_the_way_back_after_wrong_steps() -> None:
    solved = 0
    for task in TRAIN:
        agent = ExpertAgent(wrong=0.15, seed=task.id)  # type: ignore[arg-type]
        solved += act_now(agent, Office(), task).success
    assert 0.75 <= solved / len(TRAIN) < 1.0


def test_letters_are_dealt_anew_for_each_task_and_seed_of_a_task_but_not_within_a_group() -> None:
    office, task = Office(), TRAIN[1]
    first = office.reset(task, seed=1)
    assert office.reset(task, seed=2) == first  # episodes that are compared with each other
    dealt = set()
    for seed in range(20):
        again = Task(**{name: getattr(task, name) for name in Task.__struct_fields__} | {"seed": seed})
        office.reset(again)
        dealt.add(office.find_expert_action())
    assert len(dealt) > 5
    letters = Counter(office.deal.letters.values())
    assert max(letters.values()) == 1


def test_what_is_locked_fails_and_changes_nothing() -> None:
    tried = set()
    for task in TRAIN:
        office = Office()
        office.reset(task)
        names = {letter: name for name, letter in office.deal.letters.items()}
        for action in office.get_valid_actions():
            if any(names.get(word) in office.world.locked for word in action.split()):
                before = office.snapshot()
                seen = office.step(action).observation
                assert f"Failed: {action}." in seen
                assert re.search(r"^No: .*(away|no access|no issue at hand|no file at hand)", seen, re.MULTILINE), seen
                office.restore(before)
                tried.add(action.split()[0])
    assert tried >= {"open", "query", "tell", "save", "post", "find"}


def test_a_snapshot_holds_sheets_and_database_and_can_be_restored_twice() -> None:
    for template in ("room", "drinks", "handover"):
        office = begun(template)
        follow(office, 2)
        kept, before = office.snapshot(), office.get_state()
        rewards = []
        for _ in range(2):
            rewards.append(follow(office, len(office.plan) - 1))
            assert office.done
            assert office.get_state() != before
            office.restore(kept)
            assert office.get_state() == before
        assert rewards[0] == rewards[1]
        assert follow(office, len(office.plan) - 1) == rewards[0]


def test_a_grader_that_fails_is_a_fault_and_no_score() -> None:
    task = next(task for task in TRAIN if task.template == "newcomer")
    for broken in ({"kind": "member", "channel": "nowhere", "person": "Ann"}, {"kind": "no such grader"}):
        goals = [*task.facts["goals"], {"name": "broken", "points": 1, **broken}]
        bad = Task(
            **{name: getattr(task, name) for name in Task.__struct_fields__} | {"facts": {**task.facts, "goals": goals}}
        )
        office = Office()
        office.reset(bad)
        with pytest.raises(EnvironmentFault, match="grader of 'broken'"):
            office.step(office.get_valid_actions()[0])
        episode = act_now(RandomAgent(), Office(), bad)
        assert episode.fault is not None
        assert not episode.success
    with pytest.raises(ValueError, match="facts: KeyError"):
        Office().reset(Task(**{name: getattr(task, name) for name in Task.__struct_fields__} | {"facts": {}}))
