"""How the engine was launched: alone, or as one of several processes. No torch.

`accelerate launch --multi_gpu` and torchrun tell each process its place in the environment: RANK, WORLD_SIZE,
LOCAL_RANK, LOCAL_WORLD_SIZE, MASTER_ADDR, MASTER_PORT.
"""

from __future__ import annotations

from collections.abc import Mapping

from training.engine.spec.methods import TEXT_ROOM
from training.engine.spec.run_spec import RunSpec

LIBRARIES: Mapping[str, str] = {
    "TOKENIZERS_PARALLELISM": "false",  # its threads get in the way of torch's
    # On cores shared with others, threads that spin while they wait cost several times the work itself; threads that
    # sleep cost nothing that could be measured.
    "OMP_WAIT_POLICY": "passive",
    # Linux only: huge pages for large tensors. Gradients get new memory at every step, which in small pages was 100,000
    # page faults a step with 270M parameters (docs/results.md, "A pretrained base").
    "THP_MEM_ALLOC_ENABLE": "1",
}
"""What torch and tokenizers read of the environment when they are loaded. What is set already stays."""


def count_processes(environment: Mapping[str, str]) -> int:
    """That train the run together; 1 where this one was started by itself."""
    return int(environment.get("WORLD_SIZE", "1"))


def is_main_process(environment: Mapping[str, str]) -> bool:
    """Whether this is the one that writes."""
    return environment.get("RANK", "0") == "0"


def find_launch_faults(spec: RunSpec, environment: Mapping[str, str]) -> list[str]:
    """Why the run cannot be trained as it was launched."""
    count, faults = count_processes(environment), []
    if count == 1:
        if environment.get("ACCELERATE_USE_CPU", "").lower() == "true" and "MASTER_PORT" in environment:
            # One process that would train as if it were all of them: without MPI, accelerate starts no other.
            faults.append(
                "accelerate launch: --cpu starts a single process; for several on CPUs give --multi_gpu "
                "and set RECKONER_DEVICE=cpu"
            )
        return faults
    kind = spec.train_rows
    if kind is not None and spec.trains_by.entry_for(kind).startswith(TEXT_ROOM):
        # TRL gives every process the same number of rows, and whole groups stay together.
        name, rows = (
            ("online.prompts_per_step", spec.online.prompts_per_step)
            if spec.method == "grpo"
            else ("optimiser.batch_size", spec.optimiser.batch_size)
        )
        if rows % count:
            faults.append(f"{name}: {rows} rows of text cannot be shared evenly by {count} processes")
    return faults
