"""A trained version against its own GGUF, by an experiment on live decisions.

    python -m benchmarks.gguf_experiment [--units 1900] [--quick]

In a real instance the demo trains a FILER. Its champion is exported as GGUF Q8_0, llama.cpp's own server serves the
file, and a remote version stands for it (docs/export.md, "Compare an export with its version"). An experiment gives
half of the units to each. Units ask `POST /agents/filer/decide` about passages that the champion never saw, and
feedback says by the known topic whether the answer was right. Both act by their likeliest option and ε 0.05.
The same is then done with the GGUF of the untrained base in the file's place, which the experiment has to find worse.

Prints a row per point and one JSON object as the last line; exits 1 when one fails. Needs the extra `export`.
"""

from __future__ import annotations

import argparse
import io
import json
import sys
import tarfile
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from project.demo.passages import Passage, build_world
from tools.admin import Admin
from tools.instance import Instance
from tools.llama_server import LlamaServer
from tools.ports import free_port
from tools.report import Report, log

AGENT, QUANTISATION, SEED = "filer", "Q8_0", 0
UNITS, QUICK_UNITS = 1_900, 400
AT_ONCE = 25
MARGIN = 0.01
"""Points of reward that the file may lose: the experiment's interval has to lie above −MARGIN."""
ALIKE = 0.99
"""The least share of equal picks, as of a Q8_0 export's parity."""
GREEDY = {"temperature": 0.001, "epsilon": 0.05}
"""A server without probabilities names its likeliest option: so does the version then, and only the files differ."""
PLAN = {
    "treatment_share": 0.5,
    "exposure_window_seconds": 1,
    "attribution_window_seconds": 20,
    "min_units_per_arm": 150,
    "min_seconds": 5,
    "guardrails": [{"measure": "error_rate", "margin": 0.05}],
}
_PICKS = """
SELECT count(*), count(*) FILTER (WHERE d.other_arm_propensity > 0.5),
       count(*) FILTER (WHERE d.other_arm_propensity IS NULL)
  FROM decisions_decision d JOIN models_registry_exposure e ON e.id = d.exposure_id
 WHERE e.experiment_id = %s AND d.propensity > 0.5
"""
HEADLINE = """
from models_registry.models import Experiment
from project.pages.registry.experiment_lines import find_headline
found = find_headline(Experiment.objects.get(id="{id}"))
print(found.says)
"""


def export_gguf(admin: Admin, version: str, target: Path) -> tuple[Path, dict[str, Any]]:
    """The version's GGUF, downloaded, and what the comparison found."""
    asked = admin.call("POST", f"/versions/{version}/export", {"format": "gguf", "quantisation": QUANTISATION})
    export = admin.follow(f"/exports/{asked['id']}", until="ready", seconds=1800)
    archive = admin.http.get(f"/exports/{export['id']}/download").raise_for_status().content
    with tarfile.open(fileobj=io.BytesIO(archive)) as files:
        files.extractall(target, filter="data")
    return next(target.rglob("*.gguf")), export["report"]["parity"]


@contextmanager
def served(file: Path, name: str, port: int) -> Iterator[LlamaServer]:
    server = LlamaServer(file, name, port)
    try:
        yield server
    finally:
        server.stop()


