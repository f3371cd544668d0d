"""The demo world's text: what is taken, what is taken out, and that nothing crosses the split."""

import importlib.metadata
import json
import pickle
import random
import re
import subprocess
import sys
import types
from collections import Counter
from pathlib import Path

import pytest

from project.demo import passages
from project.demo.passages import Passage, Topic, TopicTooSmallError, World, build_world
from tests.once import made_once

pytestmark = pytest.mark.slow

# Smaller than the demo's (the cap is lower, so fewer files are read), made by the same path.
BUILD = """
import pickle, sys
from pathlib import Path
from project.demo.passages import build_world
folder = Path(sys.argv[1])
(folder / "world").write_bytes(pickle.dumps(build_world(seed=3, cap=250)))
(folder / "imported").write_text(" ".join(sorted({name.partition(".")[0] for name in sys.modules})))
"""


@pytest.fixture(scope="module")
def built() -> Path:
    """`world`, a pickled World, and `imported`: what building it had imported."""

    def make(folder: Path) -> None:
        # -S keeps `.pth` files from importing anything by themselves; the path is then given by hand.
        script = f"import sys; sys.path[:0] = {sys.path!r}\n{BUILD}"
        subprocess.run([sys.executable, "-S", "-c", script, str(folder)], check=True)

    return made_once("passages", make, sources=(Path(passages.__file__), Path(__file__)))


@pytest.fixture(scope="module")
def world(built: Path) -> World:
    return pickle.loads((built / "world").read_bytes())


def test_every_topic_is_a_folder_of_bounded_size_in_both_parts(world):
    train, heldout = (Counter(row.topic for row in part) for part in (world.train, world.heldout))
    assert set(world.topics) == set(train) == set(heldout) and len(world.topics) == 8
    assert len(world.train) + len(world.heldout) >= 1500
    for topic in world.topics:
        total = train[topic] + heldout[topic]
        assert 200 <= total <= 250
        assert 0.1 <= heldout[topic] / total <= 0.2 + 1 / total


def test_parts_share_no_module_and_no_near_duplicate(world):
    assert not {row.module for row in world.train} & {row.module for row in world.heldout}
    ids = [row.id for row in world.train + world.heldout]
    assert len(set(ids)) == len(ids)
    seen = [passages.word_set(row.text) for row in world.train]
    for row in random.Random(0).sample(world.heldout, 200):
        words = passages.word_set(row.text)
        closest = max(len(words & other) / len(words | other) for other in seen)
        assert closest < passages.NEAR_DUPLICATE, row.text


def test_no_passage_names_its_package(world):
    packages = (
        "torch|pytorch|sympy|mpmath|pandas|numpy|networkx|django|celery|kombu|redis|transformers|peft|rich|click|"
        "tkinter|argparse|setuptools|pip|packaging|importlib|urllib|asyncio|starlette|rest_framework|prompt_toolkit"
    )
    named = re.compile(rf"(?<![a-z])(?:{packages})(?![a-z])")
    for row in world.train + world.heldout:
        text = row.text.lower()
        assert not named.search(text), row
        assert not re.search(rf"(?<![a-z]){row.module.partition('.')[0].lower()}(?![a-z])", text), row


def test_passages_are_prose_with_the_objects_name_before_it(world):
    titled = 0
    for row in world.train + world.heldout:
        body = row.text.removeprefix(f"{row.title}: ") if row.title else row.text
        assert row.title == "" or row.text.startswith(f"{row.title}: ")
        assert 20 <= len(body.split()) <= 60 and ">>>" not in body
        assert re.fullmatch(r"[0-9a-f]{16}", row.id)
        titled += bool(row.title)
    assert titled > 0.8 * len(world.train + world.heldout)


@pytest.mark.slow
def test_same_seed_same_world_and_another_seed_another_split(monkeypatch):
    monkeypatch.setattr(passages, "TOPICS", passages.TOPICS[:1])  # the topics do not know of each other's seed
    world, again, other = (build_world(seed=seed, cap=120, floor=50) for seed in (3, 3, 4))
    assert again == world
    assert {row.module for row in other.heldout} != {row.module for row in world.heldout}
    assert not {row.module for row in other.train} & {row.module for row in other.heldout}


def test_the_packages_that_fill_the_topics_are_real_distributions():
    for topic in passages.TOPICS:
        for requirement in topic.install:
            assert importlib.metadata.version(requirement.partition("[")[0])


