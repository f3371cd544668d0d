"""Runs, models and experiments in a real browser: live curves, comparing, starting, and what a reader may not do."""

from __future__ import annotations

import datetime as dt
import json
import random
import re
from pathlib import Path
from typing import Any

import msgspec
import pytest
from django.urls import reverse
from django.utils import timezone
from playwright.sync_api import expect

from models_registry.models import Experiment
from tests.browser.accessibility import axe_findings, look_at
from tools import factories
from tools.scenes import TOPICS
from training.api.examples import FINISHED
from training.engine.spec.samples import Asked, Look, Reply, Samples
from training.models import RunMetric, TrainingRun


def at(name: str, row: Any) -> str:
    return reverse(f"pages:{name}", args=[row.workspace.slug, row.pk])


def page(name: str, workspace: Any) -> str:
    return reverse(f"pages:{name}", args=[workspace.slug])


@pytest.fixture
def earlier(scene: Any, store: Path) -> Any:
    """A run that was taken up again and gained little, one that failed, and what the finished one predicted."""
    agent, finished = scene.agent, scene.finished
    now = timezone.now()
    version = factories.ModelVersionFactory(registered_model=agent.registered_model, method="reward_weighted")
    common = {
        "agent": agent,
        "dataset": finished.dataset,
        "heldout": finished.heldout,
        "base_version": finished.base_version,
        "base_model": "",
        "method": "reward_weighted",
        "requested_by": "owner@example.org",
    }
    run = factories.TrainingRunFactory(
        **common,
        spec={"method": "reward_weighted", "optimiser": {"learning_rate": 0.0005, "epochs": 2}},
        state="succeeded",
        produced_version=version,
        progress=1.0,
        started_at=now - dt.timedelta(minutes=30),
        finished_at=now - dt.timedelta(minutes=26),
    )
    small = {"mean": 0.011, "low": -0.006, "high": 0.028, "n": 2400, "clusters": 310}
    score = {"mean": 0.573, "low": 0.553, "high": 0.593, "n": 2400, "clusters": 310}
    factories.EvaluationFactory(
        run=run,
        version=version,
        against=finished.base_version,
        dataset=finished.heldout,
        rows=2400,
        scores={"base": {"accuracy": score, "reward": score}, "trained": {"accuracy": score, "reward": score}},
        differences={"accuracy": small, "reward": small},
    )
    factories.GateVerdictFactory(
        version=version, against=finished.base_version, passed=False, estimate=0.011, low=-0.006, high=0.028
    )
    RunMetric.objects.bulk_create(
        RunMetric(run=run, attempt=1 if step < 60 else 2, step=step, name="loss", value=1.9 - step / 300)
        for step in range(1, 140)
    )
    factories.TrainingRunFactory(
        **common,
        state="failed",
        progress=0.4,
        error="the engine ended with exit code 1: loss not finite after step 12: lower the learning rate",
        started_at=now - dt.timedelta(hours=2),
        finished_at=now - dt.timedelta(hours=2) + dt.timedelta(seconds=12),
    )
    predict(finished, store)
    TrainingRun.objects.filter(id=finished.id).update(metrics=FINISHED["metrics"])
    for one in (finished, scene.running):
        show_samples(one, store)
    return run


def show_samples(run: TrainingRun, store: Path) -> None:
    """What the engine leaves while it trains: answers to a few rows, before and now."""
    prompts = [
        "Acknowledge a message after its handler has returned; a lost worker gives it back to the queue.",
        "Render the prompt with its completions below the cursor and redraw on resize.",
        "Collect the terms by powers of x, and cancel what the numerator and the denominator share. " * 4,
        "Return the shortest path between two nodes whose edges have weights.",
    ]
    rows = [Asked(str(at), prompt, TOPICS[at]) for at, prompt in enumerate(prompts)]
    first = [Reply(TOPICS[(at + at % 2) % len(TOPICS)], 0.31 + at / 20, at % 2 == 0, "que") for at in range(4)]
    newest = [Reply(TOPICS[at], 0.93 - at / 9, True, TOPICS[at], True) for at in range(3)]
    newest.append(Reply(TOPICS[5], 0.44, False, TOPICS[5], True))
    folder = store.parent / "runs" / str(run.id) / "attempts" / "1"
    folder.mkdir(parents=True, exist_ok=True)
    samples = Samples("heldout", rows, Look(0, first), Look(59, newest))
    (folder / "samples.json").write_bytes(msgspec.json.encode(samples))


