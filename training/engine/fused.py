"""LoRA training in fewer operations: small models on a GPU wait for launches rather than for products.

    y = W x + c + B (s A x)      ∂A = (s Bᵀ ∂y) xᵀ      ∂B = ∂y (s A x)ᵀ      ∂x = Wᵀ ∂y + Aᵀ (s Bᵀ ∂y)

peft takes a node of the autograd graph for each product, the scaling, the sum, and each cast of A and B. Here a layer
is one node, 3 kernels forward and 5 backward with the sums in the products, and all casts are one node a forward. RMS
norms are torch's own kernel. Products and their precision stay the same, so results differ by rounding alone; the
adapter stays peft's, and so does what is saved. Called by training.engine.run before a run trains on CUDA.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import torch
from peft.tuners.lora import Linear
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from training.engine.actions import causal_of


def fuse(model: nn.Module) -> int:
    """Makes the LoRA layers and norms of `model` quicker, in place; returns how many LoRA layers.

    Plain LoRA alone: one adapter, without dropout, over frozen layers that are not quantised. Others stay as they are.
    """
    layers = [_Layer(module) for module in model.modules() if type(module) is Linear and _is_plain(module)]
    if not layers:
        return 0
    causal = causal_of(model)
    getattr(causal, causal.base_model_prefix).register_forward_pre_hook(functools.partial(_cast_all, layers))
    for module in model.modules():
        if _is_plain_norm(module):
            module.forward = functools.partial(_norm, module)
    return len(layers)


def _is_plain(layer: Any) -> bool:
    [name, *others] = layer.active_adapters
    return (
        not others
        and name in layer.lora_A
        and name not in layer.lora_variant
        and isinstance(layer.lora_dropout[name], nn.Identity)
        and layer.lora_A[name].bias is None
        and layer.lora_B[name].bias is None
        and type(layer.base_layer) is nn.Linear
        and not layer.base_layer.weight.requires_grad
    )


class _Layer:
    """A LoRA layer of peft's that is calculated here. `narrow` are A and B in its precision, made anew before each
    forward: an optimiser's fused update leaves no mark on a parameter by which a kept one could be known as old."""

    def __init__(self, layer: Any) -> None:
        [name] = layer.active_adapters
        self.layer = layer
        self.wide: list[Tensor] = [layer.lora_A[name].weight, layer.lora_B[name].weight]
        self.narrow: Sequence[Tensor] = ()
        self.scale = float(layer.scaling[name])
        layer.forward = self.forward

    def forward(self, x: Tensor, *arguments: Any, **named: Any) -> Any:
        layer, base, kind = self.layer, self.layer.base_layer, x.device.type
        dtype = torch.get_autocast_dtype(kind) if torch.is_autocast_enabled(kind) else x.dtype
        if layer.disable_adapters or layer.merged or dtype is not base.weight.dtype or arguments or named:
            return Linear.forward(layer, x, *arguments, **named)
        return _Product.apply(x, base.weight, base.bias, *self.narrow, self.scale)  # type: ignore[no-untyped-call]


def _cast_all(layers: Sequence[_Layer], *_: Any) -> None:
    dtype = layers[0].layer.base_layer.weight.dtype
    narrow = _Cast.apply(dtype, *(matrix for layer in layers for matrix in layer.wide))  # type: ignore[no-untyped-call]
    for place, layer in enumerate(layers):
        layer.narrow = narrow[2 * place : 2 * place + 2]


class _Cast(torch.autograd.Function):
    """Tensors in another precision, and their gradients in their own, in a kernel for many."""

    @staticmethod
    def forward(ctx: Any, dtype: torch.dtype, *wide: Tensor) -> tuple[Tensor, ...]:
        ctx.dtype = wide[0].dtype
        return _copied(wide, dtype)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *gradients: Tensor) -> Any:
        return None, *_copied(gradients, ctx.dtype)


def _copied(tensors: Sequence[Tensor], dtype: torch.dtype) -> tuple[Tensor, ...]:
    copies = tuple(torch.empty_like(tensor, dtype=dtype) for tensor in tensors)
    torch._foreach_copy_(copies, tuple(tensors))
    return copies


class _Product(torch.autograd.Function):
    """x (…, in), W (out, in), c (out,) or None, A (r, in), B (out, r), s → y (…, out), all of one precision."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor | None, a: Tensor, b: Tensor, scale: float) -> Tensor:
        rows = x.flatten(0, -2).to(weight.dtype)
        inner = torch.addmm(rows.new_empty(1), rows, a.T, beta=0, alpha=scale)
        y = nn.functional.linear(rows, weight, bias).addmm_(inner, b.T)
        ctx.save_for_backward(rows, weight, a, b, inner)
        ctx.scale = scale
        return y.view(*x.shape[:-1], -1)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *gradients: Tensor) -> Any:
        rows, weight, a, b, inner = ctx.saved_tensors
        of_y = gradients[0].flatten(0, -2)
        of_inner = torch.addmm(of_y.new_empty(1), of_y, b, beta=0, alpha=ctx.scale)
        of_x = None
        if ctx.needs_input_grad[0]:
            of_x = (of_y @ weight).addmm_(of_inner, a).view(*gradients[0].shape[:-1], -1)
        return of_x, None, None, of_inner.T @ rows, of_y.T @ inner, None


def _is_plain_norm(module: nn.Module) -> bool:
    """Whether it calculates what torch's RMS norm does; some families add 1 to the weight, or take means."""
    weight, epsilon = getattr(module, "weight", None), getattr(module, "variance_epsilon", None)
    if not isinstance(weight, nn.Parameter) or weight.dim() != 1 or weight.requires_grad or not epsilon:
        return False
    try_out = torch.linspace(-1, 2, 2 * len(weight), device=weight.device, dtype=weight.dtype).view(2, -1)
    with torch.no_grad():
        return torch.allclose(_norm(module, try_out).float(), module(try_out).float(), rtol=0.02, atol=1e-3)


def _norm(module: Any, x: Tensor) -> Tensor:
    return nn.functional.rms_norm(x, (x.shape[-1],), module.weight, module.variance_epsilon).to(x.dtype)
