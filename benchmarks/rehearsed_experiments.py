"""What a rehearsal taught, tried on live traffic: the better version has to be promoted, a spoiled one rolled back.

    python -m benchmarks.rehearsed_experiments [--data DIR] [--seed-share 0.0223] [--decisions 3000] [--quick]

A real instance rehearses CLINC150's ten domains (docs/rehearsal.md). Its trained version is then tried against its base
in an experiment with the default guardrails, on a ramp: each unit is a text that no model saw, asked over
`POST /agents/{slug}/decide`, and the simulated person of rehearsals judges the answer; some verdicts are missing, some
wrong. Then an app's release mixes up its two buttons: for a while each verdict says the opposite of the truth. A run
learns from that. With held-out rows whose labels are known its gate refuses the version; without any it comes into an
experiment against the champion, which has to roll it back.

Prints a row per point and one JSON object as the last line; exits 1 when one fails.
"""

from __future__ import annotations

import argparse
import csv
import json
import math
import random
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.gguf_experiment import HEADLINE, show
from tools.admin import Admin, Refusal
from tools.instance import ROOT, Instance
from tools.report import Report, log
from training.loops.person import Person
from training.loops.rehearsal.plan import Plan, split_rows
from training.loops.rehearsal.source import read_source
from training.rows.labelled_texts import Example

SEED = 0
AGENT = f"seed-{SEED}"
BASE, TRAINED = f"{AGENT}:1", f"{AGENT}@champion"
MISSING, NOISE = 0.15, 0.05
AT_ONCE = 25
HELDOUT = "held-out rows"
"""What a rehearsal calls them (`training.loops.agent_loop`)."""
BLOCK = 250
"""Units between two looks: as many as a phase of the ramp needs."""
UNITS, WORSE_UNITS, SPOILED = 5_000, 2_500, 1_500
PLAN: dict[str, Any] = {
    "treatment_share": 0.05,
    "ramp": [0.25, 0.5],
    "exposure_window_seconds": 1,
    "attribution_window_seconds": 4,
    "min_seconds": 5,
}
"""Of the defaults only the times differ: seconds for days."""
PLAN_SECONDS = PLAN["exposure_window_seconds"] + PLAN["attribution_window_seconds"] + 0.5
RUN_SECONDS = 1_200
MATURE_SECONDS = 60
_RUNNING = "SELECT state = 'running' FROM models_registry_experiment WHERE id = %s"
_ENOUGH = """
SELECT NOT (SELECT state = 'running' FROM models_registry_experiment WHERE id = %s)
    OR %s <= (SELECT count(*) FROM models_registry_observation WHERE experiment_id = %s)
"""
_MET = (
    "SELECT count(*) FILTER (WHERE arm = 'treatment'), count(*) FROM models_registry_exposure WHERE experiment_id = %s"
)
_PHASES = "SELECT count(*) FROM models_registry_phase WHERE experiment_id = %s"
_MATURE = """
from decisions.tasks import MATURE_OUTCOMES
from jobs.services import enqueue_job
enqueue_job(kind=MATURE_OUTCOMES)
"""


@dataclass
class Traffic:
    """Texts in turn, each once: an app's units."""

    admin: Admin
    texts: Sequence[Example]
    person: Person
    used: int = 0

    def ask(self, count: int, *, mixed_up: bool = False) -> None:
        """The next `count` texts are decided and judged. `mixed_up`: the app sends the opposite of each verdict."""
        chunk = self.texts[self.used : self.used + count]
        if len(chunk) < count:
            raise RuntimeError(f"only {len(self.texts)} texts are left over by the rehearsal; more are needed")
        self.used += count
        items = [{"state": {"text": one.text}, "unit": one.id} for one in chunk]
        answers = self.admin.call("POST", f"/agents/{AGENT}/decide", items)["answers"]
        feedback = []
        for example, answer in zip(chunk, answers, strict=True):
            right = (answer["action"] == example.label) != mixed_up
            reaction = self.person.react(example.id, right=right)
            if reaction.when != "never":
                said = {"metric": "verdict", "value": reaction.verdict}
                feedback.append({"decision_id": answer["decision_id"], **said})
        self.admin.call("POST", "/feedback", feedback)


