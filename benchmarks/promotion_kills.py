"""F8: a process is killed again and again while it promotes a version during an experiment.

    python -m benchmarks.promotion_kills [--times 56] [--quick]

The kills go round the named places of `tools.promotion_kills`, each of which has to be met. After each kill exactly one
version is the champion, the router gives what the registry says, and experiment, phases, aliases and their history
agree with it; then the promotion is repeated by a process that lives. Prints a row per point and one JSON object as the
last line.
"""

from __future__ import annotations

import argparse
import logging
import sys
import time
from collections import Counter

from benchmarks.own_database import own_database
from tools.report import Report

AGREE_SECONDS = 5.0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--times", type=int, default=56, help="how often a process is killed")
    parser.add_argument("--quick", action="store_true", help="once at each place")
    options = parser.parse_args()
    with own_database():
        report = _run(options.times, options.quick)
    return report.finish()


def _run(times: int, quick: bool) -> Report:
    from django.conf import settings

    from models_registry.experiments.plan import ExperimentPlan
    from models_registry.experiments.promotion import promote_version
    from models_registry.experiments.services import start_experiment
    from models_registry.versions.services import get_champion
    from tools.factories import AliasFactory, ModelVersionFactory, RegisteredModelFactory
    from tools.promotion_kills import PLACES, die_while, find_disagreements
    from workspaces.access.actors import system

    logging.getLogger("models_registry.experiments.promotion").setLevel(
        logging.ERROR
    )  # no model server has to load anything here
    settings.MODEL_SERVER_URL = "http://127.0.0.1:9"
    met: Counter[tuple[str, str, str]] = Counter()
    wrong: list[str] = []
    happened, slowest = 0, 0.0
    for number in range(len(PLACES) if quick else times):
        place = PLACES[number % len(PLACES)]
        model = RegisteredModelFactory()
        by = system(model.workspace)
        before = ModelVersionFactory(registered_model=model)
        AliasFactory(version=before)
        tried = ModelVersionFactory(registered_model=model)
        start_experiment(by=by, treatment=tried, plan=ExperimentPlan(), reason="it may be better")

        def promote(by=by, tried=tried) -> None:
            promote_version(by=by, version=tried, reason="it is better")

        met[place] += die_while(promote, place)
        began = time.monotonic()
        wrong += [f"{place}: {line}" for line in find_disagreements(model, before, tried)]
        slowest = max(slowest, time.monotonic() - began)
        if get_champion(model) == tried:
            happened += 1
            continue
        promote()
        wrong += [f"{place}, repeated: {line}" for line in find_disagreements(model, before, tried)]
    report = Report("promotion kills")
    kills = sum(met.values())
    report.add(
        "F8: kills during a promotion, and places met",
        bound=f">= {len(PLACES) if quick else 50}, each place",
        figure=f"{kills}; {sum(count > 0 for count in met.values())} of {len(PLACES)}; {happened} had happened whole",
        passed=kills >= (len(PLACES) if quick else 50) and all(met[place] for place in PLACES),
    )
    report.add(
        "F8: one champion; router, experiment, phases, aliases and history agree, at once and repeated",
        bound="always",
        figure="; ".join(wrong) or "always",
        passed=not wrong,
    )
    report.add(
        "F8: seconds until router and database agree", bound=f"<= {AGREE_SECONDS:g}", figure=f"{slowest:.3f}",
        passed=slowest <= AGREE_SECONDS,
    )  # fmt: skip
    return report


if __name__ == "__main__":
    sys.exit(main())
