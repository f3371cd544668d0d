"""A sentence encoder small enough to be made on the spot: BERT's shape, random weights, words of a few letters."""

from __future__ import annotations

import string
from pathlib import Path


def make_encoder(folder: Path, seed: int = 0) -> Path:
    """A folder of sentence-transformers: the mean over a text's tokens, of length 1."""
    import torch
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.sentence_transformer.modules import Normalize, Pooling, Transformer
    from tokenizers import Tokenizer, normalizers, pre_tokenizers, processors
    from tokenizers.models import WordPiece
    from transformers import BertConfig, BertModel, PreTrainedTokenizerFast

    pairs = [a + b for a in string.ascii_lowercase for b in string.ascii_lowercase]
    whole = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", *string.ascii_lowercase, *pairs]
    vocabulary = {token: place for place, token in enumerate([*whole, *(f"##{token}" for token in whole[4:])])}
    tokenizer = Tokenizer(WordPiece(vocabulary, unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=True)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )
    wrapped = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, pad_token="[PAD]", unk_token="[UNK]", cls_token="[CLS]", sep_token="[SEP]"
    )
    torch.manual_seed(seed)
    config = BertConfig(
        vocab_size=len(vocabulary), hidden_size=64, num_hidden_layers=1, num_attention_heads=2, intermediate_size=64,
        max_position_embeddings=128, initializer_range=0.5,
    )  # fmt: skip
    plain = folder.with_name(f"{folder.name}-plain")
    BertModel(config).save_pretrained(plain)
    wrapped.save_pretrained(plain)
    model = SentenceTransformer(
        modules=[Transformer(str(plain), max_seq_length=128), Pooling(64), Normalize()], device="cpu"
    )
    model.save_pretrained(str(folder), create_model_card=False)
    return folder
