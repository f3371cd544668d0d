"""The reader: mostly prompt, sometimes late or silent, now and then wrong, and the same at every run."""

from collections import Counter

from project.demo.reader import LATE, NEVER, WRONG, react

IDS = [f"passage-{number}" for number in range(4000)]


def test_shares_are_those_that_are_told():
    when = Counter(react(1, one, "web", "web").when for one in IDS)
    assert abs(when["never"] / len(IDS) - NEVER) < 0.02
    assert abs(when["late"] / len(IDS) - LATE) < 0.02
    wrong = sum(react(1, one, "web", "web").verdict == "corrected" for one in IDS) / len(IDS)
    assert abs(wrong - WRONG) < 0.015
    assert sum(react(1, one, "web", "tables").verdict == "confirmed" for one in IDS) / len(IDS) == wrong


def test_a_reaction_follows_from_seed_and_passage():
    assert [react(1, one, "web", "web") for one in IDS] == [react(1, one, "web", "web") for one in IDS]
    assert [react(1, one, "web", "web") for one in IDS] != [react(2, one, "web", "web") for one in IDS]
