"""Which judge models count in a reward: those that the spec names, while they are calibrated.

A spec whose `judges` are null counts what any source says. With a list, empty too, feedback on decisions from the
source `llm` counts where its metric is on the list and its judge is calibrated (`decisions.judges`); feedback on
episodes from there never does, because judges are measured on decisions.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Mapping, Sequence

from decisions.errors import JudgeNotCalibrated
from decisions.models import Agent, JudgeCalibration, JudgeSource, JudgeVerdict, RewardSpec
from workspaces.errors import FieldFault


def find_judge_faults(agent: Agent, judges: Sequence[str] | None) -> list[FieldFault]:
    """Of each judge that may not be named in a spec now: why, and what to do. A statement for each judge."""
    left_out = find_left_out(agent, judges)
    do = f"label scored decisions in random order, then manage.py calibrate_judge {agent.slug} "
    return [
        FieldFault(f"judges[{place}]", left_out[name], f"a calibrated judge: {do}{name}; or leave it out")
        for place, name in enumerate(judges or ())
        if name in left_out
    ]


def find_left_out(agent: Agent, judges: Sequence[str] | None) -> dict[str, str]:
    """Those of the judges that do not count now, each with the reason. A statement for each judge."""
    if not judges:
        return {}
    from decisions.judges.calibrating import require_calibrated  # loads numpy and scipy
    from decisions.judges.ledger import JudgeName

    found = {}
    for name in judges:
        try:
            require_calibrated(agent, JudgeName(name))
        except JudgeNotCalibrated as error:
            found[name] = error.message
    return found


def list_left_out(specs: Iterable[RewardSpec]) -> list[dict[str, str]]:
    """Judges that these specs name and that do not count now: workspace and agent by slug, judge, reason."""
    return [
        {"workspace": spec.workspace.slug, "agent": spec.agent.slug, "judge": name, "reason": reason}
        for spec in specs
        if spec.judges
        for name, reason in find_left_out(spec.agent, spec.judges).items()
    ]


def judges_that_count(agent: Agent, judges: Sequence[str]) -> frozenset[str]:
    """The calibrated ones. A statement for each judge."""
    return frozenset(judges) - find_left_out(agent, judges).keys()


def find_turned(spec: RewardSpec, since: dt.datetime | None) -> list[str]:
    """Judges of the spec that were calibrated, or ceased to be, since that moment: what they said counts otherwise
    now. None of them before the first search, which looks at everything."""
    if not spec.judges or since is None:
        return []
    rows = JudgeCalibration.objects.filter(agent=spec.agent_id, metric__in=spec.judges, source=JudgeSource.LLM)
    verdicts: dict[str, list[bool]] = {}
    for metric, verdict in rows.filter(made_at__gt=since).order_by("id").values_list("metric", "verdict"):
        verdicts.setdefault(metric, []).append(verdict == JudgeVerdict.CALIBRATED)
    before = _calibrated_at(spec, sorted(verdicts), since)
    return [name for name, after in verdicts.items() if len({before[name], *after}) > 1]


def _calibrated_at(spec: RewardSpec, names: Sequence[str], moment: dt.datetime) -> Mapping[str, bool]:
    rows = JudgeCalibration.objects.filter(
        agent=spec.agent_id, metric__in=names, source=JudgeSource.LLM, made_at__lte=moment
    )
    newest = rows.order_by("metric", "-id").distinct("metric").values_list("metric", "verdict")
    return dict.fromkeys(names, False) | {name: verdict == JudgeVerdict.CALIBRATED for name, verdict in newest}
