"""What an export is to be, and what it says of itself: parts of `spec.json` and `result.json`. No torch, no Django."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field, model_validator

from training.engine.spec.export_formats import DEFAULT_QUANTISATION, Format, Quantisation, find_bound
from training.engine.spec.settings import Strict


class ExportPlan(Strict):
    """`cache` is of onnx, `quantisation` of gguf alone. `base_name`: what the folder of a LoRA names as its base."""

    format: Format
    cache: bool = Field(
        default=False, description="onnx: the graph takes and returns keys and values of earlier tokens"
    )
    quantisation: Quantisation | None = Field(default=None, description="gguf; by default Q4_K_M")
    base_name: str = Field(default="", max_length=300, description="lora: hub id of the base, if it has one")
    parity_rows: int = Field(default=1000, ge=1, le=100_000, description="largest number of held-out rows to compare")

    @model_validator(mode="before")
    @classmethod
    def _default_quantisation(cls, given: Any) -> Any:
        if isinstance(given, dict) and given.get("format") == Format.GGUF and given.get("quantisation") is None:
            return {**given, "quantisation": DEFAULT_QUANTISATION}
        return given

    @model_validator(mode="after")
    def _of_its_format(self) -> ExportPlan:
        faults = []
        if self.cache and self.format is not Format.ONNX:
            faults.append(f"cache: {self.format} has none; leave it out")
        if self.quantisation is not None and self.format is not Format.GGUF:
            faults.append(f"quantisation: {self.format} is not quantised; leave it out")
        if faults:
            raise ValueError("\n".join(faults))
        return self

    @property
    def options(self) -> dict[str, Any]:
        """What tells two exports of one version in this format from each other."""
        if self.format is Format.ONNX:
            return {"cache": self.cache}
        return {"quantisation": self.quantisation} if self.format is Format.GGUF else {}

    @property
    def bound(self) -> float | None:
        return find_bound(self.format, self.quantisation)


class ParityScore(Strict):
    """On the compared rows that choose among options: the share of right decisions, and the mean probability of the
    right option by the model itself."""

    accuracy: float
    probability_of_right: float


class Parity(Strict):
    """The export beside the version that it was made of, each in its own runtime.

    `equal_decisions` is the share of `decisions` that are the same: the likeliest option of a row with options; of
    texts, and of the fallback, the likeliest token at each place where the version's is 0.2 nats ahead of the next.
    `kl`: KL(version ‖ export) in nats over the whole vocabulary (of a classifier over the options), mean and largest
    over the `positions` that were compared; `top1` is the share of these with the same likeliest token. `tokens_differ`
    are texts that become other tokens in the export; `limits` counts those of which the format could not do otherwise,
    by the reason: they are reported, and do not refuse it.
    """

    runtime: str
    prompts: Literal["held_out", "fallback"]
    rows: int
    texts: int = Field(description="hard texts whose tokens were compared")
    tokens_differ: list[str] = []
    tokens_differ_count: int = 0
    limits: dict[str, int] = {}
    decisions: int
    equal_decisions: float
    bound: float | None
    positions: int
    kl: float | None = Field(description="null if the logits are not numbers")
    kl_largest: float | None
    top1: float
    version: ParityScore | None = None
    export: ParityScore | None = None
    refusals: list[str] = Field(default=[], description="why the export is refused; empty if it may be used")


class ExportReport(Strict):
    """`bytes` of all files; `details` are the format's own, such as a GGUF's types of tensors."""

    plan: ExportPlan
    bytes: int
    files: dict[str, int]
    seconds_written: float
    seconds_compared: float
    parity: Parity
    details: dict[str, Any] = {}
    warnings: list[str] = []