def write_clinc(data: Path, target: Path) -> None:
    """CLINC150's texts with intent and domain, without those out of scope."""
    found = json.loads((data / "clinc150" / "data_full.json").read_text())
    domains = json.loads((data / "clinc150" / "domains.json").read_text())
    domain_of = {intent: domain for domain, intents in domains.items() for intent in intents}
    with target.open("w", newline="", encoding="utf-8") as handle:
        writer = csv.writer(handle)
        writer.writerow(["text", "intent", "domain"])
        for part in ("train", "val", "test"):
            writer.writerows((text, intent, domain_of[intent]) for text, intent in found[part])


def rehearse(instance: Instance, path: Path, plan: Plan) -> dict[str, Any]:
    """The command's report."""
    done = instance.manage(
        "rehearse", str(path), "--text-field", "text", "--label-field", "domain", "--json",
        "--seed-share", str(plan.seed_share), "--decisions", str(plan.decisions),
        "--noise", str(NOISE), "--missing", str(MISSING),
    )  # fmt: skip
    if done.returncode > 1:
        raise RuntimeError(f"rehearse exits {done.returncode}: {done.stderr[-1000:]}")
    return json.loads(done.stdout.splitlines()[-1])


def try_version(instance: Instance, traffic: Traffic, treatment: str, reason: str, units: int) -> dict[str, Any]:
    """An experiment of the champion against this version until it ends or `units` have met it, as the API shows it
    then; `met`: units of the treatment, `asked`: of both."""
    experiment = traffic.admin.call("POST", "/experiments", PLAN | {"treatment": treatment, "reason": reason})
    named = experiment["id"]
    asked = 0
    while asked < units and is_running(instance, named):
        for _ in range(0, BLOCK, AT_ONCE):
            traffic.ask(AT_ONCE)
        asked += BLOCK
        time.sleep(PLAN_SECONDS)
        run(instance, _MATURE)  # beat does so every half minute
        if not instance.wait_for(_ENOUGH, MATURE_SECONDS, named, asked, named):
            raise RuntimeError(f"units of experiment {named} did not mature in {MATURE_SECONDS} s")
    found = traffic.admin.call("GET", f"/experiments/{named}")
    (met, of), (phases,) = instance.query(_MET, named)[0], instance.query(_PHASES, named)[0]
    return found | {"met": met, "asked": of, "phases": phases, "headline": run(instance, HEADLINE.format(id=named))}


def is_running(instance: Instance, experiment: str) -> bool:
    return bool(instance.query(_RUNNING, experiment)[0][0])


def run(instance: Instance, program: str) -> str:
    """What a few lines print within the instance."""
    done = instance.manage("shell", "--no-imports", "-c", program)
    if done.returncode:
        raise RuntimeError(done.stderr[-1000:])
    return done.stdout.strip()


def train_on_mixed_up(admin: Admin, dataset: str, *, heldout: str | None) -> str:
    """A run from the champion on the dataset; the version that it made."""
    asked = {"agent": AGENT, "method": "posterior", "dataset": dataset, "base_version": TRAINED}
    settings = {"optimiser": {"learning_rate": 2e-3, "epochs": 6}}
    run = admin.call("POST", "/runs", asked | {"settings": settings} | ({"heldout": heldout} if heldout else {}))
    done = admin.follow(f"/runs/{run['id']}", until="succeeded", seconds=RUN_SECONDS)
    return str(done["produced_version"])


def freeze(admin: Admin) -> str:
    """A dataset of the decisions that no run has learnt from."""
    job = admin.call("POST", "/datasets", {"agent": AGENT, "name": "mixed up", "only_new": True})
    return str(admin.follow(f"/datasets/freezings/{job['id']}", until="succeeded", seconds=RUN_SECONDS)["dataset"])


def says(told: Mapping[str, Any]) -> str:
    """An experiment's end, in one line."""
    return (
        f"{told['state']} after {told['units_control']} + {told['units_treatment']} units in {told['phases']} phases: "
        f"points {show(told)}, E+ {math.exp(told['log_e_plus']):.3g}, E- {math.exp(told['log_e_minus']):.3g}; "
        f"{told['met']} of {told['asked']} units met the treatment; {told['headline']}"
    )


