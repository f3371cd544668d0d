"""The prompts of a run: what the model will have learnt from them, and rows that ask otherwise. No torch."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeVar

import msgspec

from training.engine.data.reading import RunData
from training.engine.rows.prompt_forms import PromptForm, find_mismatch, form_of, read_forms
from training.engine.rows.types import Asking, prompts_of
from training.engine.spec.refused import Refused
from training.engine.spec.run_spec import RunSpec

R = TypeVar("R", bound=Asking)


def find_learnt_forms(spec: RunSpec, data: RunData) -> list[PromptForm]:
    """Of the rows that the run learns from, then of what its base and adapter learnt from before."""
    rows: list[Asking] = [*data.labelled, *data.logged, *data.texts, *data.preferences, *data.replay]
    own = form_of(prompts_of(rows))
    before = read_forms(spec.base.adapter, spec.base.path)
    return [own, *before] if own is not None else before


def refuse_other_prompts(spec: RunSpec, data: RunData, warn: Callable[[str], None]) -> RunData:
    """The data, without suites of other prompts than the run learns from, which it warns of. Raises Refused for
    held-out rows of other prompts, and where nothing is learnt for suites, too."""
    learnt = find_learnt_forms(spec, data)
    trains = bool(spec.trains_by.learns_from)
    faults = []
    measured: list[Asking] = [*data.heldout, *data.heldout_texts]
    if (fault := find_mismatch(learnt, form_of(prompts_of(measured)))) and (spec.evaluate is not None or not trains):
        faults.append(f"data.heldout: {fault}")

    def keep(suites: Mapping[str, list[R]]) -> dict[str, list[R]]:
        kept = {}
        for name, rows in suites.items():
            if fault := find_mismatch(learnt, form_of(prompts_of(rows))):
                told.append(f"data.suites.{name}: {fault}")
            else:
                kept[name] = rows
        return kept

    told: list[str] = []
    data = msgspec.structs.replace(data, suites=keep(data.suites), text_suites=keep(data.text_suites))
    if not trains:
        faults += told
    if faults:
        raise Refused("; ".join(faults))
    for one in told:
        warn(f"{one}; the run does not answer this suite")
    return data