def test_reading_imports_none_of_the_packages(built):
    imported = set((built / "imported").read_text().split())
    assert {"project", "ast"} <= imported
    packages = "torch django pandas sympy networkx celery transformers rich numpy pip setuptools"
    assert imported.isdisjoint(packages.split())


@pytest.fixture
def strange_package(tmp_path, monkeypatch):
    """An installed package that must never be imported, with a file that no parser takes."""
    root = tmp_path / "strangeling"
    (root / "tests").mkdir(parents=True)
    words = "takes the oldest parcel from the shelf, writes its number in the ledger and hands it over the counter "
    body = words + "to whoever asked for it first"
    (root / "__init__.py").write_text("raise RuntimeError('imported')\n")
    (root / "broken.py").write_text("def f(:\n    '''" + body + "'''\n")
    (root / "tests" / "helpers.py").write_text(f"def helper():\n    '''Helper {body}.'''\n")
    (root / "parcels.py").write_text(
        f'''"""Copyright of somebody: {body}."""
class StrangelingCounter:
    """Strangeling counter ``shelf`` {body}.

    Parameters
    ----------
    parcel : str
        never part of the passage
    """
    def hand_over(self):
        """Too short to say anything."""
    try:
        def strangelingReturn(self): r"""The :class:`~strangeling.Clerk` {body}. See https://example.org/x for more.

            >>> forbidden()
            """
    except OSError: ...
'''
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    return Topic("parcels", ("strangeling",), ("strangeling",))


def test_what_is_read_from_a_package_and_what_is_left(strange_package):
    found = {row.title: row for row in passages.read_topic(strange_package)}
    assert set(found) == {"counter", "return"}
    assert found["counter"].module == "strangeling.parcels"
    assert found["counter"].text.startswith("counter: counter shelf takes the oldest parcel")
    assert found["counter"].text.endswith("asked for it first.")
    assert found["return"].text.startswith("return: The takes the oldest") and "example.org" not in found["return"].text


def test_a_topic_that_is_too_small_says_what_to_install(strange_package, monkeypatch):
    monkeypatch.setattr(passages, "TOPICS", (strange_package,))
    with pytest.raises(TopicTooSmallError, match=r"parcels' has 1 passages .*pip install strangeling"):
        build_world(floor=3)


def test_a_package_that_is_not_installed_gives_nothing():
    assert passages.modules_below("no_such_package_anywhere") == []
    assert passages.modules_below("no_such_package_anywhere.part") == []
    assert list(passages.read_topic(Topic("nothing", ("no_such_package_anywhere",)))) == []


def test_a_package_that_is_imported_and_hides_its_spec_is_read_all_the_same(strange_package, monkeypatch):
    monkeypatch.setitem(sys.modules, "strangeling", types.ModuleType("strangeling"))
    assert len(list(passages.read_topic(strange_package))) == 2


def test_near_duplicates_are_found_exactly_as_by_comparing_all_pairs():
    rng = random.Random(5)
    vocabulary = ["".join(rng.choices("abcdefghij", k=5)) for _ in range(60)]
    rows: list[Passage] = []
    for number in range(300):
        words = rng.sample(vocabulary, rng.randint(4, 14))
        if rows and rng.random() < 0.5:
            words = rng.choice(rows).text.split()
            words[rng.randrange(len(words))] = rng.choice(vocabulary)
        rows.append(Passage(f"{number:016x}", "t", "m", "", " ".join(words)))
    naive: list[Passage] = []
    for row in rows:
        mine = set(row.text.split())
        if all(len(mine & set(k.text.split())) / len(mine | set(k.text.split())) < 0.6 for k in naive):
            naive.append(row)
    assert passages.without_near_duplicates(rows, threshold=0.6) == naive
    assert len(naive) < len(rows)


def test_command_line_writes_every_passage(tmp_path, monkeypatch, capsys, world):
    monkeypatch.setattr(passages, "build_world", lambda seed: world)
    target = tmp_path / "world.jsonl"
    assert passages.main(["--seed", "3", "--json", "--out", str(target)]) == 0
    rows = [json.loads(line) for line in target.read_text().splitlines()]
    assert Counter(row["part"] for row in rows) == {"train": len(world.train), "heldout": len(world.heldout)}
    assert passages.main([]) == 0
    assert f"{len(world.train)}" in capsys.readouterr().out
