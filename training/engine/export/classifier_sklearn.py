"""A classifier as scikit-learn's own estimators in a file of skops, without pickle, and its encoder as a folder of
sentence-transformers.

`head.skops` is a LogisticRegression over fixed options. Of words alone it stands behind their features, as one Pipeline
that reads texts; beside an encoder the features are `words.skops`, and the head reads the vectors and then the words.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from training.engine.classifiers.flat import Layer
from training.engine.classifiers.policy import Classifier
from training.engine.classifiers.words import BITS, KINDS, LONGEST, Words, make_hashers
from training.engine.export.classifier_onnx import SHORTEN, find_encoder, find_longest
from training.engine.spec.refused import Refused

HEAD, WORDS, ENCODER = "head.skops", "words.skops", "encoder"


def write(classifier: Classifier, layer: Layer, folder: Path) -> dict[str, Any]:
    """Raises Refused for a single option, which scikit-learn's classifiers do not know."""
    import skops.io
    from sklearn.pipeline import make_pipeline

    if len(layer.options) < 2:
        raise Refused("scikit-learn's classifiers have at least two options")
    head = _make_head(layer)
    encoder = find_encoder(classifier)
    if classifier.words is not None and encoder is None:
        skops.io.dump(make_pipeline(make_features(classifier.words), head), folder / HEAD)
        return {"options": len(layer.options)}
    assert encoder is not None
    if classifier.words is not None:
        skops.io.dump(make_features(classifier.words), folder / WORDS)
    skops.io.dump(head, folder / HEAD)
    encoder.model.save_pretrained(str(folder / ENCODER), create_model_card=False)
    return {"options": len(layer.options)}


def _make_head(layer: Layer) -> Any:
    from sklearn.linear_model import LogisticRegression

    weights = np.concatenate([part for part in (layer.encoder, layer.words) if part is not None]).T
    bias = layer.bias
    if len(layer.options) == 2:  # of two classes scikit-learn keeps the difference
        weights, bias = weights[1:] - weights[:1], bias[1:] - bias[:1]
    head = LogisticRegression()
    head.classes_ = np.array(layer.options)
    head.coef_, head.intercept_, head.n_features_in_ = np.ascontiguousarray(weights), bias, weights.shape[1]
    return head


def make_features(words: Words) -> Any:
    """scikit-learn's own steps from texts to `Words.transform`: (n, f) sparse."""
    from sklearn.feature_extraction.text import TfidfTransformer
    from sklearn.feature_selection import VarianceThreshold
    from sklearn.pipeline import make_pipeline, make_union

    def of_kind(kind: str) -> Any:
        kept = words.kept[kind]
        weigh, select = TfidfTransformer(sublinear_tf=True), VarianceThreshold()
        weigh.idf_ = np.zeros(1 << BITS, dtype=np.float32)
        weigh.idf_[kept] = words.rarity[kind]
        select.variances_, select.n_features_in_ = np.zeros(1 << BITS), 1 << BITS
        select.variances_[kept] = 1.0  # those that training saw pass, all others are none of the head's columns
        return make_pipeline(make_hashers()[kind], weigh, select)

    return make_union(*(of_kind(kind) for kind in KINDS))


def tell_use(classifier: Classifier) -> list[str]:
    """Lines of Python that serve the folder; they define `decide(text)`."""
    has_encoder, has_words = classifier.encoder is not None, classifier.words is not None
    lines = ["from pathlib import Path", ""]
    if has_encoder and has_words:
        lines.append("import numpy as np")
    lines.append("import skops.io")
    if has_encoder:
        lines.append("from sentence_transformers import SentenceTransformer")
    lines += ["", 'FOLDER = Path("THIS FOLDER")', f'head = skops.io.load(FOLDER / "{HEAD}")']
    if has_encoder:
        lines.append(f'encoder = SentenceTransformer(str(FOLDER / "{ENCODER}"), device="cpu")')
        if has_words:
            lines.append(f'words = skops.io.load(FOLDER / "{WORDS}")')
    lines += [*SHORTEN, "", "", "def decide(text):", '    """Each option with its probability."""']
    features = f"[shorten(text, {LONGEST})]"
    if (encoder := find_encoder(classifier)) is not None:
        short = f"[shorten(text, {find_longest(encoder)})]"
        lines.append(f"    vectors = encoder.encode({short}, normalize_embeddings=True)")
        if has_words:
            lines.append(f"    vectors = np.hstack([vectors, words.transform({features}).toarray()])")
        features = "vectors"
    return [
        *lines,
        f"    (probabilities,) = head.predict_proba({features})",
        "    return dict(zip(head.classes_.tolist(), probabilities.tolist()))",
    ]


def name_runtime() -> str:
    import sklearn

    return f"scikit-learn {sklearn.__version__}"
