"""Sentence encoders as graphs of ONNX: what is traced, and what has to be known beside the graph.

A graph reads `input_ids` and `attention_mask` (batch, tokens), both int64, and begins with the encoder as
sentence-transformers runs it, with its pooling. Texts become tokens by the encoder's own tokenizer.
"""

from __future__ import annotations

import logging
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path

import torch
from tokenizers import Tokenizer
from torch import Tensor, nn

from training.engine.classifiers.encoders import Encoder
from training.engine.spec.refused import Refused

TOKENS = ("input_ids", "attention_mask")


class EncoderGraph(nn.Module):
    """(batch, tokens) twice → (batch, d), each row of length 1."""

    def __init__(self, encoder: Encoder) -> None:
        super().__init__()
        self.model = encoder.model

    def forward(self, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
        read = self.model({"input_ids": input_ids, "attention_mask": attention_mask})
        return nn.functional.normalize(read["sentence_embedding"], dim=1)


def find_tokenizer(encoder: Encoder) -> Tokenizer:
    """The encoder's tokenizer, which cuts texts where the encoder does and pads none. Raises Refused where it has none
    of the library `tokenizers`."""
    backend = getattr(getattr(encoder.model, "tokenizer", None), "backend_tokenizer", None)
    if backend is None:
        raise Refused("the encoder's tokenizer is not one of the library tokenizers")
    tokenizer = Tokenizer.from_str(backend.to_str())
    if encoder.model.max_seq_length is not None:
        tokenizer.enable_truncation(int(encoder.model.max_seq_length))
    tokenizer.no_padding()
    return tokenizer


def find_prefix(encoder: Encoder) -> str:
    """What the encoder puts before every text by its author's default; "" for most."""
    name = getattr(encoder.model, "default_prompt_name", None)
    return str(encoder.model.prompts.get(name) or "") if name else ""


def example_tokens() -> dict[str, Tensor]:
    """Two texts of different length: a tracer would take what all rows share for a constant."""
    ids = torch.ones(2, 7, dtype=torch.long)
    mask = torch.ones_like(ids)
    mask[1, 5:] = 0
    return {"input_ids": ids, "attention_mask": mask}


def trace(
    module: nn.Module,
    inputs: Mapping[str, Tensor],
    outputs: Sequence[str],
    axes: Mapping[str, dict[int, str]],
    to: Path,
) -> None:
    """Writes the module's graph. `axes`: of inputs and outputs those whose length may differ. Raises Refused where
    torch cannot trace it.

    By torch's older exporter, in a tenth of the time of the newer one and without onnxscript.
    """
    logging.getLogger("torch.onnx").setLevel(logging.ERROR)
    try:
        with torch.no_grad(), warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the tracer's own, and those of its next versions
            torch.onnx.export(
                module.eval(),
                tuple(inputs.values()),
                str(to),
                dynamo=False,
                verbose=False,
                input_names=list(inputs),
                output_names=list(outputs),
                dynamic_axes=dict(axes),
            )
    except Exception as error:  # whatever the tracer finds wrong with an encoder, of whichever class
        reason = (str(error).strip().splitlines() or [type(error).__name__])[0][:200]
        raise Refused(f"the encoder cannot be written as ONNX: {reason}") from error
