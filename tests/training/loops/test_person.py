"""The simulated person: late, silent and wrong as often as asked, and the same at every run."""

from __future__ import annotations

from collections import Counter

import pytest

from training.loops.person import Person, Reaction


def says(person: Person, right: bool = True) -> list[Reaction]:
    return [person.react(f"row-{number}", right=right) for number in range(5000)]


def test_the_person_is_late_silent_and_wrong_as_often_as_asked() -> None:
    person = Person(1, missing=0.3, late=0.2, noise=0.1)
    said = says(person)
    shares = {when: count / 5000 for when, count in Counter(reaction.when for reaction in said).items()}
    assert shares["never"] == pytest.approx(0.3, abs=0.03)
    assert shares["late"] == pytest.approx(0.7 * 0.2, abs=0.03)
    wrong = sum(reaction.verdict == "corrected" for reaction in said)
    assert wrong / 5000 == pytest.approx(0.1, abs=0.02)
    assert sum(reaction.verdict == "confirmed" for reaction in says(person, right=False)) == wrong
    assert person.expected_feedback(1.0) == pytest.approx(0.9)
    assert all(reaction.when == "at_once" for reaction in says(Person(1, missing=0, late=0, noise=0)))


def test_a_reaction_follows_from_seed_and_example() -> None:
    shares = {"missing": 0.3, "late": 0.2, "noise": 0.1}
    assert says(Person(1, **shares)) == says(Person(1, **shares)) != says(Person(2, **shares))
