"""`manage.py train` on the notes app's decisions, whose propensities nobody knows: PPO is the default, acts afresh, and
says what pays; it is refused where nothing can."""

from __future__ import annotations

import io
import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from django.core.management import call_command

from decisions.agents.prompts import make_prompt
from decisions.agents.services import create_notes_agents
from decisions.labelling.labels import record_verdict
from decisions.models import Agent
from tests.once import made_once
from tools.factories import DecisionFactory

pytestmark = [
    pytest.mark.slow,
    pytest.mark.django_db,
    pytest.mark.filterwarnings("ignore::FutureWarning", "ignore::DeprecationWarning"),  # of transformers' own names
]
FILED = {
    "pay": {"status": "TODO", "swimlane": "EXPEDITE", "priority": "HIGH"},
    "read": {"status": "COMPENDIUM", "swimlane": "HABIT", "priority": "LOW"},
    "forget": {"status": "TRASH", "swimlane": "HOME", "priority": "LOW"},
}
THINGS = "rent flights dentist invoice garden bicycle passport piano taxes kitchen letter meeting".split()  # noqa: SIM905
OPTIONS = [json.dumps(one, sort_keys=True, separators=(",", ":")) for one in FILED.values()]
QUICK = ("--batch-size", 32, "--learning-rate", 3e-3, "--no-quantization", "--json", "--set")


def draw(rng: random.Random) -> tuple[str, str]:
    word = rng.choice(list(FILED))
    return word, f"{word} the {rng.choice(THINGS)} and the {rng.choice(THINGS)}"


def run(*arguments: object) -> tuple[int, str, str]:
    out, errors = io.StringIO(), io.StringIO()
    try:
        call_command("train", *map(str, arguments), stdout=out, stderr=errors)
    except SystemExit as ended:
        return int(str(ended.code)), out.getvalue(), errors.getvalue()
    return 0, out.getvalue(), errors.getvalue()


@pytest.fixture
def filer(by: Any) -> Agent:
    create_notes_agents(by=by)
    return Agent.objects.get(kind="FILER")


@pytest.fixture
def base(filer: Agent) -> Path:
    """A tiny model that has read prompts of FILER and knows little of them."""
    rng, version = random.Random(0), filer.versions.get()
    rows = []
    for number in range(60):
        word, title = draw(rng)
        answer = json.dumps(FILED[word], sort_keys=True, separators=(",", ":"))
        prompt = make_prompt(version, {"item": {"title": title}}, OPTIONS).text
        rows.append({"id": str(number), "prompt": prompt, "options": OPTIONS, "answer": answer})

    def make(folder: Path) -> None:
        file = folder / "rows.jsonl"
        file.write_text("".join(json.dumps(row) + "\n" for row in rows))
        asked = ("--data", file, "--output", folder / "base", "--model", "tiny", "--epochs", 2)
        assert run(*asked, *QUICK, '{"samples": 0}')[0] == 0

    return made_once("ppo-base", make) / "base/model"


@pytest.fixture
def decided(by: Any, filer: Agent) -> Callable[..., None]:
    """`decided(count, coin)`: decisions of an outside policy, half of them right, with verdicts, or with a coin's."""

    def make(count: int, *, coin: bool = False) -> None:
        rng = random.Random(count)
        for _ in range(count):
            word, title = draw(rng)
            done = word if rng.random() < 0.5 else rng.choice(list(FILED))
            state = {"item": {"title": title}}
            decision = DecisionFactory(agent=filer, state=state, options=None, action=FILED[done], propensity=None)
            right = rng.random() < 0.5 if coin else done == word
            record_verdict(
                by=by,
                decision=decision,
                verdict="confirmed" if right else "corrected",
                correction=None if right else "no",
            )
        call_command("calculate_rewards", "--agent-type", "FILER", stdout=io.StringIO())

    return make


def test_ppo_is_the_default_and_says_who_pays(decided: Any, base: Path, tmp_path: Path) -> None:
    decided(120)
    code, out, said = run(
        "--agent-type", "FILER", "--output", tmp_path / "out", "--model", base, *QUICK, '{"lora": null}'
    )
    assert code == 0, said
    told = json.loads(out)
    assert (told["method"], told["rows"]) == ("ppo", 120)
    assert told["chosen"][0] == (
        "method ppo: 120 of 120 decisions have no propensity, so the model acts afresh on all prompts, paid by a "
        "cross-fitted reward model of the same decisions"
    )
    assert told["chosen"][0] in said.splitlines()
    [who] = [line for line in told["warnings"] if "no propensity" in line]
    assert who.startswith("120 of 120 decisions have no propensity") and f"warning: {who}" in said.splitlines()
    assert told["metrics"]["without_propensity"] == 120 and told["metrics"]["reward_model_auc_low"] > 0.5
    epochs = {path.name for path in (tmp_path / "out").glob("checkpoint-epoch-*")}
    assert epochs == {f"checkpoint-epoch-{number}" for number in (1, 2, 3)}


def test_a_coins_verdicts_and_too_few_are_refused(decided: Any, base: Path, tmp_path: Path) -> None:
    decided(40, coin=True)
    asked = ("--agent-type", "FILER", "--output", tmp_path / "out", "--model", base, *QUICK, '{"lora": null}')
    code, _, said = run(*asked, "--method", "ppo")
    assert code == 2 and "at least 50 choices with rewards" in said.strip().splitlines()[-1]
    decided(80, coin=True)
    code, _, said = run(*asked)
    assert code == 2 and "is not shown to be better than a constant" in said.strip().splitlines()[-1]
    assert not (tmp_path / "out").exists()
