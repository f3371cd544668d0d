"""Exports of classifiers: each written over fixed options, and compared by exactly the lines that its README shows.

The options are those that training saw, and those that the compared rows offer. `parity` counts probabilities over
options: `kl` is of these, and there are no tokens.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from training.engine.attempt.attempt import Attempt
from training.engine.attempt.stop import watched
from training.engine.classifiers.flat import find_options, flatten
from training.engine.classifiers.policy import Classifier, load_classifier
from training.engine.data.reading import RunData
from training.engine.export.hard_texts import HARD_TEXTS
from training.engine.export.ordinary_texts import find_ordinary_texts
from training.engine.export.parity import find_refusals
from training.engine.export.runtimes import CPU
from training.engine.rows.types import Prompt
from training.engine.spec.export_formats import Format
from training.engine.spec.export_spec import Parity, ParityScore

WRITERS: Mapping[Format, str] = {
    Format.ONNX: "training.engine.export.classifier_onnx",
    Format.SKLEARN: "training.engine.export.classifier_sklearn",
}
"""Each has `write(classifier, layer, folder) -> details`, `tell_use(classifier) -> lines` and `name_runtime()`."""
README = "README.md"
MOST_APART = 1e-4
"""Between probabilities of the version and of its export; more is refused."""

Decide = Callable[[str], dict[str, float]]


def write_classifier(attempt: Attempt, data: RunData, folder: Path) -> tuple[Classifier, dict[str, Any]]:
    """Writes the export and a README that says how to use it. Raises Refused."""
    spec, plan = attempt.spec, attempt.spec.export
    assert plan is not None
    classifier = load_classifier(spec.base, CPU)
    offered = {option for row in data.heldout for option in row.options}
    layer = flatten(classifier, sorted({*find_options(classifier.head), *offered}))
    writer = import_module(WRITERS[plan.format])
    details = writer.write(classifier, layer, folder)
    use: list[str] = writer.tell_use(classifier)
    text = "\n".join(["# A classifier", "", "```python", *use, "```", ""])
    (folder / README).write_text(text, encoding="utf-8")
    return classifier, {**details, "use": use}


def load_use(use: list[str], folder: Path) -> Decide:
    """`decide` of the lines, for the files in this folder."""
    names: dict[str, Any] = {}
    source = "\n".join(use).replace('"THIS FOLDER"', repr(str(folder.resolve())))
    exec(compile(source, README, "exec"), names)  # noqa: S102 - our own lines, as a user runs them
    decide: Decide = names["decide"]
    return decide


def compare_classifier(attempt: Attempt, data: RunData, classifier: Classifier, folder: Path, use: list[str]) -> Parity:
    """The version beside the files, on held-out rows or on texts that everybody has."""
    plan = attempt.spec.export
    assert plan is not None
    with watched(attempt.stop, attempt.events, 0.5, "loading the export"):
        decide = load_use(use, folder)
    rows = data.heldout[:: max(1, len(data.heldout) // plan.parity_rows)][: plan.parity_rows]
    asked: list[tuple[str, tuple[str, ...], int | None]] = [
        (row.prompt, row.options, row.options.index(row.answer)) for row in rows if len(row.options) > 1
    ]
    every = tuple(decide("a"))
    probes = asked or [(text, every, None) for text in (*HARD_TEXTS, *find_ordinary_texts())]
    equal, kl, difference = 0, list[float](), 0.0
    scored = list[tuple[bool, float, bool, float]]()
    for done, (text, options, right) in enumerate(probes):
        attempt.stop.check(done)
        if attempt.events.due():
            attempt.events.progress(50 + 50 * done // len(probes), 100, f"compared {done} of {len(probes)}")
        p = np.exp(classifier.log_probabilities([Prompt(text)], [options])[0].astype(np.float64))
        by_option = decide(text)
        q = np.array([by_option[option] for option in options])
        q /= q.sum()
        equal += int(p.argmax() == q.argmax())
        difference = max(difference, float(np.abs(p - q).max()))
        kl.append(max(0.0, float((p * (np.log(p.clip(1e-30)) - np.log(q.clip(1e-30)))).sum())))
        if right is not None:
            scored.append((bool(p.argmax() == right), p[right], bool(q.argmax() == right), q[right]))
    finite = bool(np.isfinite([*kl, difference]).all())
    version, export = _scores(scored)
    parity = Parity(
        runtime=import_module(WRITERS[plan.format]).name_runtime(),
        prompts="held_out" if asked else "fallback",
        rows=len(probes),
        texts=0,
        decisions=len(probes),
        equal_decisions=equal / len(probes),
        bound=plan.bound,
        positions=len(kl),
        kl=float(np.mean(kl)) if finite else None,
        kl_largest=max(kl) if finite else None,
        top1=equal / len(probes),
        version=version,
        export=export,
    )
    return parity.model_copy(update={"refusals": list(_find_refusals(parity, difference))})


def _find_refusals(parity: Parity, difference: float) -> Iterator[str]:
    yield from find_refusals(parity)
    if difference > MOST_APART:
        yield f"a probability is {difference:.2g} from the version's, and at most {MOST_APART:g} is allowed"


def _scores(scored: list[tuple[bool, float, bool, float]]) -> tuple[ParityScore | None, ParityScore | None]:
    if not scored:
        return None, None
    right, p, other_right, q = np.array(scored, dtype=np.float64).mean(0).tolist()
    return (
        ParityScore(accuracy=right, probability_of_right=p),
        ParityScore(accuracy=other_right, probability_of_right=q),
    )
