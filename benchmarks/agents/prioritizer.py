"""PRIORITIZER ranks vulnerabilities that are known to be exploited (CISA KEV); a ransomware campaign is the outcome.

An outside policy ranks lists of ten by how many alarming words a description has, and chance. Of each list it is seen
whether ransomware used the entry that it put first, and nothing of the others. Vendors are held out: each of their
entries that ransomware used stands once in a list with nine that none is known to have used.
"""

from __future__ import annotations

import csv
import random
import uuid
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from benchmarks.agents.asking import learn_to_answer, show
from benchmarks.engine_runs import Rows, each_seed
from tools.report import Report
from training.evaluation.rankings import Scored, compare_rankings, measure_rankings

LONG = 10
TRAINED, POLICY, WORDS = "trained", "outside policy", "tf-idf and logistic regression"
HELD_OUT = 0.3
OPTIONS = ["yes", "no"]
ALARMING = frozenset("remote unauthenticated arbitrary execution execute code privileges bypass upload server".split())  # noqa: SIM905
CHANCE = 1.0
"""Standard deviation of the policy's noise, in words."""


class Entry(NamedTuple):
    text: str
    vendor: str
    ransomware: bool


def read_entries(data: Path) -> list[Entry]:
    with (data / "cisa_kev" / "known_exploited_vulnerabilities.csv").open(encoding="utf-8") as file:
        return [
            Entry(
                f"{row['product']}: {row['shortDescription']}",
                row["vendorProject"],
                row["knownRansomwareCampaignUse"] == "Known",
            )
            for row in csv.DictReader(file)
        ]


def alarm(entry: Entry, rng: random.Random) -> float:
    """What the outside policy ranks by."""
    return len(ALARMING & set(entry.text.lower().replace(",", " ").split())) + rng.gauss(0.0, CHANCE)


def log_of(entries: Sequence[Entry], lists: int, rng: random.Random) -> Rows:
    """The ledger's rankings as datasets have them (training.rows.shapes_of.ranking): the first item has the outcome."""
    # These need Django, which the program has set up by now.
    from decisions.models import AgentVersion
    from training.rows.selection import Rewarded
    from training.rows.shapes_of.ranking import write_rows

    setup = AgentVersion(action_space="ranking", prompt_template="{{ options }}")
    rows: Rows = []
    for number in range(lists):
        shown = rng.sample(entries, LONG)
        ranked = sorted(shown, key=lambda entry: -alarm(entry, rng))
        earned = float(ranked[0].ransomware)
        decision = Rewarded(
            id=uuid.UUID(int=number), version=setup, state={}, options=[entry.text for entry in shown],
            action=[entry.text for entry in ranked], propensity=None, unit=None, episode=None, alternatives=None,
            temperature=None, epsilon=None, completion=None, logprobs=None, reward=earned, raw=earned, right=None,
            reward_version=1,
        )  # fmt: skip
        written = write_rows(decision)
        assert not isinstance(written, str), written
        rows += written
    return rows


def measure(data: Path, report: Report, *, quick: bool) -> None:
    entries = read_entries(data)
    figures: dict[str, list[str]] = {}
    cpu = 0.0
    for seed, runs in each_seed(1 if quick else 3, max_prompt_tokens=72):
        rng = random.Random(f"kev/{seed}")
        vendors = sorted({entry.vendor for entry in entries})
        apart = set(rng.sample(vendors, round(HELD_OUT * len(vendors))))
        taught = [entry for entry in entries if entry.vendor not in apart]
        known = [entry for entry in entries if entry.vendor in apart and entry.ransomware]
        others = [entry for entry in entries if entry.vendor in apart and not entry.ransomware]
        slates = [[entry, *rng.sample(others, LONG - 1)] for entry in known]
        flat = [entry for slate in slates for entry in slate]
        held_out: Rows = [
            {"id": str(n), "prompt": one.text, "options": OPTIONS, "answer": OPTIONS[not one.ransomware]}
            for n, one in enumerate(flat)
        ]
        log = log_of(taught, 300 if quick else 1_200, rng)
        found = learn_to_answer(runs, log, held_out, asked="yes", hidden=64, steps=4)
        cpu += found.cpu
        scores: Mapping[str, Sequence[float]] = {
            TRAINED: found.trained,
            "first model": found.first,
            POLICY: [alarm(entry, rng) for entry in flat],
            WORDS: found.words,
        }
        relevant = [True, *[False] * (LONG - 1)]
        ranked = {
            name: [
                Scored(str(at), slate[0].vendor, of[at * LONG : (at + 1) * LONG], relevant)
                for at, slate in enumerate(slates)
            ]
            for name, of in scores.items()
        }
        for name, some in ranked.items():
            found_of = measure_rankings(some)
            figures.setdefault(name, []).append(f"{show(found_of['hit_3'])}, {found_of['ndcg_10'].mean:.2f}")
        for other in (POLICY, WORDS):
            difference = compare_rankings(ranked[TRAINED], ranked[other])["hit_3"]
            figures.setdefault(f"{TRAINED} less {other}", []).append(show(difference, "+"))
    for name, figure in figures.items():
        report.add(
            f"PRIORITIZER, {name}: " + ("top 3" if " less " in name else "top 3 (random 0.30), NDCG@10 (random 0.45)"),
            bound="as measured",
            figure="; ".join(figure),
            passed=True,
        )
    report.add("PRIORITIZER, all runs", bound="as measured", figure=f"{cpu:.0f} CPU s", passed=True)
