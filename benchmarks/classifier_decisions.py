"""What a decision by a classifier costs over HTTP: by words and by an encoder, beside scikit-learn's own predict.

    python -m benchmarks.classifier_decisions [--encoder FOLDER] [--labels 500] [--decisions 300] [--quick]

A real instance with its model server: CLINC150's ten domains, labels as a dataset, a run of the method `classifier` for
each kind, its version promoted. Then one decision after the other by `POST /agents/SLUG/decide` over one kept
connection, each recorded with its propensity. In turn with it, on the same texts: `recording`, one decision of another
policy by `POST /decisions`, and `bare`, `predict_proba` of scikit-learn's tf-idf and logistic regression on the same
labels in this process: what no server can save. `--encoder`: a folder of sentence-transformers;
without it only words are measured. Bounds are for a free machine.

Prints a row per figure and one JSON object as the last line.
"""

from __future__ import annotations

import argparse
import json
import random
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.engine_runs import parse, read_queries
from tools.admin import Admin
from tools.instance import ROOT, Instance
from tools.report import Report, log

AGENT = "domains"
MOST_MS = {"words": 5.0, "encoder": 25.0}
WARM_UP, RUN_SECONDS = 30, 900.0


def time_in_turn(calls: Mapping[str, Callable[[str], Any]], texts: Sequence[str]) -> dict[str, dict[str, float]]:
    """Median and 95th percentile of each call in milliseconds, once all are warm; each text is given to one after the
    other, so that they share what else the machine does."""
    taken: dict[str, list[float]] = {name: [] for name in calls}
    for place, text in enumerate(texts):
        for name, call in calls.items():
            began = time.perf_counter()
            call(text)
            if place >= WARM_UP:
                taken[name].append(1000 * (time.perf_counter() - began))
    return {
        name: {"p50": statistics.median(each), "p95": statistics.quantiles(each, n=20)[-1]}
        for name, each in taken.items()
    }


def fit_scikit_learn(labelled: Sequence[tuple[str, str]]) -> Any:
    from sklearn.feature_extraction.text import TfidfVectorizer
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline, make_union

    features = make_union(
        TfidfVectorizer(ngram_range=(1, 2), sublinear_tf=True),
        TfidfVectorizer(analyzer="char_wb", ngram_range=(2, 4), sublinear_tf=True),
    )
    return make_pipeline(features, LogisticRegression(max_iter=1000)).fit(*map(list, zip(*labelled, strict=True)))


def train(admin: Admin, dataset: str, base: str) -> str:
    """The version that a run makes over this base; it is the champion then."""
    run = admin.call("POST", "/runs", {"agent": AGENT, "method": "classifier", "dataset": dataset, "base_model": base})
    version = str(admin.follow(f"/runs/{run['id']}", until="succeeded", seconds=RUN_SECONDS)["produced_version"])
    admin.call("POST", f"/versions/{version}/promote", {"reason": "to be timed"})
    return version


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--encoder", type=Path, help="folder of a sentence encoder")
    parser.add_argument("--data", type=Path, default=ROOT.parent / "shared" / "data", help="folder with clinc150/")
    parser.add_argument("--labels", type=int, default=500, help="rows that the classifiers learn from")
    parser.add_argument("--decisions", type=int, default=300, help="of each kind, beside those that warm up")
    parser.add_argument("--quick", action="store_true", help="200 labels, 60 decisions")
    options = parse(parser, "clinc150")
    if options.quick:
        options.labels, options.decisions = 200, 60
    pairs = list({query.text: query.domain for query in read_queries(options.data)}.items())
    drawn = random.Random(0).sample(pairs, options.labels + options.decisions + WARM_UP)
    labelled, texts = drawn[: options.labels], [text for text, _ in drawn[options.labels :]]
    names = sorted({domain for _, domain in pairs})
    report, measured = Report("classifier_decisions"), dict[str, dict[str, dict[str, float]]]()
    words = fit_scikit_learn(labelled)
    bases = {"words": "words"} | ({"encoder": str(options.encoder.resolve())} if options.encoder else {})
    with tempfile.TemporaryDirectory(prefix="reckoner-classifiers-") as folder:
        rows = Path(folder) / "rows.jsonl"
        lines = [
            {"id": str(n), "prompt": text, "options": names, "answer": name} for n, (text, name) in enumerate(labelled)
        ]
        rows.write_text("".join(json.dumps(line) + "\n" for line in lines))
        instance = Instance(
            Path(folder) / "instance",
            RECKONER_BASE_MODELS=str(options.encoder.resolve().parent) if options.encoder else "",
            RECKONER_KEY_REQUESTS_A_MINUTE="0",
        )
        try:
            instance.start("--no-demo")
            admin = Admin(instance)
            admin.call(
                "POST", "/agents", {"slug": AGENT, "name": "Domains", "prompt_template": "{{ text }}", "options": names}
            )
            made = instance.manage("import_labelled", str(rows), "--agent", AGENT, "--name", "labels", "--json")
            dataset = json.loads(made.stdout)["dataset"]
            for kind, base in bases.items():
                version = train(admin, dataset, base)

                def decide(text: str, version: str = version) -> None:
                    (answer,) = admin.call("POST", f"/agents/{AGENT}/decide", [{"state": {"text": text}}])["answers"]
                    assert answer["model_version"] == version, answer

                def record(text: str) -> None:
                    recorded = {"agent": AGENT, "policy_name": "outside", "state": {"text": text}, "action": names[0]}
                    admin.call("POST", "/decisions", recorded)

                calls = {"decide": decide, "recording": record, "bare": lambda text: words.predict_proba([text])}
                measured[kind] = time_in_turn(calls, texts)
                log(f"{kind}: {measured[kind]}")
        finally:
            instance.stop()
    for kind, by_call in measured.items():
        p50, recording, bare = (by_call[name]["p50"] for name in ("decide", "recording", "bare"))
        report.bound(f"{kind}: POST decide, p50 ms", p50, "<=", MOST_MS[kind])
        report.add("  of POST decisions, p50 ms", bound="-", figure=f"{recording:.2f}", passed=True)
        report.add("  of scikit-learn's predict_proba, p50 ms", bound="-", figure=f"{bare:.2f}", passed=True)
    return report.finish(measured=measured)


if __name__ == "__main__":
    sys.exit(main())
