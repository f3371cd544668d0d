"""Models: loading folders, making the tiny model, LoRA, saving, and the hash of the weights.

Called by the entry point, the training methods, the evaluation and the model server. Folders hold everything (weights
as safetensors, tokenizer, chat template), and nothing here unpickles.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from peft import LoraConfig, PeftModel, get_peft_model
from peft.tuners.tuners_utils import BaseTunerLayer
from safetensors import safe_open
from tokenizers import Tokenizer, decoders, pre_tokenizers, trainers
from tokenizers import models as token_models
from torch import Tensor, nn
from transformers import AutoModelForCausalLM, AutoTokenizer, PreTrainedTokenizerFast, Qwen2Config, Qwen2ForCausalLM
from transformers.models.qwen2.tokenization_qwen2 import Qwen2Tokenizer
from transformers.pytorch_utils import Conv1D
from transformers.utils import logging as transformers_logging

from training.engine.machine.hardware import frozen_dtype
from training.engine.models.chats import plain_template
from training.engine.models.less_memory import four_bits
from training.engine.models.option_tokens import MANY_OPTIONS, add_option_tokens, as_tokens
from training.engine.models.targets import choose_targets
from training.engine.spec.architectures import read_model_type
from training.engine.spec.run_spec import ModelSource, TinyShape
from training.engine.spec.settings import Lora

PAD, END = "<|pad|>", "<|end|>"
ROLES = ("<|system|>", "<|user|>", "<|assistant|>", "<|tool|>")
CHAT_TEMPLATE = (
    "{% for message in messages %}{{ '<|' + message['role'] + '|>' + message['content'] + '<|end|>' }}{% endfor %}"
    "{% if add_generation_prompt %}<|assistant|>{% endif %}"
)
ADAPTER = "default"


def silence_progress_bars() -> None:
    """No progress bars of the libraries: the engine's events speak, and standard error is for faults."""
    transformers_logging.disable_progress_bar()  # type: ignore[no-untyped-call]
    transformers_logging.set_verbosity_error()  # type: ignore[no-untyped-call]


@dataclass(frozen=True, slots=True)
class Loaded:
    """A model on its device with its tokenizer. `model` is a PeftModel when an adapter is in training.

    `plain_template`: its folder holds no chat template, so it got a plain one. `source`: where it was read from, None
    of one that was made here.
    """

    model: Any
    tokenizer: Any
    plain_template: bool = False
    source: ModelSource | None = None

    @property
    def adapts(self) -> bool:
        return isinstance(self.model, PeftModel)


def build_tokenizer(texts: Iterable[str], options: Sequence[str], vocabulary: int) -> Any:
    """Byte-level BPE trained on the spot. Options are repeated so that each becomes few tokens; very many become one
    token each, on top of `vocabulary`: a trie of hundreds of nodes behind every prompt would cost more than the prompt.

    Normaliser and splitting are Qwen2's own: a folder that says Qwen2 is opened with them, whatever its
    tokenizer.json holds, and so the ids stay those of the training.
    """
    qwen = Qwen2Tokenizer().backend_tokenizer
    tokenizer = Tokenizer(token_models.BPE())
    tokenizer.normalizer = qwen.normalizer
    tokenizer.pre_tokenizer = qwen.pre_tokenizer
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=vocabulary,
        special_tokens=[PAD, END, *ROLES],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator([*texts, *(option for option in options for _ in range(20))], trainer)
    wrapped: Any = PreTrainedTokenizerFast(  # type: ignore[no-untyped-call]
        tokenizer_object=tokenizer, pad_token=PAD, eos_token=END, extra_special_tokens=list(ROLES), padding_side="left"
    )
    wrapped.chat_template = CHAT_TEMPLATE
    if len(options) > MANY_OPTIONS:
        wrapped.add_tokens(as_tokens(options))
    return wrapped


