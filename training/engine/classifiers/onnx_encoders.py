"""Sentence encoders run by onnxruntime: on a processor a text takes it about half of torch's time.

The model server converts an encoder when it loads it, where the extra `export` is installed. What is not the same in
both, or cannot be converted, is left to torch.
"""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from tokenizers import Tokenizer

from training.engine.classifiers.encoders import CHARACTERS_A_TOKEN, Encoder
from training.engine.classifiers.tracing import EncoderGraph, example_tokens, find_prefix, find_tokenizer, trace
from training.engine.classifiers.words import shorten
from training.engine.spec.refused import Refused

PACKAGES = ("onnx", "onnxruntime")
AT_ONCE = 8
"""Texts of a batch, which are of like length: padding costs as much as text."""
MOST_APART = 1e-5
"""Between numbers of a vector of length 1 by torch and by onnxruntime."""
COMPARED = ("a", "", "Book a flight to Oslo, please.", "ÜBER naïve café 你好 👍", "the invoice is due \n" * 500)


@dataclass(frozen=True, slots=True)
class OnnxEncoder:
    """As `Encoder`, without torch. `pad` is the token that fills a batch up, `prefix` stands before every text, and of
    one longer than `longest` characters the middle is left out."""

    session: Any
    tokenizer: Tokenizer
    pad: int
    prefix: str
    longest: int
    size: int
    parameters: int

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """(n, size), each row of length 1."""
        vectors = np.zeros((len(texts), self.size), dtype=np.float32)
        read = [self.prefix + shorten(text, self.longest) for text in texts]
        tokens = [encoded.ids for encoded in self.tokenizer.encode_batch(read)]
        order = sorted(range(len(texts)), key=lambda place: len(tokens[place]))
        for begin in range(0, len(order), AT_ONCE):
            places = order[begin : begin + AT_ONCE]
            ids = np.full((len(places), max(len(tokens[place]) for place in places)), self.pad, dtype=np.int64)
            mask = np.zeros_like(ids)
            for row, place in enumerate(places):
                ids[row, : len(tokens[place])], mask[row, : len(tokens[place])] = tokens[place], 1
            (vectors[places],) = self.session.run(None, {"input_ids": ids, "attention_mask": mask})
        return vectors


def convert(encoder: Encoder) -> OnnxEncoder:
    """The same encoder for onnxruntime, with one thread. Raises Refused with the reason why torch has to run it."""
    if missing := [name for name in PACKAGES if find_spec(name) is None]:
        raise Refused(f"{', '.join(missing)} not installed (make exports)")
    import onnxruntime

    settings = onnxruntime.SessionOptions()
    settings.intra_op_num_threads = settings.inter_op_num_threads = 1
    inputs = example_tokens()
    axes = {name: {0: "batch", 1: "tokens"} for name in inputs} | {"vectors": {0: "batch"}}
    with tempfile.TemporaryDirectory(prefix="reckoner-encoder-") as folder:
        graph = Path(folder) / "encoder.onnx"
        trace(EncoderGraph(encoder), inputs, ["vectors"], axes, graph)
        session = onnxruntime.InferenceSession(graph, sess_options=settings, providers=["CPUExecutionProvider"])
    converted = OnnxEncoder(
        session,
        find_tokenizer(encoder),
        int(encoder.model.tokenizer.pad_token_id or 0),
        find_prefix(encoder),
        CHARACTERS_A_TOKEN * int(encoder.model.max_seq_length or 512),
        encoder.size,
        encoder.parameters,
    )
    difference = float(np.abs(converted.embed(COMPARED) - encoder.embed(COMPARED)).max())
    if not difference <= MOST_APART:  # true for NaN as well
        raise Refused(f"its vectors differ by {difference:.2g} in onnxruntime")
    return converted