def measure(report: Report, instance: Instance, options: argparse.Namespace) -> None:
    began = time.monotonic()
    path = instance.var / "clinc150.csv"
    write_clinc(options.data, path)
    plan = Plan(seed_share=options.seed_share, decisions=options.decisions, missing=MISSING, noise=NOISE)
    told = rehearse(instance, path, plan)
    log(f"rehearsed after {time.monotonic() - began:.0f} s")
    report.add(
        f"the rehearsal, {options.decisions} decisions: base, trained, on held-out texts",
        bound="better",
        figure=f"{told['base']['mean']:.3f}, {told['final']['mean']:.3f}",
        passed=told["better"],
    )
    source = read_source(path, text_field="text", label_field="domain")
    split = split_rows(source, plan, SEED)
    seen = {one.id for part in (split.seed_rows, split.stream, split.gate, split.heldout) for one in part}
    admin = Admin(instance, told["workspace"])
    unseen = [one for one in source.examples if one.id not in seen]
    random.Random(SEED).shuffle(unseen)  # the file is sorted by intent
    traffic = Traffic(admin, unseen, Person(SEED, missing=MISSING, late=0.0, noise=NOISE))
    admin.call("POST", f"/agents/{AGENT}/versions/1/use")  # the last one explores, for the rehearsal's log

    trained = admin.call("GET", f"/versions/{TRAINED}")["id"]
    admin.call("POST", f"/versions/{BASE}/promote", {"reason": "what served before"})
    better = try_version(instance, traffic, trained, "the rehearsal's trained version", options.units)
    log(f"tried after {time.monotonic() - began:.0f} s")
    report.add(
        f"trained against base, default guardrails, ramp of 5, 25, 50 %, at most {options.units} units",
        bound="promoted",
        figure=says(better),
        passed=better["state"] == "promoted",
    )
    if better["state"] == "running":
        admin.call("POST", f"/versions/{trained}/promote", {"reason": "to train further from"})

    for _ in range(0, SPOILED, AT_ONCE):
        traffic.ask(AT_ONCE, mixed_up=True)
    instance.manage("calculate_rewards", "--workspace", told["workspace"])
    dataset = freeze(admin)
    heldout = next(one["id"] for one in admin.call("GET", "/datasets")["results"] if one["name"] == HELDOUT)
    judged = train_on_mixed_up(admin, dataset, heldout=heldout)
    spoiled = train_on_mixed_up(admin, dataset, heldout=None)
    log(f"spoiled after {time.monotonic() - began:.0f} s")
    try:
        try_version(instance, traffic, judged, "learnt from mixed-up verdicts", 0)
        refused = "it came into an experiment"
    except Refusal as refusal:
        refused = refusal.code
    report.add(
        "a version that learnt from mixed-up verdicts, judged on labelled texts: its experiment",
        bound="gate_not_passed",
        figure=refused,
        passed=refused == "gate_not_passed",
    )
    worse = try_version(instance, traffic, spoiled, "nobody had labels to judge it by", options.worse_units)
    report.add(
        f"the same without labelled texts, in an experiment of at most {options.worse_units} units",
        bound="rolled back",
        figure=says(worse),
        passed=worse["state"] == "rolled_back",
    )
    log(f"over after {time.monotonic() - began:.0f} s")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=ROOT.parent / "shared" / "data", help="folder with clinc150/")
    parser.add_argument("--seed-share", type=float, default=0.0223, help="of the labels, which teach the base")
    parser.add_argument("--decisions", type=int, default=3_000, help="of the rehearsal")
    parser.add_argument("--units", type=int, default=UNITS, help="of the first experiment, at most")
    parser.add_argument("--worse-units", type=int, default=WORSE_UNITS, help="of the second, at most")
    parser.add_argument("--quick", action="store_true", help="1,000 decisions and 1,000 units: bounds need not hold")
    options = parser.parse_args()
    if options.quick:
        options.decisions, options.units = 1_000, 1_000
    if not (options.data / "clinc150").is_dir():
        parser.error(f"--data: {options.data} has no clinc150/")
    report = Report("rehearsed_experiments")
    with tempfile.TemporaryDirectory(prefix="reckoner-rehearsed-") as folder:
        instance = Instance(Path(folder) / "instance", RECKONER_KEY_REQUESTS_A_MINUTE="0")
        try:
            instance.start("--no-demo")
            measure(report, instance, options)
        finally:
            instance.stop()
    return report.finish()


if __name__ == "__main__":
    sys.exit(main())
