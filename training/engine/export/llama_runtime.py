"""Loads a GGUF file in llama.cpp, by the C functions in xllamacpp's wheel: the runtime that parity is measured in.

Its server would give the probabilities of the last token alone, and rounded. The two structures of parameters are taken
as the library fills them; only their first numbers are changed, after a look whether they are what this file takes them
for. All else goes by pointers and numbers.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from functools import cache
from importlib.metadata import version
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from training.engine.export.llama_library import LibraryMissing, library_fault, llama_library

DEFAULTS = (512, 2048, 512, 1)
"""Of llama_context_params: n_ctx, n_batch, n_ubatch, n_seq_max."""
OUTPUTS = 5
"""Place of n_outputs_max in it; the next is that of a sequence. Then come two numbers of threads."""
DECODE = 1
LOG = ctypes.CFUNCTYPE(None, ctypes.c_int, ctypes.c_char_p, ctypes.c_void_p)
ERRORS = 4
"""llama.cpp's level of a message that is an error."""


class Opaque(ctypes.Structure):
    """A structure that goes by value and is longer than any that the library fills or takes."""

    _fields_ = [("words", ctypes.c_uint32 * 256)]


_pointer, _int, _bool, _text = ctypes.c_void_p, ctypes.c_int32, ctypes.c_bool, ctypes.c_char_p
FUNCTIONS: dict[str, tuple[Any, ...]] = {
    "llama_backend_init": (None,),
    "llama_log_set": (None, LOG, _pointer),
    "llama_model_default_params": (Opaque,),
    "llama_model_load_from_file": (_pointer, _text, Opaque),
    "llama_model_free": (None, _pointer),
    "llama_model_get_vocab": (_pointer, _pointer),
    "llama_vocab_n_tokens": (_int, _pointer),
    "llama_tokenize": (_int, _pointer, _text, _int, ctypes.POINTER(_int), _int, _bool, _bool),
    "llama_context_default_params": (Opaque,),
    "llama_init_from_model": (_pointer, _pointer, Opaque),
    "llama_free": (None, _pointer),
    "llama_batch_ext_init": (_pointer, _pointer),
    "llama_batch_ext_free": (None, _pointer),
    "llama_batch_ext_add_token": (_int, _pointer, _int, _int),
    "llama_batch_ext_set_pos": (_bool, _pointer, _int, ctypes.POINTER(_int)),
    "llama_batch_ext_set_output_logits": (_bool, _pointer, _int, _bool),
    "llama_process": (_int, _pointer, ctypes.c_int, _pointer),
    "llama_get_logits_ith": (ctypes.POINTER(ctypes.c_float), _pointer, _int),
}
"""Name → what it returns, then what it takes."""


class LlamaError(RuntimeError):
    """llama.cpp refused a file or a batch; the message has what it said."""


def runtime_fault() -> str | None:
    """Why no GGUF file can be loaded here, and what to install; None where one can."""
    return library_fault(*FUNCTIONS)


@cache
def _functions() -> dict[str, Any]:
    if fault := runtime_fault():
        raise LibraryMissing(fault)
    library, found = llama_library(), {}
    for name, (returned, *taken) in FUNCTIONS.items():
        function = library[name]
        function.restype, function.argtypes = returned, taken
        found[name] = function
    found["llama_log_set"](_on_log, None)
    found["llama_backend_init"]()
    return found


_said: list[str] = []


def _keep_error(level: int, text: bytes, _: Any) -> None:
    if level == ERRORS:
        _said.append(text.decode(errors="replace").strip())


_on_log = LOG(_keep_error)
"""Kept here: the library calls it for as long as the process lives."""


class LlamaRuntime:
    """A model in the file's own types, on the CPU, one thread unless more are given. Use it in `with`.

    The cache of keys and values is in F16, as in llama.cpp's server. Raises LibraryMissing, and LlamaError for a file
    that can't be loaded.
    """

    def __init__(self, path: Path, *, threads: int = 1) -> None:
        self._call = _functions()
        self._threads = threads
        self._model: int | None = self._load(path)
        self._vocabulary = self._call["llama_model_get_vocab"](self._model)
        self.vocabulary = int(self._call["llama_vocab_n_tokens"](self._vocabulary))
        self.name = f"llama.cpp in xllamacpp {version('xllamacpp')}"

    def _load(self, path: Path) -> int:
        _said.clear()
        found = self._call["llama_model_load_from_file"](str(path).encode(), self._call["llama_model_default_params"]())
        if not found:
            raise LlamaError(f"llama.cpp can't load {path}: {'; '.join(_said) or 'it does not say why'}")
        return int(found)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Gives the memory back; a second time does nothing."""
        if self._model is not None:
            self._call["llama_model_free"](self._model)
            self._model = None

    def token_ids(self, text: str) -> list[int]:
        """Control tokens in the text are found; none is put around it."""
        content = text.encode()
        room = len(content) + 8
        while True:
            ids = (ctypes.c_int32 * room)()
            count = self._call["llama_tokenize"](self._vocabulary, content, len(content), ids, room, False, True)
            if count >= 0:
                return list(ids[:count])
            room = -count

    def logits(self, ids: Sequence[int]) -> NDArray[np.float32]:
        """[len(ids), vocabulary]: what follows each of the tokens. Each call starts an empty context of that length.

        Raises ValueError for no tokens or one outside the vocabulary.
        """
        if not ids or not all(0 <= token < self.vocabulary for token in ids):
            raise ValueError(f"logits need at least one token, each from 0 to {self.vocabulary - 1}")
        context = self._context(len(ids))
        batch = self._call["llama_batch_ext_init"](context)
        try:
            self._fill(batch, ids)
            _said.clear()
            code = self._call["llama_process"](context, DECODE, batch)
            if code != 0:
                raise LlamaError(f"llama.cpp could not run {len(ids)} tokens: code {code}; {'; '.join(_said)}")
            rows = np.empty((len(ids), self.vocabulary), dtype=np.float32)
            for place in range(len(ids)):
                found = self._call["llama_get_logits_ith"](context, place)
                if not found:
                    raise LlamaError(f"llama.cpp gave no logits for token {place}")
                rows[place] = np.ctypeslib.as_array(found, (self.vocabulary,))
            return rows
        finally:
            self._call["llama_batch_ext_free"](batch)
            self._call["llama_free"](context)

    def _fill(self, batch: int, ids: Sequence[int]) -> None:
        for place, token in enumerate(ids):
            index = self._call["llama_batch_ext_add_token"](batch, 0, token)
            placed = index == place and self._call["llama_batch_ext_set_pos"](
                batch, index, ctypes.byref(ctypes.c_int32(place))
            )
            if not placed or not self._call["llama_batch_ext_set_output_logits"](batch, index, True):
                raise LlamaError(f"llama.cpp takes no token {token} at place {place} of a batch: {index}")

    def _context(self, length: int) -> int:
        params = self._call["llama_context_default_params"]()
        words = params.words
        if tuple(words[: len(DEFAULTS)]) != DEFAULTS or words[OUTPUTS + 2] != words[OUTPUTS + 3]:
            raise LlamaError("the installed xllamacpp has llama.cpp's parameters in an unknown order")
        words[0] = words[1] = words[2] = length
        words[OUTPUTS] = words[OUTPUTS + 1] = length
        words[OUTPUTS + 2] = words[OUTPUTS + 3] = self._threads
        found = self._call["llama_init_from_model"](self._model, params)
        if not found:
            raise LlamaError(f"llama.cpp has no room for a context of {length} tokens: {'; '.join(_said)}")
        return int(found)
