"""A classifier as one ONNX graph: the encoder, if it has one, and the head over fixed options.

With an encoder the graph reads `input_ids` and `attention_mask` (batch, tokens), int64; with words, for each kind of
them, hashed `…_places`, int64, and how often each is there, `…_counts`, float32, both (batch, features), where a count
of 0 fills a row up. It returns `logits` and `probabilities` (batch, options); a decision among some of the options is
the softmax of their logits.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from training.engine.classifiers.encoders import CHARACTERS_A_TOKEN, Encoder
from training.engine.classifiers.flat import Layer
from training.engine.classifiers.policy import Classifier
from training.engine.classifiers.tracing import EncoderGraph, example_tokens, find_prefix, find_tokenizer, trace
from training.engine.classifiers.words import BITS, KINDS, LONGEST, Words

GRAPH, OPTIONS, TOKENIZER = "model.onnx", "options.json", "tokenizer.json"
HASHERS = {"words": "ngram_range=(1, 2)", "pieces": 'analyzer="char_wb", ngram_range=(2, 4)'}
"""What tells the kinds of hashed features apart, as scikit-learn's HashingVectorizer takes it."""


class _OfWords(nn.Module):
    """Hashed counts of one kind → what they add to the logits."""

    rarity: Tensor
    row: Tensor
    weights: Tensor

    def __init__(self, words: Words, kind: str, weights: np.ndarray) -> None:
        super().__init__()
        kept = torch.from_numpy(words.kept[kind])
        rarity, row = torch.zeros(1 << BITS), torch.zeros(1 << BITS, dtype=torch.long)
        rarity[kept], row[kept] = torch.from_numpy(words.rarity[kind]), torch.arange(len(kept))
        self.register_buffer("rarity", rarity)
        self.register_buffer("row", row)
        self.register_buffer("weights", torch.from_numpy(np.ascontiguousarray(weights)))

    def forward(self, places: Tensor, counts: Tensor) -> Tensor:
        weighed = torch.where(counts > 0, 1 + counts.clamp(min=1).log(), 0.0) * self.rarity[places]
        weighed = weighed / weighed.square().sum(1, keepdim=True).sqrt().clamp(min=1e-12)
        return (weighed[:, None, :] @ self.weights[self.row[places]])[:, 0]


class _Graph(nn.Module):
    def __init__(self, classifier: Classifier, layer: Layer) -> None:
        super().__init__()
        self.encoder: EncoderGraph | None = None
        self.bias = nn.Parameter(torch.from_numpy(layer.bias))
        if (encoder := find_encoder(classifier)) is not None and layer.encoder is not None:
            self.encoder = EncoderGraph(encoder)
            self.of_vectors = nn.Parameter(torch.from_numpy(layer.encoder))
        self.of_words = nn.ModuleList()
        if classifier.words is not None and layer.words is not None:
            begin = 0
            for kind in KINDS:
                end = begin + len(classifier.words.kept[kind])
                self.of_words.append(_OfWords(classifier.words, kind, layer.words[begin:end]))
                begin = end

    def forward(self, *inputs: Tensor) -> tuple[Tensor, Tensor]:
        left, logits = list(inputs), self.bias
        if self.encoder is not None:
            logits = logits + self.encoder(left.pop(0), left.pop(0)) @ self.of_vectors
        for of_kind in self.of_words:
            logits = logits + of_kind(left.pop(0), left.pop(0))
        return logits, logits.softmax(1)


def write(classifier: Classifier, layer: Layer, folder: Path) -> dict[str, Any]:
    """Raises Refused for an encoder that torch cannot trace, or whose tokenizer no other program reads."""
    inputs: dict[str, Tensor] = example_tokens() if classifier.encoder is not None else {}
    axes = {name: {0: "batch", 1: "tokens"} for name in inputs}
    if (encoder := find_encoder(classifier)) is not None:
        find_tokenizer(encoder).save(str(folder / TOKENIZER))
    for kind in KINDS if classifier.words is not None else ():
        inputs |= {f"{kind}_places": torch.ones(2, 3, dtype=torch.long), f"{kind}_counts": torch.ones(2, 3)}
        axes |= {f"{kind}_{what}": {0: "batch", 1: kind} for what in ("places", "counts")}
    outputs = ("logits", "probabilities")
    axes |= {name: {0: "batch"} for name in outputs}
    trace(_Graph(classifier, layer), inputs, outputs, axes, folder / GRAPH)
    (folder / OPTIONS).write_text(json.dumps(layer.options, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")
    return {"options": len(layer.options)}


def tell_use(classifier: Classifier) -> list[str]:
    """Lines of Python that serve the folder; they define `decide(text)`."""
    lines = ["import json", "from pathlib import Path", "", "import numpy as np", "import onnxruntime"]
    if classifier.words is not None:
        lines.append("from sklearn.feature_extraction.text import HashingVectorizer")
    if classifier.encoder is not None:
        lines.append("from tokenizers import Tokenizer")
    lines += [
        "",
        'FOLDER = Path("THIS FOLDER")',
        f'options = json.loads((FOLDER / "{OPTIONS}").read_text(encoding="utf-8"))',
        f'session = onnxruntime.InferenceSession(FOLDER / "{GRAPH}")',
    ]
    if classifier.encoder is not None:
        lines.append(f'tokenizer = Tokenizer.from_file(str(FOLDER / "{TOKENIZER}"))')
    if classifier.words is not None:
        shared = f"n_features={1 << BITS}, alternate_sign=False, norm=None"
        hashers = [f'    "{kind}": HashingVectorizer({HASHERS[kind]}, {shared}),' for kind in KINDS]
        lines += ["hashers = {", *hashers, "}"]
    lines += [*SHORTEN, "", "", "def decide(text):", '    """Each option with its probability."""', "    inputs = {}"]
    if (encoder := find_encoder(classifier)) is not None:
        read = f"shorten(text, {find_longest(encoder)})"
        if prefix := find_prefix(encoder):
            read = f"{prefix!r} + {read}"
        lines += [
            f"    ids = np.array([tokenizer.encode({read}).ids])",
            '    inputs |= {"input_ids": ids, "attention_mask": np.ones_like(ids)}',
        ]
    if classifier.words is not None:
        lines += [
            "    for kind, hasher in hashers.items():",
            f"        counted = hasher.transform([shorten(text, {LONGEST})])",
            '        inputs[f"{kind}_places"] = counted.indices[None].astype(np.int64)',
            '        inputs[f"{kind}_counts"] = counted.data[None].astype(np.float32)',
        ]
    return [
        *lines,
        '    (probabilities,) = session.run(["probabilities"], inputs)',
        "    return dict(zip(options, probabilities[0].tolist()))",
    ]


SHORTEN = (
    "",
    "",
    "def shorten(text, longest):",
    '    """Without the middle of a long text, as the classifier learnt."""',
    '    return text if len(text) <= longest else f"{text[: longest // 2]} {text[-longest // 2 :]}"',
)


def find_encoder(classifier: Classifier) -> Encoder | None:
    """The encoder as torch runs it, which is what an export is loaded with."""
    assert classifier.encoder is None or isinstance(classifier.encoder, Encoder)
    return classifier.encoder


def find_longest(encoder: Encoder) -> int:
    """Characters of a text that the encoder is given."""
    return CHARACTERS_A_TOKEN * int(encoder.model.max_seq_length or 512)


def name_runtime() -> str:
    import onnxruntime

    return f"onnxruntime {onnxruntime.__version__}"