def predict(run: TrainingRun, store: Path) -> None:
    """What the engine leaves of an evaluation: predictions of both models and a result that names them."""
    rng = random.Random(5)
    folder = store.parent / "runs" / str(run.id)
    attempt = folder / "attempts" / "1"
    attempt.mkdir(parents=True)
    (folder / "data").mkdir()
    rows, lines = [], []
    for number in range(600):
        answer = TOPICS[number % len(TOPICS)]
        rows.append({"id": str(number), "prompt": "…", "options": TOPICS, "answer": answer})
        for model, skill in (("base", 0.5), ("trained", 0.78)):
            sure = min(0.99, max(0.15, rng.gauss(skill, 0.2)))
            correct = rng.random() < sure
            action = answer if correct else rng.choice([one for one in TOPICS if one != answer])
            lines.append({"id": str(number), "model": model, "action": action, "p_action": sure, "correct": correct})
    (folder / "data" / "heldout.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (attempt / "predictions.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    result = {"run_id": str(run.id), "method": run.method, "attempt": 1, "predictions": "predictions.jsonl"}
    (attempt / "result.json").write_text(json.dumps(result))


def drawn_pixels(tab: Any) -> int:
    """How many pixels of the page's first canvas are not empty."""
    return tab.evaluate(
        """() => {
          const canvas = document.querySelector("canvas");
          const data = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height).data;
          let count = 0;
          for (let i = 3; i < data.length; i += 4) if (data[i]) count += 1;
          return count;
        }"""
    )


def test_a_runs_chart_grows_by_new_points_alone_ends_and_is_shown_as_chosen(
    tab: Any, viewer: Any, scene: Any, log_in: Any
) -> None:
    run = scene.running
    asked: list[str] = []
    tab.on("request", lambda request: asked.append(request.url) if "/curves?" in request.url else None)
    tab.clock.install()
    log_in(tab, viewer).goto(at("run", run))
    loss = tab.get_by_role("img", name="loss over steps")
    expect(loss).to_have_attribute("aria-label", "loss over steps, last 1.05 at step 59")
    expect(tab.get_by_role("img", name="learning rate over steps, last 0.00176 at step 59")).to_be_visible()
    expect(tab.locator("[data-chart][data-drawn]")).to_be_visible()
    assert drawn_pixels(tab) > 500
    last = RunMetric.objects.filter(run=run).latest("id").id
    factories.RunMetricFactory(run=run, attempt=2, step=41, name="loss", value=0.9)
    factories.RunMetricFactory(run=run, attempt=2, step=70, name="loss", value=0.25)
    tab.clock.fast_forward(2_000)
    expect(loss).to_have_attribute("aria-label", "loss over steps, last 0.25 at step 70")
    assert asked[0].endswith("?after=0") and any(url.endswith(f"?after={last}") for url in asked)
    tab.get_by_text("Numbers").first.click()
    expect(tab.get_by_role("row", name="41 0.9", exact=True)).to_be_visible()  # the newest attempt's value
    TrainingRun.objects.filter(id=run.id).update(state="cancelled", finished_at=timezone.now())
    tab.clock.fast_forward(2_000)
    expect(tab.locator("#run-status .badge").first).to_have_text("cancelled")
    expect(tab.locator("#run-status[hx-trigger]")).to_have_count(0)
    tab.goto(at("run", scene.finished))
    smooth, log = (tab.get_by_role("button", name=name) for name in ("Smooth", "Log scale"))
    smooth.click()
    log.click()
    expect(tab.locator(".chart-keys").first).to_contain_text("smoothed")
    expect(tab.locator("figcaption").first).to_contain_text("log scale")
    tab.reload()
    expect(smooth).to_have_attribute("aria-pressed", "true")
    expect(tab.locator(".chart-keys").first).to_contain_text("smoothed")
    smooth.click()
    expect(tab.locator(".chart-keys").first).not_to_contain_text("smoothed")


def test_the_list_is_walked_by_keys_and_follows_a_run_to_its_end_keeping_what_is_chosen(
    tab: Any, viewer: Any, scene: Any, workspace: Any, earlier: Any, log_in: Any
) -> None:
    run = scene.running
    newest = list(TrainingRun.objects.order_by("-id"))
    log_in(tab, viewer).goto(page("runs", workspace))
    for key in ("j", "j", "k", "j", "x", "j", "x"):
        tab.keyboard.press(key)
    expect(tab.locator(f"#open-{newest[2].id}")).to_be_focused()
    tab.keyboard.press("n")  # a viewer has nothing to start
    tab.keyboard.press("c")
    tab.wait_for_url("**compare=*")
    assert [f"compare={newest[at].id}" in tab.url for at in range(4)] == [False, True, True, False]
    tab.clock.install()
    tab.goto(page("runs", workspace))
    row = tab.locator(f"#run-{run.id}")
    row.get_by_role("checkbox").check()
    TrainingRun.objects.filter(id=run.id).update(progress=0.81)
    tab.clock.fast_forward(2_000)
    expect(row.get_by_role("progressbar")).to_have_attribute("value", "0.8100")
    TrainingRun.objects.filter(id=run.id).update(state="failed", error="lost", finished_at=timezone.now())
    tab.clock.fast_forward(2_000)
    expect(row.locator(".status")).to_have_text("failed")
    expect(row).not_to_have_attribute("hx-trigger", "every 2s")
    expect(row.get_by_role("checkbox")).to_be_checked()
    tab.locator(f"#run-{earlier.id}").get_by_role("checkbox").check()
    tab.get_by_role("button", name="Compare selected").click()
    expect(tab.get_by_role("heading", name="Compare runs")).to_be_visible()
    assert tab.url.count("compare=") == 2
    expect(tab.locator("[data-chart][data-drawn]")).to_be_visible()
    expect(tab.get_by_role("row", name="optimiser.epochs 2 –")).to_be_visible()
    tab.evaluate("theme.choose('dark')")
    tab.emulate_media(media="print")  # paper is light, and a chart as wide as its room
    assert tab.evaluate("getComputedStyle(document.documentElement).colorScheme") == "light"
    width = "(place) => Math.round(document.querySelector(place).getBoundingClientRect().width)"
    assert tab.evaluate(width, ".uplot canvas") == tab.evaluate(width, ".chart-room")
    tab.emulate_media(media="screen")
    tab.go_back()
    expect(tab.locator(".pick :checked")).to_have_count(2)
    tab.get_by_label("State").select_option("failed")  # hides one of the two, which stays chosen
    tab.wait_for_url("**state=failed*")
    expect(tab.locator("#compare :checked")).to_have_count(2)


def test_an_admin_runs_one_again_reads_the_fault_beside_its_field_and_tries_a_version(
    open_tab: Any, admin: Any, scene: Any, earlier: Any, log_in: Any, complaints: list[str]
) -> None:
    tab = log_in(open_tab(), admin)
    tab.goto(at("run", earlier))
    tab.get_by_role("link", name="Run again with changes").click()
    expect(tab.get_by_label("Learning rate")).to_have_value("0.0005")
    expect(tab.get_by_label("Method")).to_have_value("reward_weighted")
    tab.get_by_label("Learning rate").fill("7")
    before = TrainingRun.objects.count()
    tab.get_by_role("button", name="Start run").click()
    fault = tab.locator(".field", has=tab.get_by_label("Learning rate")).locator(".fault")
    expect(fault).to_contain_text("less than or equal to 1")
    assert TrainingRun.objects.count() == before
    complaints[:] = [one for one in complaints if "400" not in one]
    tab.goto(at("experiment", scene.experiment))
    expect(tab.locator("[data-chart][data-drawn]")).to_be_visible()
    assert drawn_pixels(tab) > 500
    expect(tab.locator(".chart-keys").first).to_contain_text("promote at")
    expect(tab.get_by_role("img", name=f"the difference is {scene.experiment.estimate:.2f}")).to_be_visible()
    guardrails = tab.get_by_role("button", name="Guardrails")  # a term of the glossary
    guardrails.hover()
    expect(tab.locator(".tip-body")).to_contain_text("must not get worse")
    expect(guardrails).to_have_accessible_description(re.compile("must not get worse"))
    assert axe_findings(tab) == []
    tab.get_by_role("link", name="Stop").click()
    tab.get_by_label("Reason").fill("a new prompt comes first")
    tab.get_by_role("button", name="Stop the experiment").click()
    expect(tab.get_by_role("heading", name="Stopped without a winner")).to_be_visible()
    tab.goto(at("version", scene.version))
    tab.get_by_role("link", name="Start an experiment").click()
    tab.get_by_label("Reason").fill("the new prompt did not help")
    tab.get_by_text("All settings").click()
    tab.get_by_label("Minimum duration").fill("2 h")
    tab.get_by_role("button", name="Start experiment").click()
    expect(tab.get_by_role("heading", name="No outcomes are known yet")).to_be_visible()
    started = Experiment.objects.get(state="running")
    assert (started.min_seconds, started.promote_e) == (7200.0, 40.0)


def test_every_page_of_learning_fits_and_is_accessible(
    tab: Any, admin: Any, scene: Any, earlier: Any, workspace: Any, log_in: Any
) -> None:
    log_in(tab, admin)
    tried = factories.GateVerdictFactory(
        version__registered_model=scene.agent.registered_model, against=scene.finished.base_version
    ).version
    pages = {
        "runs": page("runs", workspace),
        "run": at("run", scene.finished),
        "run-live": at("run", scene.running),
        "run-form": f"{page('run-start', workspace)}?like={earlier.id}",
        "compare": f"{page('runs', workspace)}?compare={scene.finished.id},{earlier.id},{scene.running.id}",
        "models": page("models", workspace),
        "version": at("version", scene.version),
        "promote": at("version-promote", scene.version),
        "experiments": page("experiments", workspace),
        "experiment": at("experiment", scene.experiment),
        "experiment-form": at("version-try", tried),
    }
    found: list[str] = []
    for name, path in pages.items():
        tab.goto(path)
        if name == "run":
            expect(tab.locator("#predictions")).to_be_visible()
            expect(tab.locator("#samples")).to_contain_text("2 right before, 3 at the end, of 4")
        found += look_at(tab, f"learning-{name}")
    assert found == []
