"""The runner of a loop (the demo, a rehearsal, a pipeline): stages in order, each with its share of the job's progress.

A stage does what the ledger still lacks, and raises `Defer` while something else works. Each run of the job starts
again from the first stage, and a finished stage returns at once, so a killed worker's loop continues where it was.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from jobs.context import JobContext
from jobs.errors import Defer, JobCancelled, Permanent
from models_registry.models import ModelVersion
from training.models import TrainingRun
from training.run_states import RunState

LOOK_AGAIN_SECONDS = 1.0


@dataclass(frozen=True, slots=True)
class Progress:
    """The part of a job's progress that belongs to one stage: from `begin` to `end`, both in [0, 1]."""

    context: JobContext
    begin: float
    end: float

    def at(self, done: float) -> float:
        """The job's progress when the share `done` in [0, 1] of the stage is done."""
        return self.begin + (self.end - self.begin) * done

    def report(self, message: str, *, done: float) -> None:
        """For a stage that goes on working. Raises JobCancelled when the job is to stop, StaleFence when it is lost."""
        if self.context.cancel_requested():
            raise JobCancelled
        self.context.progress(self.at(done), message)

    def wait(self, message: str, *, done: float = 0.0, seconds: float = LOOK_AGAIN_SECONDS) -> Defer:
        """To be raised by a stage that cannot go on yet."""
        return Defer(seconds, progress=self.at(done), message=message)

    def wait_for_run(self, run: TrainingRun, message: str) -> ModelVersion:
        """The version that the run produced. Raises Defer until it is there, Permanent when the run failed."""
        if run.state == RunState.SUCCEEDED:
            assert run.produced_version is not None
            return run.produced_version
        if run.is_terminal:
            raise Permanent(f"{message}: {run} {run.state}: {run.error}")
        raise self.wait(f"{message}: {run.message or run.state}", done=0.5 + 0.5 * run.progress)


@dataclass(frozen=True, slots=True)
class Stage:
    """One step of a loop. `end`: how far the loop is when the stage is done, in (0, 1]."""

    end: float
    run: Callable[[Progress], object]


def run_stages(context: JobContext, stages: Sequence[Stage], *, begin: float = 0.0, end: float = 1.0) -> None:
    """Returns once every stage is done; raises what a stage raises. The loop's progress goes from `begin` to `end`."""
    reached = begin
    for stage in stages:
        if context.cancel_requested():
            raise JobCancelled
        until = begin + (end - begin) * stage.end
        stage.run(Progress(context, reached, until))
        reached = until