def build_tiny(shape: TinyShape, tokenizer: Any) -> Any:
    """A fresh Qwen2 of this shape, initialised from torch's generator."""
    config = Qwen2Config(
        vocab_size=len(tokenizer),
        hidden_size=shape.hidden,
        num_hidden_layers=shape.layers,
        num_attention_heads=shape.heads,
        num_key_value_heads=shape.key_value_heads,
        intermediate_size=3 * shape.hidden,
        max_position_embeddings=shape.max_positions,
        initializer_range=shape.initializer_range,
        tie_word_embeddings=True,
        bos_token_id=None,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
    )
    return Qwen2ForCausalLM(config)


def load_tokenizer(path: str | Path) -> Any:
    """Left-padding for generation; an end-of-sequence token doubles as padding where there is none, and a plain chat
    template stands in for a missing one. Raises ValueError without an end-of-sequence token."""
    return _load_tokenizer(path)[0]


def _load_tokenizer(path: str | Path) -> tuple[Any, bool]:
    """The tokenizer, and whether its chat template is the plain one because it had none."""
    tokenizer = AutoTokenizer.from_pretrained(path, padding_side="left")
    if tokenizer.eos_token_id is None:
        raise ValueError(f"the tokenizer of {path} has no end-of-sequence token, so no answer could end")
    if tokenizer.pad_token_id is None:
        tokenizer.pad_token = tokenizer.eos_token
    lacks_template = not tokenizer.chat_template
    if lacks_template:
        tokenizer.chat_template = plain_template(tokenizer)
    return tokenizer, lacks_template


def load_model(path: str | Path, device: torch.device, dtype: torch.dtype | None = None) -> Any:
    """A causal language model in eval mode, in `dtype` or what suits frozen weights on this device. Safetensors only:
    other weights are pickles, which run what is in them. Raises OSError where there are none."""
    model: Any = AutoModelForCausalLM.from_pretrained(
        path, dtype=dtype or _frozen_dtype(path, device), use_safetensors=True, trust_remote_code=False
    )
    return model.to(device).eval()


def _frozen_dtype(path: str | Path, device: torch.device) -> torch.dtype:
    """What suits frozen weights of this folder's model on the device."""
    return frozen_dtype(device, read_model_type(Path(path)))


def load_quantised(path: str | Path, device: torch.device) -> Any:
    """Like `load_model`, with the layers' weights in 4 bits. They are put on the device as they are read."""
    precision = _frozen_dtype(path, device)
    model: Any = AutoModelForCausalLM.from_pretrained(
        path,
        dtype=precision,
        quantization_config=four_bits(precision),
        device_map={"": device},
        use_safetensors=True,
        trust_remote_code=False,
    )
    return model.eval().requires_grad_(False)


def attach_adapter(model: Any, path: str | Path, name: str, *, trainable: bool = False) -> PeftModel:
    """Adds the adapter in `path` as `name` and returns the peft model, which holds the base's own weights.

    The first call wraps the base (and changes its layers in place), later ones add to the wrapper. Names
    must not contain a dot. Raises FileNotFoundError without safetensors, as peft would take a pickle then.
    """
    if not (Path(path) / "adapter_model.safetensors").is_file():
        raise FileNotFoundError(f"{path} holds no adapter_model.safetensors")
    if isinstance(model, PeftModel):
        model.load_adapter(str(path), adapter_name=name, is_trainable=trainable)
        return model
    return PeftModel.from_pretrained(model, str(path), adapter_name=name, is_trainable=trainable).eval()


def load_source(source: ModelSource, device: torch.device) -> Loaded:
    """The model a spec names, for inference: the base, under its adapter if there is one."""
    if source.path is None:
        raise ValueError("a tiny shape has no weights to load")
    model = load_model(source.path, device)
    if source.adapter is not None:
        model = attach_adapter(model, source.adapter, ADAPTER)
    return Loaded(model, *_load_tokenizer(source.path), source)