def try_file(admin: Admin, instance: Instance, name: str, url: str, passages: Sequence[Passage]) -> dict[str, Any]:
    """The experiment of the champion against the file that a server at `url` has under this name, as the API tells it
    once each unit has matured or a verdict has ended it; with the page's headline and the shares of equal picks."""
    backend = admin.call("POST", "/backends", {"name": name, "url": url, "capabilities": ["grammar"]})
    version = admin.call("POST", "/remote-versions", {"model": AGENT, "remote_name": name, "backend": backend["id"]})
    plan = PLAN | {"treatment": version["id"], "reason": f"does {name} decide as the version?"}
    experiment = admin.call("POST", "/experiments", plan)
    path, right = f"/experiments/{experiment['id']}", 0
    for begin in range(0, len(passages), AT_ONCE):
        chunk = passages[begin : begin + AT_ONCE]
        items = [{"state": {"text": one.text}, "unit": f"{name}-{begin + place}"} for place, one in enumerate(chunk)]
        told = admin.call("POST", f"/agents/{AGENT}/decide", items)["answers"]
        verdicts = [
            "confirmed" if one["action"] == passage.topic else "corrected"
            for one, passage in zip(told, chunk, strict=True)
        ]
        right += verdicts.count("confirmed")
        feedback = [
            {"decision_id": one["decision_id"], "metric": "verdict", "value": verdict, "source": "code"}
            for one, verdict in zip(told, verdicts, strict=True)
        ]
        admin.call("POST", "/feedback", feedback)
        if (begin // AT_ONCE) % 10 == 0 and admin.call("GET", path)["state"] != "running":
            break
    gives_up = time.monotonic() + 300
    while time.monotonic() < gives_up:
        experiment = admin.call("GET", path)
        if experiment["state"] != "running" or experiment["units_control"] + experiment["units_treatment"] == len(
            passages
        ):
            break
        time.sleep(2)
    headline = instance.manage("shell", "--no-imports", "-c", HEADLINE.format(id=experiment["id"])).stdout.strip()
    decided, alike, unasked = instance.query(_PICKS, experiment["id"])[0]
    return experiment | {"headline": headline, "decided": decided, "alike": alike, "unasked": unasked, "right": right}


def add_rows(report: Report, told: dict[str, Any], parity: dict[str, Any], units: int) -> None:
    report.add(
        f"the export's own comparison on {parity['decisions']} held-out rows: equal decisions",
        bound=f">= {parity['bound']:g}",
        figure=f"{parity['equal_decisions']:.4f}",
        passed=not parity["refusals"],
    )
    share = told["alike"] / told["decided"]
    report.add(
        "live decisions for which both arms have the same likeliest option",
        bound=f">= {ALIKE:g}",
        figure=f"{share:.4f} of {told['decided']}, both asked but for {told['unasked']}",
        passed=share >= ALIKE and not told["unasked"],
    )
    report.add(
        "GGUF against safetensors: units matured, requests failed",
        bound=f"{units}, 0",
        figure=f"{told['units_control']} + {told['units_treatment']}, "
        f"{told['failed_control']} + {told['failed_treatment']}",
        passed=told["units_control"] + told["units_treatment"] == units
        and not told["failed_control"] + told["failed_treatment"],
    )
    report.add(
        "  the difference, reward points, and its 95 % sequence",
        bound=f"holds 0, above -{MARGIN * 100:g}",
        figure=f"{show(told)}; plain {show(told, 'plain_')}; E+ {told['log_e_plus']:.2f}, E- "
        f"{told['log_e_minus']:.2f} (logarithms); {told['state']}: {told['headline']}",
        passed=told["state"] == "running" and told["low"] is not None and -MARGIN < told["low"] <= 0 <= told["high"],
    )


def show(told: dict[str, Any], prefix: str = "") -> str:
    """An estimate with its interval, in points."""
    values = [told[f"{prefix}{name}"] for name in ("estimate", "low", "high")]
    if None in values:
        return "too few units"
    estimate, low, high = (100 * value for value in values)
    return f"{estimate:+.2f} [{low:+.2f}, {high:+.2f}]"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--units", type=int, default=UNITS, help="of each experiment, at most")
    parser.add_argument("--quick", action="store_true", help=f"{QUICK_UNITS} units, a short demo: bounds need not hold")
    options = parser.parse_args()
    units = QUICK_UNITS if options.quick else options.units
    report, began = Report("gguf_experiment"), time.monotonic()
    passages = build_world(SEED).heldout[:units]
    if len(passages) < units:
        parser.error(f"--units: there are {len(passages)} passages that the version never saw")
    ports = {"gguf": free_port(), "base": free_port()}
    with tempfile.TemporaryDirectory(prefix="reckoner-gguf-") as folder:
        place = Path(folder)
        instance = Instance(
            place / "instance",
            RECKONER_DEMO_SEED=str(SEED),
            RECKONER_FALLBACK_SECONDS="20",  # on a busy machine nobody stands in for a slow server
            RECKONER_KEY_REQUESTS_A_MINUTE="0",
            RECKONER_BACKEND_URLS=",".join(f"http://127.0.0.1:{port}" for port in ports.values()),
            RECKONER_DEMO_DECISIONS="1200" if options.quick else "2400",
            RECKONER_DEMO_EXPERIMENT_UNITS="400",  # its own experiment is not looked at
        )
        try:
            instance.start()
            demo_told = json.loads(instance.manage("demo", "wait", "--json").stdout.splitlines()[-1])
            log(f"the demo is over after {time.monotonic() - began:.0f} s: {demo_told['summary']}")
            admin = Admin(instance)
            if demo_told["champion"] != demo_told["trained"]:
                reason = {"reason": "the trained one is compared"}
                admin.call("POST", f"/versions/{demo_told['trained']}/promote", reason)
            current = admin.call("GET", f"/agents/{AGENT}")["version"]
            admin.call("PATCH", f"/agents/{AGENT}", {"expected_version": current, **GREEDY})
            file, parity = export_gguf(admin, demo_told["trained"], place / "gguf")
            with served(file, "gguf", ports["gguf"]) as server:
                told = try_file(admin, instance, "gguf", server.url, passages)
            log(f"{told['right']} of {units} right after {time.monotonic() - began:.0f} s")
            add_rows(report, told, parity, units)
            admin.call("POST", f"/experiments/{told['id']}/stop", {"reason": "not shown different"})
            file, _ = export_gguf(admin, demo_told["base"], place / "base")
            with served(file, "base", ports["base"]) as server:
                worse = try_file(admin, instance, "base", server.url, passages)
            log(f"over after {time.monotonic() - began:.0f} s")
            report.add(
                "the GGUF of the base in its place",
                bound="rolled back",
                figure=f"{worse['state']} after {worse['units_control']} + {worse['units_treatment']} units: "
                f"{show(worse)}; picks alike {worse['alike'] / worse['decided']:.3f}; {worse['headline']}",
                passed=worse["state"] == "rolled_back",
            )
        finally:
            instance.stop()
    return report.finish()


if __name__ == "__main__":
    sys.exit(main())
