"""Models in memory: bases and their adapters, loaded at first use; the least recently used are dropped.

Adapters sit in their base's layers (peft), so ten adapters cost one copy of the weights, and rows of different adapters
share a batch. What is `pinned` stays: answers grow from it. Used by the model thread alone; not thread-safe.
"""

from __future__ import annotations

import gc
import logging
from collections import OrderedDict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from peft import LoraConfig, PeftConfig, PeftModel
from safetensors import safe_open
from transformers.pytorch_utils import Conv1D

from training.engine.models.actions import ActionScorer, causal_of
from training.engine.models.adapters import BASE
from training.engine.models.chats import find_ends
from training.engine.models.loading import attach_adapter, load_model, load_tokenizer
from training.engine.models.prompts import PromptEncoder
from training.engine.models.targets import rows_and_columns
from training.engine.serving.artifacts import Artifact, ArtifactStore
from training.engine.serving.classifiers import ClassifierPool
from training.engine.serving.constraints import Grammars
from training.engine.serving.faults import Fault
from training.engine.serving.growing_text import UNFINISHED

log = logging.getLogger(__name__)

ENCODERS_KEPT = 16
CLASSIFIER = "classifier"


@dataclass(slots=True)
class LoadedBase:
    """A base in memory. `model` is a PeftModel while it holds adapters, the plain causal model otherwise."""

    artifact: Artifact
    model: Any
    tokenizer: Any
    scorer: ActionScorer
    positions: int
    ends: frozenset[int]
    vocabulary: int
    grammars: Grammars
    adapters: OrderedDict[str, None] = field(default_factory=OrderedDict)
    encoders: OrderedDict[int, PromptEncoder] = field(default_factory=OrderedDict)

    def rows(self, digests: Sequence[str]) -> list[str] | None:
        """`adapters_by_row`'s names for rows asked under these digests; None where no adapter is loaded."""
        if not isinstance(self.model, PeftModel):
            return None
        return [BASE if digest == self.artifact.digest else adapter_name(digest) for digest in digests]

    def decode(self, tokens: Sequence[int]) -> str:
        """Their text, without control tokens."""
        text: str = self.tokenizer.decode(list(tokens), skip_special_tokens=True, clean_up_tokenization_spaces=False)
        return text

    def bytes_of(self, token: int, text: str) -> bytes:
        """The bytes of a token with this text. A part of a character has bytes but no text; where the tokenizer cannot
        tell them, they are those of U+FFFD."""
        if UNFINISHED not in text:
            return text.encode()
        try:
            return self.grammars.bytes_of(token)
        except Fault:
            return text.encode()

    def encoder(self, max_prompt_tokens: int) -> PromptEncoder:
        """Prompts are cut to a length that belongs to the agent; encoders are kept by it."""
        encoder = self.encoders.get(max_prompt_tokens)
        if encoder is None:
            encoder = self.encoders[max_prompt_tokens] = PromptEncoder(self.tokenizer, max_prompt_tokens)
            if len(self.encoders) > ENCODERS_KEPT:
                self.encoders.popitem(last=False)
        self.encoders.move_to_end(max_prompt_tokens)
        return encoder


def adapter_name(digest: str) -> str:
    """The adapter's name inside peft: a valid module name, and no clash with a method of one."""
    return f"adapter_{digest}"


