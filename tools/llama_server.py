"""llama.cpp's own OpenAI-compatible server, in a process of its own, on a model that transformers has saved.

    python -m tools.llama_server MODEL.gguf NAME [PORT]

prints its address and serves until its input ends. For tests and benchmarks.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path


def write_gguf(folder: Path, target: Path) -> None:
    """The Qwen2-shaped model in `folder` as GGUF, in float32, with its vocabulary and chat template."""
    import numpy as np
    from gguf import MODEL_ARCH, GGUFWriter, LlamaFileType, SpecialVocab, TokenType, get_tensor_name_map
    from safetensors.numpy import load_file
    from transformers import AutoConfig, AutoTokenizer

    config, tokenizer = AutoConfig.from_pretrained(folder), AutoTokenizer.from_pretrained(folder)
    writer = GGUFWriter(target, "qwen2")
    writer.add_context_length(config.max_position_embeddings)
    writer.add_embedding_length(config.hidden_size)
    writer.add_block_count(config.num_hidden_layers)
    writer.add_feed_forward_length(config.intermediate_size)
    writer.add_head_count(config.num_attention_heads)
    writer.add_head_count_kv(config.num_key_value_heads)
    writer.add_layer_norm_rms_eps(config.rms_norm_eps)
    writer.add_rope_freq_base(config.rope_parameters["rope_theta"])
    writer.add_file_type(LlamaFileType.ALL_F32)
    words = {place: word for word, place in tokenizer.get_vocab().items()}
    added = tokenizer.added_tokens_decoder

    def kind(place: int) -> TokenType:
        if place not in words:
            return TokenType.UNUSED
        if place not in added:
            return TokenType.NORMAL
        return TokenType.CONTROL if added[place].special else TokenType.USER_DEFINED

    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("qwen2")
    writer.add_token_list([words.get(place, f"[unused {place}]") for place in range(config.vocab_size)])
    writer.add_token_types([kind(place) for place in range(config.vocab_size)])
    SpecialVocab(folder, load_merges=True).add_to_gguf(writer)
    names = get_tensor_name_map(MODEL_ARCH.QWEN2, config.num_hidden_layers)
    for name, tensor in load_file(folder / "model.safetensors").items():
        told = names.get_name(name, try_suffixes=(".weight", ".bias"))
        if told is None:
            raise ValueError(f"{name} has no name in GGUF")
        writer.add_tensor(told, np.ascontiguousarray(tensor, dtype=np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


class LlamaServer:
    """Serves the file under `name` from when it is made. `process` may be stopped or killed; `url` ends in /v1."""

    def __init__(self, model: Path, name: str, port: int = 0) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tools.llama_server", str(model), name, str(port)],
            cwd=Path(__file__).resolve().parents[1],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        assert self.process.stdout is not None
        self.origin = self.process.stdout.readline().strip()
        self.url = f"{self.origin}/v1"

    def stop(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        for pipe in (self.process.stdin, self.process.stdout):
            if pipe is not None:
                pipe.close()


def main(model: str, name: str, port: str = "0") -> None:
    import xllamacpp

    params = xllamacpp.CommonParams()
    params.model.path, params.model_alias = model, [name]
    params.n_ctx, params.n_parallel, params.port = 2048, 4, int(port)
    params.warmup = params.cache_prompt = False
    params.cpuparams.n_threads = 1
    server = xllamacpp.Server(params)
    sys.stdout.write(f"{server.listening_address}\n")
    sys.stdout.flush()
    sys.stdin.read()


if __name__ == "__main__":
    main(*sys.argv[1:])
