"""Every page in a browser: its weight, how much it moves while it loads slowly, and whether it fits and prints.

    python -m benchmarks.pages [--quick] [--before FILE]

The pages are those of the browser tests' scene, behind a server of their own. Weight is the HTML's, as it travels. The
shift is Chromium's layout shift while the page loads at 400 KB/s with 150 ms of latency and a quarter of the CPU.
Widths: 1440, 820 and 390 px, where nothing may be wider than the window; on paper nothing may be wider than A4, and the
navigation is left out. `--before` takes the JSON line of an earlier run and puts its figures beside.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tools.pictures.screens import seeded_site
from tools.report import Report, log

MOST_BYTES = 60_000
MOST_SHIFT = 0.05
WIDTHS = (1440, 820, 390)
PAPER = 794  # A4 at 96 px an inch
SLOW = {"offline": False, "latency": 150, "downloadThroughput": 400_000, "uploadThroughput": 200_000}
SLOWER_CPU = 4
PLAIN = (
    *("overview", "rewards", "disk", "connect", "agents", "decisions", "label", "episodes", "runs", "run-start"),
    *("train-new", "datasets", "dataset-make", "erasures", "imports", "import-new", "rehearsals", "rehearsal-start"),
    *("models", "experiments", "people", "audit"),
)
"""Pages of a workspace without arguments, by URL name."""
OUTSIDE = {
    "profile": "/profile",
    "workspaces": "/",
    "password": "/change-password",
    "two-factor": "/account/two-factor/",
}
Pages = dict[str, dict[str, Any]]
SHIFT = """() => new Promise((done) => {
  let sum = 0;
  new PerformanceObserver((list) => {
    for (const entry of list.getEntries()) if (!entry.hadRecentInput) sum += entry.value;
  }).observe({ type: "layout-shift", buffered: true });
  setTimeout(() => done(sum), 400);
})"""
OVER = "() => Math.max(0, document.documentElement.scrollWidth - window.innerWidth)"


def addresses(scene: Any) -> Iterator[tuple[str, str]]:
    """Name and path of every page. A page that this commit lacks is left out."""
    from django.urls import NoReverseMatch, reverse

    slug = scene.agent.workspace.slug
    rows = {
        "agent": scene.agent.slug,
        "agent-edit": scene.agent.slug,
        "decision": scene.decisions[0].pk,
        "run": scene.finished.pk,
        "dataset": scene.finished.dataset_id,
        "version": scene.version.pk,
        "version-try": scene.version.pk,
        "experiment": scene.experiment.pk,
        "rehearsal": scene.rehearsal.pk,
    }
    for name in (*PLAIN, *rows):
        with contextlib.suppress(NoReverseMatch):
            yield name, reverse(f"pages:{name}", args=[slug, *([rows[name]] if name in rows else [])])
    yield from OUTSIDE.items()


def look_at(tab: Any, slow: Any, path: str) -> dict[str, Any]:
    """Of one page; None where there is none."""
    answer = tab.goto(path)
    if answer.status != 200 or "text/html" not in answer.headers.get("content-type", ""):
        return {}
    found: dict[str, Any] = {"bytes": answer.request.sizes()["responseBodySize"], "over": {}}
    for width in WIDTHS:
        tab.set_viewport_size({"width": width, "height": 800})
        if over := tab.evaluate(OVER):
            found["over"][str(width)] = over
    tab.emulate_media(media="print")
    tab.set_viewport_size({"width": PAPER, "height": 1123})
    if over := tab.evaluate(OVER):
        found["over"]["print"] = over
    found["navigation_printed"] = tab.locator("header.shell").is_visible()
    tab.emulate_media(media="screen")
    tab.set_viewport_size({"width": 1440, "height": 800})
    slow.goto(path)
    found["shift"] = round(slow.evaluate(SHIFT), 3)
    return found


def look_at_all(quick: bool) -> Pages:
    from playwright.sync_api import sync_playwright

    with seeded_site() as (address, person, scene):
        from tools.scenes import LAUNCH, find_chromium  # once Django is configured

        # Before Playwright's loop, in which Django asks no database.
        cookie = {**session_of(person), "url": address}
        wanted = list(addresses(scene))[:: 6 if quick else 1]
        with sync_playwright() as playwright:
            chromium = playwright.chromium.launch(executable_path=find_chromium(), args=LAUNCH)
            contexts = [
                chromium.new_context(base_url=address, viewport={"width": 1440, "height": 800}) for _ in range(2)
            ]
            for context in contexts:
                context.add_cookies([cookie])
            tab, slow = (context.new_page() for context in contexts)
            session = contexts[1].new_cdp_session(slow)
            session.send("Network.enable")
            session.send("Network.emulateNetworkConditions", SLOW)
            session.send("Emulation.setCPUThrottlingRate", {"rate": SLOWER_CPU})
            found = {}
            for name, path in wanted:
                if looked := look_at(tab, slow, path):
                    found[name] = looked
                    log(f"{name:<18} {looked}")
            chromium.close()
    return found


def session_of(person: Any) -> dict[str, str]:
    from django.conf import settings
    from django.test import Client

    client = Client()
    client.force_login(person)
    name = settings.SESSION_COOKIE_NAME
    return {"name": name, "value": client.cookies[name].value}


def add_rows(
    report: Report, found: dict[str, dict[str, Any]], before: dict[str, dict[str, Any]], *, quick: bool
) -> None:
    heaviest = max(found, key=lambda name: found[name]["bytes"])
    moving = max(found, key=lambda name: found[name]["shift"])

    def told(name: str, measure: str) -> str:
        was = f"; {before[name][measure]} before" if name in before else ""
        return f"{found[name][measure]} ({name}){was}"

    if not quick:
        report.add("pages looked at", bound=">= 30", figure=len(found), passed=len(found) >= 30)
    most = found[heaviest]["bytes"]
    report.add(
        "heaviest page, bytes of HTML",
        bound=f"<= {MOST_BYTES}",
        figure=told(heaviest, "bytes"),
        passed=most <= MOST_BYTES,
    )
    shift = found[moving]["shift"]
    report.add(
        "largest layout shift", bound=f"<= {MOST_SHIFT}", figure=told(moving, "shift"), passed=shift <= MOST_SHIFT
    )
    wide = {name: one["over"] for name, one in found.items() if one["over"]}
    report.add("pages wider than a window or paper", bound="none", figure=wide or "none", passed=not wide)
    printed = [name for name, one in found.items() if one["navigation_printed"]]
    report.add("pages that print the navigation", bound="none", figure=printed or "none", passed=not printed)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="every sixth page")
    parser.add_argument("--before", type=Path, help="the JSON line of an earlier run")
    options = parser.parse_args()
    began = time.monotonic()
    before = json.loads(options.before.read_text().splitlines()[-1])["pages"] if options.before else {}
    found = look_at_all(options.quick)
    report = Report("pages")
    add_rows(report, found, before, quick=options.quick)
    passed = all(row.passed for row in report.rows)
    seconds = round(time.monotonic() - began)
    print(json.dumps({"benchmark": "pages", "passed": passed, "seconds": seconds, "pages": found}))
    return 0 if passed else 1


if __name__ == "__main__":
    sys.exit(main())
