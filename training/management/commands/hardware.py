"""`manage.py hardware`: what this machine has, which training settings suit it, and whether torch can use its GPU."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict
from typing import Any

from django.core.management.base import CommandParser

from training.engine.machine.facts import (
    GB,
    SEVEN_BILLION,
    Machine,
    NoSuchHardware,
    Profile,
    Recommended,
    find_gpu_tier,
    this_machine,
)
from training.runs.estimates.capacity import recommend_fitting
from training.runs.launcher import ask_engine_for_device
from workspaces.commands import UncheckedCommand

EXIT_UNUSABLE = 1


class Command(UncheckedCommand):
    help = (
        "Shows CPU, memory, instruction sets and GPUs (CUDA, ROCm, MPS), and the training settings that suit them. "
        "Exit codes: 0 shown, 1 with --verify torch cannot calculate on the device, or does not use the GPU that is "
        "here, 2 the machine lacks what the profile needs."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--profile", choices=list(Profile), default=Profile.AUTO_DETECT.value)
        parser.add_argument("--verify", action="store_true", help="start an engine process and calculate on its device")
        parser.add_argument("--json", action="store_true", help="report as one JSON line")

    def handle(self, *_: Any, **options: Any) -> None:
        machine = this_machine()
        try:
            suits = recommend_fitting(machine, Profile(options["profile"]))
        except NoSuchHardware as error:
            self.refuse(f"--profile: {error}")
        device = ask_engine_for_device() if options["verify"] else None
        if options["json"]:
            tier = find_gpu_tier(machine)
            found: dict[str, Any] = {
                "machine": asdict(machine),
                "recommended": asdict(suits),
                "gpu_tier": asdict(tier) if tier is not None else None,
            }
            self.stdout.write(json.dumps(found | ({"engine": device} if device is not None else {})))
        else:
            self._show(machine, suits, device)
        if device is not None and (device["error"] or (machine.gpus and device["device"] == "cpu")):
            sys.exit(EXIT_UNUSABLE)

    def _show(self, machine: Machine, suits: Recommended, device: dict[str, Any] | None) -> None:
        has = ", ".join(machine.instructions).upper() or "no AVX"
        lines = [
            f"CPU      {machine.cpu}, {machine.cores} cores, {machine.threads} threads, {has}",
            f"memory   {machine.memory_bytes / GB:.1f} GB",
            *(f"{gpu.kind.upper():8} {gpu.name}, {gpu.memory_bytes / GB:.1f} GB" for gpu in machine.gpus),
            *([] if machine.gpus else ["GPU      none found (CUDA, ROCm, MPS)"]),
            f"profile  {suits.profile}: {suits.model}, batches of {suits.batch_size}, LoRA r {suits.lora_r} "
            f"α {suits.lora_alpha}, {suits.generations} generations, {suits.precision}",
        ]
        reached = find_gpu_tier(machine)
        for tier in SEVEN_BILLION:
            here = ", this machine" if tier is reached else ""
            lines.append(f"{tier.least_gb} GB    {tier.holds} ({tier.config}){here}")
        if device is not None:
            lines.append(
                f"engine   torch {device['torch']} on {device['device']}: {device['error'] or 'it calculates'}"
            )
        self.stdout.write("\n".join(lines))
