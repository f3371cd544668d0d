"""What a version's gates say together: whether it may meet live traffic (docs/learning.md, "Evaluation").

`training.evaluation.scores` and `training.evaluation.log_gate` write the verdicts; experiments, pages and loops ask
here.
"""

from __future__ import annotations

from dataclasses import dataclass

from models_registry.models import GateKind, GateVerdict, ModelVersion

ORDER = (GateKind.HELD_OUT, GateKind.OFF_POLICY)


@dataclass(frozen=True, slots=True)
class Gate:
    """`verdicts`: the newest of each kind, of held-out rows first.

    passed: one of them passed, and none shows harm. blocks: they could answer, and did not pass. A gate that refused to
    answer counts for neither; nothing blocks a version of which no gate could say anything.
    """

    verdicts: tuple[GateVerdict, ...]

    @property
    def answered(self) -> list[GateVerdict]:
        return [verdict for verdict in self.verdicts if not verdict.refusals]

    @property
    def passed(self) -> bool:
        answered = self.answered
        return any(verdict.passed for verdict in answered) and not any(verdict.shows_harm for verdict in answered)

    @property
    def blocks(self) -> bool:
        return bool(self.answered) and not self.passed

    @property
    def deciding(self) -> GateVerdict | None:
        """The one to show where there is room for one: what shows harm, or else what passed, or else what answered."""
        answered = self.answered
        harmful = next((verdict for verdict in answered if verdict.shows_harm), None)
        passed = next((verdict for verdict in answered if verdict.passed), None)
        return harmful or passed or next(iter(answered), None)


def read_gate(version: ModelVersion) -> Gate:
    """One statement, or none where `gate_verdicts` were prefetched."""
    newest: dict[str, GateVerdict] = {}
    for verdict in sorted(version.gate_verdicts.all(), key=lambda one: (one.created_at, one.id)):
        newest[verdict.kind] = verdict
    return Gate(tuple(newest[kind] for kind in ORDER if kind in newest))