def load_for_training(
    source: ModelSource,
    lora: Lora | None,
    device: torch.device,
    *,
    freeze_embeddings: bool = False,
    quantised: bool = False,
    options: Collection[str] = (),
) -> Loaded:
    """The model a run trains, in eval mode, with gradients on what is to change.

    With `lora` an adapter is trained over frozen weights, `quantised` to 4 bits if wanted (CUDA only): the source's own
    adapter, continued, or a fresh one. Without it every weight is trained in float32, but for the embeddings with
    `freeze_embeddings`; an adapter is merged in first, and many `options` become tokens of their own. Raises
    NoSuchTargets.
    """
    if source.path is None:
        raise ValueError("a tiny shape has no weights to load")
    tokenizer, plain = _load_tokenizer(source.path)
    if lora is None:
        model = load_model(source.path, device, torch.float32)
        if source.adapter is not None:
            model = attach_adapter(model, source.adapter, ADAPTER).merge_and_unload()
            model.requires_grad_(True)
        if freeze_embeddings:
            model.get_input_embeddings().weight.requires_grad_(False)
        add_option_tokens(model, tokenizer, options)
        return Loaded(model, tokenizer, plain, source)
    model = load_quantised(source.path, device) if quantised else load_model(source.path, device)
    if source.adapter is not None:
        adapted = _without_casts(attach_adapter(model, source.adapter, ADAPTER, trainable=True))
        return Loaded(adapted, tokenizer, plain, source)
    config = LoraConfig(
        r=lora.r,
        lora_alpha=lora.alpha,
        lora_dropout=lora.dropout,
        target_modules=choose_targets(model, lora.targets),
        fan_in_fan_out=any(isinstance(module, Conv1D) for module in model.modules()),
        task_type="CAUSAL_LM",
    )
    return Loaded(_without_casts(get_peft_model(model, config, adapter_name=ADAPTER).eval()), tokenizer, plain, source)


def _without_casts(model: PeftModel) -> PeftModel:
    """Keeps peft from widening each layer's input to the adapter's precision, which autocast would narrow again."""
    layers: list[Any] = [module for module in model.modules() if isinstance(module, BaseTunerLayer)]
    for layer in layers:
        layer.cast_input_dtype_enabled = False
    return model


def trainable_parameters(model: nn.Module) -> dict[str, nn.Parameter]:
    """By name; shared tensors once."""
    return {name: parameter for name, parameter in model.named_parameters() if parameter.requires_grad}


def save(loaded: Loaded, folder: Path) -> None:
    """Writes weights (safetensors) and tokenizer. An adapter's folder holds the adapter alone, without others that lie
    over the same base."""
    folder.mkdir(parents=True, exist_ok=True)
    if loaded.adapts:
        # The base is named by the artifact's manifest; a path of this machine would only change the digest.
        loaded.model.peft_config[ADAPTER].base_model_name_or_path = ""
        loaded.model.save_pretrained(folder, selected_adapters=[ADAPTER])
    else:
        loaded.model.save_pretrained(folder)
    (folder / "README.md").unlink(missing_ok=True)  # peft's empty model card
    loaded.tokenizer.save_pretrained(folder)


def hash_tensors(tensors: Mapping[str, Tensor]) -> str:
    """SHA-256 over name, type, shape and bytes of each tensor, in name order."""
    digest = hashlib.sha256()
    for name in sorted(tensors):
        tensor = tensors[name].detach().cpu().contiguous()
        digest.update(json.dumps([name, str(tensor.dtype), list(tensor.shape)]).encode())
        digest.update(tensor.reshape(-1).view(torch.uint8).numpy().data)
    return digest.hexdigest()


def weights_sha256(folder: Path) -> str:
    """The hash of a saved model's or adapter's weights, whatever files they are spread over."""
    tensors: dict[str, Tensor] = {}
    for file in sorted(folder.glob("*.safetensors")):
        with safe_open(file, framework="pt") as opened:
            tensors.update({name: opened.get_tensor(name) for name in opened.keys()})  # noqa: SIM118 - not a dict
    if not tensors:
        raise FileNotFoundError(f"no safetensors in {folder}")
    return hash_tensors(tensors)
