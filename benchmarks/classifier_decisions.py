"""What a decision by a classifier costs over HTTP: by words and by an encoder, beside scikit-learn's own predict.

    python -m benchmarks.classifier_decisions [--encoder FOLDER] [--labels 500] [--decisions 300] [--quick]

A real instance with its model server: CLINC150's ten domains, labels as a dataset, a run of the method `classifier` for
each kind, its version promoted. Then one decision after the other by `POST /agents/SLUG/decide` over one kept
connection, each recorded with its propensity. Beside it `predict_proba` of tf-idf and a logistic regression on the same
labels, one text at a time in this process: what no server can save. `--encoder`: a folder of sentence-transformers;
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
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from benchmarks.engine_runs import parse, read_queries
from tools.admin import Admin
from tools.instance import ROOT, Instance
from tools.report import Report, log

AGENT = "domains"
MOST_MS = {"words": 5.0, "encoder": 25.0}
WARM_UP, RUN_SECONDS = 30, 900.0


def time_each(decide: Callable[[str], Any], texts: Sequence[str]) -> dict[str, float]:
    """Median and 95th percentile of one call after the other, in milliseconds, once it is warm."""
    for text in texts[:WARM_UP]:
        decide(text)
    taken = []
    for text in texts[WARM_UP:]:
        began = time.perf_counter()
        decide(text)
        taken.append(1000 * (time.perf_counter() - began))
    return {"p50": statistics.median(taken), "p95": statistics.quantiles(taken, n=20)[-1]}


def time_scikit_learn(labelled: Sequence[tuple[str, str]], texts: Sequence[str]) -> dict[str, float]:
    from sklearn.feature_extraction.text import TfidfVectorizer
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline, make_union

    features = make_union(
        TfidfVectorizer(ngram_range=(1, 2), sublinear_tf=True),
        TfidfVectorizer(analyzer="char_wb", ngram_range=(2, 4), sublinear_tf=True),
    )
    words = make_pipeline(features, LogisticRegression(max_iter=1000))
    words.fit(*map(list, zip(*labelled, strict=True)))
    return time_each(lambda text: words.predict_proba([text]), texts)


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
    report, measured = Report("classifier_decisions"), dict[str, dict[str, float]]()
    measured["scikit-learn"] = time_scikit_learn(labelled, texts)
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

                measured[kind] = time_each(decide, texts)
                log(f"{kind}: {measured[kind]}")
        finally:
            instance.stop()
    bare = measured["scikit-learn"]["p50"]
    report.add("scikit-learn's predict_proba, one text, p50 ms", bound="-", figure=f"{bare:.2f}", passed=True)
    for kind in bases:
        p50 = measured[kind]["p50"]
        report.bound(f"{kind}: POST decide, p50 ms", p50, "<=", MOST_MS[kind])
        report.add("  as a multiple of scikit-learn's", bound="-", figure=f"{p50 / bare:.1f}", passed=True)
    return report.finish(measured=measured)


if __name__ == "__main__":
    sys.exit(main())
