"""Recording decisions on a real instance while its web processes and its PostgreSQL are killed.

    python -m benchmarks.ingest_kills [--quick]

Four threads record 150 decisions a second. What was acknowledged has to be stored, once, and the instance to be ready
again within 15 s. `tools.killing` sends and kills.
"""

from __future__ import annotations

import argparse
import sys

from tools.instance import Instance
from tools.killing import POSTGRES, WEB, kill_while_sending, run_on_instance, stored
from tools.report import Report


def kill_rows(report: Report, instance: Instance, token: str, *, web: int, postgres: int) -> None:
    """Four rows for each of the two."""
    for name, words, times in (("web", WEB, web), ("PostgreSQL", POSTGRES, postgres)):
        senders, waits = kill_while_sending(instance, token, words, times)
        there = stored(instance, senders)
        lost = senders.acknowledged - set(there)
        doubled = [one for one, count in there.items() if count > 1]
        what = f"kill -9 of {name}, {times} times"
        figure = f"{len(senders.acknowledged)} acknowledged, {senders.repeated} repeated"
        report.add(
            f"{what}: acknowledged and not stored", bound="0", figure=f"{len(lost)} of {figure}", passed=not lost
        )
        report.add(f"{what}: stored twice", bound="0", figure=len(doubled), passed=not doubled)
        report.add(f"{what}: refused", bound="0", figure=senders.refused[:2] or 0, passed=not senders.refused)
        slowest = max(waits)
        report.add(f"{what}: ready again, slowest", bound="<= 15 s", figure=f"{slowest:.1f} s", passed=slowest <= 15)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="a tenth of the kills")
    quick = parser.parse_args().quick
    report = Report("ingest_kills")

    def work(instance: Instance, token: str) -> None:
        kill_rows(report, instance, token, web=5 if quick else 50, postgres=1 if quick else 10)

    run_on_instance(work)
    return report.finish()


if __name__ == "__main__":
    sys.exit(main())
