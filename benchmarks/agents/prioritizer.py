"""PRIORITIZER ranks vulnerabilities that are known to be exploited (CISA KEV); a ransomware campaign is the outcome.

An outside policy ranks lists of ten by how many alarming words a description has, and chance. Of each list it is seen
whether ransomware used the entry that it put first, and nothing of the others. Vendors are held out: each of their
entries that ransomware used stands once in a list with nine that none is known to have used.
"""

from __future__ import annotations

import csv
import math
import random
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from benchmarks.agents.asking import learn_to_answer, positions, show
from benchmarks.engine_runs import Rows, each_seed
from models_registry.statistics.intervals import clustered_mean, paired_difference
from tools.report import Report

LONG, TOP = 10, 3
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
    """As the ledger's rankings become rows: the first item has the outcome, the others nothing."""
    rows: Rows = []
    for number in range(lists):
        shown = rng.sample(entries, LONG)
        ranked = sorted(shown, key=lambda entry: -alarm(entry, rng))
        for place, entry in enumerate(ranked, start=1):
            rows.append(
                {
                    "id": f"{number}/{place}",
                    "prompt": entry.text,
                    "options": OPTIONS,
                    "action": "yes" if place == 1 else "no",
                    "reward": float(entry.ransomware) if place == 1 else None,
                    "slate": {"id": str(number), "item": str(place), "place": place},
                }
            )
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
        places = {
            name: [positions(of[at : at + LONG])[0] for at in range(0, len(of), LONG)] for name, of in scores.items()
        }
        clusters = [slate[0].vendor for slate in slates]
        top = {name: [float(place < TOP) for place in of] for name, of in places.items()}
        for name, of in places.items():
            gain = sum(1 / math.log2(2 + place) for place in of) / len(of)
            figures.setdefault(name, []).append(f"{show(clustered_mean(top[name], clusters))}, {gain:.2f}")
        for other in (POLICY, WORDS):
            difference = paired_difference(top[TRAINED], top[other], clusters)
            figures.setdefault(f"{TRAINED} less {other}", []).append(show(difference, "+"))
    for name, figure in figures.items():
        report.add(
            f"PRIORITIZER, {name}: " + ("top 3" if " less " in name else "top 3 (random 0.30), NDCG@10 (random 0.45)"),
            bound="as measured",
            figure="; ".join(figure),
            passed=True,
        )
    report.add("PRIORITIZER, all runs", bound="as measured", figure=f"{cpu:.0f} CPU s", passed=True)
