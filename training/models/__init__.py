"""Tables of datasets, runs, evaluations, suites, exports, erasures and rehearsals."""

from training.models.dataset import LEDGER_KINDS, DatasetItem, DatasetKind, DatasetSnapshot
from training.models.erasure import Erasure
from training.models.evaluation import Evaluation
from training.models.export import ExportFormat, ExportJob
from training.models.rehearsal import Rehearsal
from training.models.run import RunEvent, RunMetric, TrainingRun
from training.models.suite import EvaluationSuite, SuiteScore

__all__ = [
    "LEDGER_KINDS",
    "DatasetItem",
    "DatasetKind",
    "DatasetSnapshot",
    "Erasure",
    "Evaluation",
    "EvaluationSuite",
    "ExportFormat",
    "ExportJob",
    "Rehearsal",
    "RunEvent",
    "RunMetric",
    "SuiteScore",
    "TrainingRun",
]
