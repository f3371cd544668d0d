"""A tokenizer in GGUF: tokens, their kinds, merges or scores, special tokens, the chat template.

llama.cpp knows a tokenizer by two words, `model` and `pre`. Both are read off the loaded tokenizer and not off the
family's name, and one that llama.cpp would split otherwise is refused. Whether the ids are then the same is for the
parity check to see, on hard strings.
"""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from gguf import GGUFWriter, TokenType

QWEN2_SPLIT = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
SPLITS: Mapping[str, str] = {
    QWEN2_SPLIT: "qwen2",
    QWEN2_SPLIT.replace(r"|\p{N}|", r"|\p{N}{1,3}|"): "llama-bpe",
}
"""Regular expression that splits a text before byte-level merges → llama.cpp's word for it."""
SPACE = "▁"
"""What stands for a space in the tokens of SentencePiece."""
UNMERGED = -1e6
"""Score of a token that no merge makes."""

NOT_NORMALISED = (
    "llama.cpp does not normalise texts to Unicode NFC, as this tokenizer does: texts in another form have other "
    "tokens there"
)
INSIDE_WORDS = (
    "some added tokens stand for whole words only, which GGUF cannot express: llama.cpp also finds them inside "
    "longer words"
)


@dataclass(frozen=True, slots=True)
class Vocabulary:
    """`model` and `pre` are llama.cpp's words: "gpt2" merges bytes by rank, "llama" pieces by score."""

    model: str
    pre: str
    tokens: list[str]
    kinds: list[TokenType]
    merges: list[str]
    scores: list[float]
    special: Mapping[str, int]
    flags: Mapping[str, bool]
    template: str | list[dict[str, str]] | None
    notes: tuple[str, ...]


def tokenizer_faults(tokenizer: Any) -> list[str]:
    """Why llama.cpp could not tokenise as this tokenizer does."""
    backend = json.loads(tokenizer.backend_tokenizer.to_str())
    model = backend["model"]
    if model["type"] != "BPE":
        return [f"a tokenizer of the type {model['type']} is not supported: BPE is"]
    if not model["byte_fallback"] and _split(backend) not in SPLITS:
        known = " and ".join(SPLITS.values())
        return [f"the tokenizer's splitting is not supported: {known} are, and SentencePiece's BPE"]
    return []


def unlike_reason(tokenizer: Any, text: str) -> str | None:
    """Why llama.cpp must have other tokens for this text than the tokenizer, for want of words in GGUF; None where it
    has the same."""
    normaliser = json.loads(tokenizer.backend_tokenizer.to_str())["normalizer"] or {}
    if normaliser.get("type") == "NFC" and not unicodedata.is_normalized("NFC", text):
        return NOT_NORMALISED
    alone = {token.content: token.single_word for token in tokenizer.added_tokens_decoder.values()}
    # Of the tokens that begin at one place the longest counts.
    longest_first = sorted(alone, key=len, reverse=True)
    for found in re.finditer("|".join(map(re.escape, longest_first)), text) if alone else ():
        before, after = text[: found.start()][-1:], text[found.end() :][:1]
        if alone[found[0]] and re.search(r"\w", before + after):
            return INSIDE_WORDS
    return None


def read_vocabulary(tokenizer: Any, rows: int) -> Vocabulary:
    """Of a tokenizer without faults, for a model with so many rows of embeddings. Rows without a token get one that is
    never found; a token without a row is left out, and named in the notes."""
    backend = json.loads(tokenizer.backend_tokenizer.to_str())
    by_score = bool(backend["model"]["byte_fallback"])
    places = {place: word for word, place in tokenizer.get_vocab().items()}
    added = tokenizer.added_tokens_decoder
    # llama.cpp looks for added tokens before it writes spaces as SPACE.
    tokens = [
        places[place].replace(SPACE, " ") if by_score and place in added else places.get(place, f"[unused {place}]")
        for place in range(rows)
    ]
    merges = [tuple(pair.split(" ")) if isinstance(pair, str) else tuple(pair) for pair in backend["model"]["merges"]]
    special = {name: getattr(tokenizer, f"{name}_token_id") for name in ("bos", "eos", "pad", "unk")}
    return Vocabulary(
        model="llama" if by_score else "gpt2",
        pre="default" if by_score else SPLITS[_split(backend)],
        tokens=tokens,
        kinds=[_kind(place, places, added, by_score, tokenizer.unk_token_id) for place in range(rows)],
        merges=[] if by_score else [" ".join(part.replace(" ", "Ġ") for part in pair) for pair in merges],
        scores=_scores(tokens, merges) if by_score else [],
        special={name: place for name, place in special.items() if place is not None and place < rows},
        flags=_flags(tokenizer, by_score),
        template=_template(tokenizer.chat_template),
        notes=tuple(_notes(backend, added, [word for place, word in places.items() if place >= rows])),
    )


