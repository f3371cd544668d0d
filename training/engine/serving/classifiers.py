"""Classifiers in memory, and the encoders that they share. Used by the model thread alone; not thread-safe.

A head is kilobytes to megabytes, so many are kept; an encoder is tens to hundreds of megabytes, so few are. They take
no room from the bases of language models.
"""

from __future__ import annotations

import logging
from collections import OrderedDict

import torch

from training.engine.classifiers.encoders import BadEncoder, Embedder, Encoder, load_encoder
from training.engine.classifiers.onnx_encoders import convert
from training.engine.classifiers.policy import BadClassifier, Classifier, read_classifier
from training.engine.serving.artifacts import Artifact, ArtifactStore
from training.engine.serving.faults import Fault
from training.engine.spec.refused import Refused

log = logging.getLogger(__name__)

MOST_ENCODERS, MOST_CLASSIFIERS = 4, 64


class ClassifierPool:
    """At most so many classifiers and encoders; the least recently used are dropped."""

    def __init__(self, store: ArtifactStore, device: torch.device) -> None:
        self._store = store
        self._device = device
        self._encoders: OrderedDict[str, Embedder] = OrderedDict()
        self._classifiers: OrderedDict[str, Classifier] = OrderedDict()

    def resident(self) -> frozenset[str]:
        """Digests of the classifiers in memory."""
        return frozenset(list(self._classifiers))

    def get(self, artifact: Artifact) -> Classifier:
        """The classifier, loaded and verified if need be. Raises Fault."""
        loaded = self._classifiers.get(artifact.digest)
        if loaded is None:
            loaded = self._classifiers[artifact.digest] = self._load(artifact)
            if len(self._classifiers) > MOST_CLASSIFIERS:
                self._classifiers.popitem(last=False)
            log.info("loaded classifier %s", artifact.digest)
        self._classifiers.move_to_end(artifact.digest)
        return loaded

    def _load(self, artifact: Artifact) -> Classifier:
        encoder = self._encoder(artifact.base) if artifact.base is not None else None
        with self._store.reading(artifact):
            self._store.verify(artifact)
            try:
                return read_classifier(artifact.folder, encoder)
            except BadClassifier as error:
                raise _unusable(artifact.digest, error) from error

    def _encoder(self, digest: str) -> Embedder:
        loaded = self._encoders.get(digest)
        if loaded is None:
            artifact = self._store.find(digest)
            with self._store.reading(artifact):
                self._store.verify(artifact)
                try:
                    loaded = self._convert(digest, load_encoder(artifact.folder, self._device))
                except BadEncoder as error:
                    raise _unusable(digest, error) from error
            self._encoders[digest] = loaded
            if len(self._encoders) > MOST_ENCODERS:
                self._encoders.popitem(last=False)
            log.info("loaded encoder %s", digest)
        self._encoders.move_to_end(digest)
        return loaded

    def _convert(self, digest: str, encoder: Encoder) -> Embedder:
        """For onnxruntime on a processor, if that gives the same vectors; else as it is."""
        if self._device.type != "cpu":
            return encoder
        try:
            return convert(encoder)
        except Refused as reason:
            log.info("encoder %s is run by torch: %s", digest, reason)
            return encoder


def _unusable(digest: str, error: Exception) -> Fault:
    return Fault("artifact_unusable", f"artifact {digest} cannot be served: {str(error)[:300]}", "model")