class ModelPool:
    """At most `max_bases` bases, each with at most `max_adapters` adapters."""

    def __init__(self, store: ArtifactStore, device: torch.device, *, max_bases: int, max_adapters: int) -> None:
        self.store = store
        self.device = device
        self.max_bases = max_bases
        self.max_adapters = max_adapters
        self.pinned: frozenset[str] = frozenset()
        self.classifiers = ClassifierPool(store, device)
        self._bases: OrderedDict[str, LoadedBase] = OrderedDict()

    def fits(self, digests: Iterable[str]) -> bool:
        """Whether all of them can be in memory beside what is pinned. True where nothing is pinned: they may come in
        parts then. What is unknown takes no room."""
        if not self.pinned:
            return True
        adapters: dict[str, set[str]] = {}
        for digest in {*digests, *self.pinned}:
            try:
                base = self.base_of(digest)
            except Fault:
                continue
            adapters.setdefault(base, set())
            if digest != base:
                adapters[base].add(digest)
        return len(adapters) <= self.max_bases and all(len(of) <= self.max_adapters for of in adapters.values())

    def base_of(self, digest: str) -> str:
        """The digest of the base that serves this model or adapter. Raises Fault, also for a classifier, which writes
        nothing."""
        artifact = self.store.find_served(digest)
        if artifact.kind == CLASSIFIER:
            raise Fault(
                "invalid_request", f"model {digest} is a classifier: it scores options, and writes none", "model"
            )
        return artifact.base or artifact.digest

    def find_classifier(self, digest: str) -> Artifact | None:
        """The artifact, where it is a classifier. Raises Fault."""
        artifact = self.store.find_served(digest)
        return artifact if artifact.kind == CLASSIFIER else None

    def is_resident(self, digest: str) -> bool:
        """Whether it can be used without loading or letting go of anything."""
        base = self._bases.get(digest)
        return base is not None or any(digest in loaded.adapters for loaded in self._bases.values())

    def resident(self) -> frozenset[str]:
        """Digests of everything in memory. One read of two dictionaries: other threads may ask."""
        bases = list(self._bases.items())
        adapters = {name for _, base in bases for name in list(base.adapters)}
        return frozenset(digest for digest, _ in bases) | adapters | self.classifiers.resident()

    def base(self, digest: str) -> LoadedBase:
        """The base with this digest, loaded and verified if need be. Raises Fault."""
        loaded = self._bases.get(digest)
        if loaded is None:
            loaded = self._load_base(digest)
            while len(self._bases) >= self.max_bases:
                gone = next(other for other in self._bases if other not in self.pinned)
                del self._bases[gone]
                log.info("let go of base %s", gone)
                gc.collect()  # its modules refer to each other, and would hold their memory until then
            self._bases[digest] = loaded
        self._bases.move_to_end(digest)
        return loaded

    def require_adapters(self, base: LoadedBase, digests: Iterable[str]) -> dict[str, Fault]:
        """Has these adapters (distinct, at most `max_adapters`) in memory together; the faults of those it cannot."""
        wanted = list(dict.fromkeys(digests))
        faults: dict[str, Fault] = {}
        # A failure may have cost the base its other adapters, so this is checked again each time.
        while missing := [digest for digest in wanted if digest not in base.adapters and digest not in faults]:
            try:
                self._load_adapter(base, missing[0], keep=wanted)
            except Fault as fault:
                faults[missing[0]] = fault
        for digest in wanted:
            if digest in base.adapters:
                base.adapters.move_to_end(digest)
        return faults

    def _load_base(self, digest: str) -> LoadedBase:
        artifact = self.store.find_served(digest)
        if artifact.kind != "model":
            raise _unusable(digest, f"it is a {artifact.kind}, not a base model")
        with self.store.reading(artifact):
            self._check(artifact)
            try:
                tokenizer = load_tokenizer(artifact.folder)
                model = load_model(artifact.folder, self.device)
                scorer = ActionScorer(tokenizer, 64, self.device)
            except Exception as error:
                # Whatever a library finds wrong with a folder, of whichever class, is the folder's fault.
                log.exception("artifact %s does not load", digest)
                raise _unusable(digest, _brief(error)) from error
        log.info("loaded base %s", digest)
        positions = int(getattr(model.config, "max_position_embeddings", None) or 2048)
        ends = find_ends(model, tokenizer)
        vocabulary = int(model.get_output_embeddings().weight.shape[0])
        grammars = Grammars(tokenizer, vocabulary, ends)
        return LoadedBase(artifact, model, tokenizer, scorer, positions, ends, vocabulary, grammars)

    def _load_adapter(self, base: LoadedBase, digest: str, *, keep: Sequence[str]) -> None:
        artifact = self.store.find_served(digest)
        if artifact.base != base.artifact.digest:
            raise Fault("artifact_unusable", f"adapter {digest} belongs to another base", "model")
        with self.store.reading(artifact):
            self._check(artifact)
            _check_fit(artifact, base.model)
            kept = self.pinned.union(keep)
            while len(base.adapters) >= self.max_adapters:
                self._drop_adapter(base, next(other for other in base.adapters if other not in kept))
            try:
                base.model = attach_adapter(base.model, artifact.folder, adapter_name(digest))
            except Exception as error:
                # The adapter is half attached and layers are changed in place, so the base is read again.
                log.exception("adapter %s does not attach", digest)
                with self.store.reading(base.artifact):
                    base.model = load_model(base.artifact.folder, self.device)
                base.adapters.clear()
                raise _unusable(digest, _brief(error)) from error
        base.adapters[digest] = None
        log.info("loaded adapter %s of base %s", digest, base.artifact.digest)

    def _drop_adapter(self, base: LoadedBase, digest: str) -> None:
        del base.adapters[digest]
        if base.adapters:
            # peft serves the bare base, silently, while its active adapter is one that was deleted.
            base.model.set_adapter(adapter_name(next(iter(base.adapters))))
            base.model.delete_adapter(adapter_name(digest))
        else:
            base.model = base.model.unload()
        log.info("let go of adapter %s", digest)

    def _check(self, artifact: Artifact) -> None:
        """Every byte as stored, and no weights that would have to be unpickled."""
        self.store.verify(artifact)
        if not any(name.endswith(".safetensors") for name in artifact.files):
            raise _unusable(artifact.digest, "it has no safetensors")


