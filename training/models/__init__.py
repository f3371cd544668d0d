"""Tables of datasets, runs, evaluations, exports, erasures and rehearsals."""

from training.models.dataset import DatasetItem, DatasetKind, DatasetSnapshot
from training.models.erasure import Erasure
from training.models.evaluation import Evaluation
from training.models.export import ExportFormat, ExportJob
from training.models.rehearsal import Rehearsal
from training.models.run import RunEvent, RunMetric, TrainingRun

__all__ = [
    "DatasetItem",
    "DatasetKind",
    "DatasetSnapshot",
    "Erasure",
    "Evaluation",
    "ExportFormat",
    "ExportJob",
    "Rehearsal",
    "RunEvent",
    "RunMetric",
    "TrainingRun",
]