def write_vocabulary(writer: GGUFWriter, vocabulary: Vocabulary) -> None:
    writer.add_tokenizer_model(vocabulary.model)
    writer.add_tokenizer_pre(vocabulary.pre)
    writer.add_token_list(vocabulary.tokens)
    writer.add_token_types(vocabulary.kinds)
    if vocabulary.merges:
        writer.add_token_merges(vocabulary.merges)
    if vocabulary.scores:
        writer.add_token_scores(vocabulary.scores)
    for name, place in vocabulary.special.items():
        getattr(writer, f"add_{name}_token_id")(place)
    writer.add_add_bos_token(vocabulary.flags["bos"])
    writer.add_add_eos_token(vocabulary.flags["eos"])
    writer.add_add_space_prefix(vocabulary.flags["space"])
    if vocabulary.template is not None:
        writer.add_chat_template(vocabulary.template)


def _split(backend: Mapping[str, Any]) -> str:
    """The regular expression of byte-level splitting; empty where there is another or none."""
    before = backend["pre_tokenizer"] or {}
    steps = before.get("pretokenizers", [before])
    kinds = [step.get("type") for step in steps]
    if kinds != ["Split", "ByteLevel"] or steps[1]["use_regex"] or steps[1]["add_prefix_space"]:
        return ""
    return str(steps[0]["pattern"].get("Regex", ""))


def _kind(place: int, places: Mapping[int, str], added: Mapping[int, Any], by_score: bool, unknown: Any) -> TokenType:
    if place not in places:
        return TokenType.UNUSED
    if by_score and place == unknown:
        return TokenType.UNKNOWN
    if place in added:
        return TokenType.CONTROL if added[place].special else TokenType.USER_DEFINED
    word = places[place]
    is_byte = by_score and len(word) == len("<0x00>") and word.startswith("<0x") and word.endswith(">")
    return TokenType.BYTE if is_byte else TokenType.NORMAL


def _scores(tokens: list[str], merges: list[tuple[str, ...]]) -> list[float]:
    """Higher is merged earlier: minus the rank of the first merge that makes the token."""
    ranks: dict[str, int] = {}
    for rank, pair in enumerate(merges):
        ranks.setdefault("".join(pair), rank)
    return [-float(ranks[token]) if token in ranks else UNMERGED for token in tokens]


def _flags(tokenizer: Any, by_score: bool) -> dict[str, bool]:
    """What the tokenizer puts around a text: its beginning-of-sequence and end tokens, a space before it."""
    whole, plain = tokenizer("a")["input_ids"], tokenizer("a", add_special_tokens=False)["input_ids"]
    first = tokenizer.convert_ids_to_tokens(plain[:1])
    return {
        "bos": len(whole) > len(plain) and whole[0] == tokenizer.bos_token_id,
        "eos": len(whole) > len(plain) and whole[-1] == tokenizer.eos_token_id,
        "space": by_score and bool(first) and first[0].startswith(SPACE),
    }


def _template(template: Any) -> str | list[dict[str, str]] | None:
    if isinstance(template, dict):
        return [{"name": name, "template": text} for name, text in template.items()]
    return None if template is None else str(template)


def _notes(backend: Mapping[str, Any], added: Mapping[int, Any], rowless: list[str]) -> list[str]:
    """What GGUF has no word for."""
    notes = []
    if rowless:
        notes.append(f"tokens that the model has no row of embeddings for are left out: {', '.join(sorted(rowless))}")
    if (backend["normalizer"] or {}).get("type") == "NFC":
        notes.append(NOT_NORMALISED)
    if any(token.single_word for token in added.values()):
        notes.append(INSIDE_WORDS)
    return notes