def _check_fit(artifact: Artifact, model: Any) -> None:
    """Raises Fault unless this is plain LoRA whose every tensor has its layer in the base, in the right shape.

    peft drops tensors that fit nowhere with no more than a warning, and the base would answer under the adapter's name.
    """
    try:
        config = PeftConfig.from_pretrained(str(artifact.folder))
        with safe_open(artifact.folder / "adapter_model.safetensors", framework="pt") as opened:
            shapes = {name: tuple(opened.get_slice(name).get_shape()) for name in opened.keys()}  # noqa: SIM118 - no dict
    except Exception as error:  # a foreign folder may be wrong in any way
        raise _unusable(artifact.digest, _brief(error)) from error
    plain = isinstance(config, LoraConfig) and not (
        config.use_dora
        or config.modules_to_save
        or config.bias != "none"
        or getattr(config, "alora_invocation_tokens", None)
    )
    if not plain:
        raise _unusable(artifact.digest, "only plain LoRA adapters can share a batch")
    linear = {
        name.removesuffix(".base_layer"): rows_and_columns(module)
        for name, module in causal_of(model).named_modules()
        if isinstance(module, torch.nn.Linear | Conv1D) and ".lora_" not in name
    }
    for name, shape in shapes.items():
        layer, _, part = name.removeprefix("base_model.model.").rpartition(".lora_")
        rows_columns = linear.get(layer)
        expected = {
            "A.weight": (shape[0], (rows_columns or (0, 0))[1]),
            "B.weight": ((rows_columns or (0, 0))[0], shape[-1]),
        }
        if rows_columns is None or shape != expected.get(part):
            raise _unusable(artifact.digest, f"its tensor {name} {list(shape)} has no place in the base")
    if not shapes:
        raise _unusable(artifact.digest, "it holds no tensors")


def _unusable(digest: str, why: str) -> Fault:
    return Fault("artifact_unusable", f"artifact {digest} cannot be served: {why}", "model")


def _brief(error: Exception) -> str:
    """The first line of what a library says, without this machine's paths being much of it."""
    return (str(error).strip().splitlines() or [type(error).__name__])[0][:200]
