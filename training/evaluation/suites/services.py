"""Makes suites, and scores versions on them: after every run (`training.supervision.job`), or by a job of its own."""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec
import pydantic
from django.conf import settings
from django.db import IntegrityError, transaction

from decisions.agents.current import find_current_version
from decisions.models import Agent
from decisions.rewards.components.rules import InvalidRule
from decisions.rewards.specs import current_reward_spec
from jobs.context import JobContext
from jobs.errors import Permanent
from jobs.models import Job
from jobs.services import enqueue_job
from models_registry.artifacts.holders import require_files
from models_registry.artifacts.opening import artifact_path
from models_registry.models import Alias, AliasName, ArtifactKind, ModelVersion
from models_registry.versions.services import refuse_no_policy, store_artifact
from training.engine.rows.types import Labelled
from training.engine.spec.methods import RowKind
from training.engine.spec.result import SuiteAnswers
from training.evaluation.log_gate import find_learnt
from training.evaluation.plain_baseline import Words, compare_with_words, teach_words_of
from training.evaluation.suites import SCORE
from training.evaluation.suites.scoring import (
    OF_ANSWERS,
    OF_TEXTS,
    Answer,
    compare,
    find_unfit_components,
    make_value,
    rankings_of,
    read_answers,
    summarise,
)
from training.evaluation.suites.texts import as_suite_row
from training.models import DatasetItem, DatasetKind, DatasetSnapshot, EvaluationSuite, SuiteScore, TrainingRun
from training.rows.decision_fields import find_compared
from training.rows.parts import ROWS_FILE, SLICES
from training.rows.prompt_forms import find_other_prompts
from training.rows.reward_scale import reward_if
from training.rows.text_answers import find_text_faults, read_right_texts
from training.runs.launcher import run_engine, write_atomically
from workspaces.access.actors import Actor
from workspaces.access.services import record_audit
from workspaces.errors import Conflict, FieldFault, InvalidInput

ANSWERS_FILE = "answers.jsonl"
LONGEST_NAME = 200


@dataclass(frozen=True, slots=True)
class SuitePlan:
    """What someone asks for. `reward`: components as in the engine's spec; none: the agent's reward spec says what a
    right and a wrong action are worth."""

    name: str
    dataset: DatasetSnapshot
    slice_by: str = ""
    reward: Sequence[Mapping[str, Any]] = field(default_factory=tuple)


@transaction.atomic
def create_suite(*, by: Actor, agent: Agent, plan: SuitePlan) -> EvaluationSuite:
    """Makes the suite and queues the champion's score on it, so that new versions have something to be compared with,
    unless it learnt from other prompts. Raises InvalidInput with every fault."""
    scorer, rows = _check(agent, plan)
    try:
        with transaction.atomic():
            suite = EvaluationSuite.objects.create(
                workspace=by.workspace,
                agent=agent,
                name=plan.name,
                dataset=plan.dataset,
                slice_by=plan.slice_by,
                scorer=scorer,
                left_out=plan.dataset.rows - rows,
            )
    except IntegrityError as error:
        fault = FieldFault("name", "another suite of the agent has this name", "another name")
        raise InvalidInput("The suite cannot be made.", faults=[fault]) from error
    record_audit(by=by, action="suite.created", target=f"suite:{suite.id}", details={"rows": rows})
    champion = (
        Alias.objects.filter(registered_model=agent.registered_model_id, name=AliasName.CHAMPION)
        .select_related("version")
        .first()
    )
    if champion is not None and find_other_prompts(suite.dataset, (), champion.version) is None:
        start_scoring(by=by, suite=suite, version=champion.version)
    return suite


def _check(agent: Agent, plan: SuitePlan) -> tuple[dict[str, Any], int]:
    """The suite's scorer, and how many rows it has. Raises InvalidInput."""
    faults: list[FieldFault] = []
    dataset = plan.dataset
    is_text = dataset.row_kind is RowKind.TEXT
    if not 1 <= len(plan.name) <= LONGEST_NAME:
        faults.append(FieldFault("name", f"has {len(plan.name)} characters", f"1 to {LONGEST_NAME}"))
    if dataset.agent_id != agent.id:
        faults.append(FieldFault("dataset", "is another agent's", f"a dataset of {agent.slug}"))
    if not is_text and (dataset.kind != DatasetKind.LABELLED or not dataset.has_answers):
        wanted = "labelled rows that choose among options, or texts"
        faults.append(FieldFault("dataset", f"has {dataset.kind} rows", wanted))
    elif dataset.marked_at is not None:
        faults.append(FieldFault("dataset", f"{dataset.erased_rows} of its rows were erased", "rebuild the dataset"))
    else:
        faults += find_text_faults("dataset", dataset)
    scorer = _make_scorer(agent, plan, faults)
    if not faults:
        if plan.slice_by:
            count = _count_values(dataset, plan.slice_by)
            if not 2 <= count <= SLICES:
                values = f"more than {SLICES} values" if count > SLICES else f"{count} value{'' if count == 1 else 's'}"
                reason = f"{plan.slice_by[:40]!r} has {values} in the rows"
                faults.append(FieldFault("slice_by", reason, f"a field with 2 to {SLICES} values"))
        value, answer = make_value(scorer), next(_stream_rows(dataset))["answer"]
        if value(answer, answer, 1.0, True if is_text else None) is None:
            faults.append(FieldFault("reward", "has no value for a new action", "matches_answer"))
    if faults:
        raise InvalidInput("The suite cannot be made.", faults=faults)
    # Which texts are right, only the rows tell: they are read, one after another.
    return scorer, sum(1 for _ in _stream_rows(dataset)) if is_text else dataset.rows


def _make_scorer(agent: Agent, plan: SuitePlan, faults: list[FieldFault]) -> dict[str, Any]:
    if not plan.reward:
        spec = current_reward_spec(agent)
        return {"right": reward_if(spec, "confirmed"), "wrong": reward_if(spec, "corrected")}
    scorer = {"components": [dict(one) for one in plan.reward]}
    try:
        make_value(scorer)
    except pydantic.ValidationError as error:
        faults += [
            FieldFault(".".join(map(str, ("reward", *fault["loc"]))), str(fault["msg"]), "name, weight, parameters")
            for fault in error.errors()
        ]
    except KeyError as error:
        faults.append(FieldFault("reward", f"unknown component {error}", "a component of docs/rewards.md"))
    except InvalidRule as error:
        faults.append(FieldFault("reward", str(error), "a rule"))
    else:
        is_text = plan.dataset.row_kind is RowKind.TEXT
        fit = ", ".join(sorted(OF_TEXTS if is_text else OF_ANSWERS))
        faults += [
            FieldFault("reward", f"{name} reads more than a suite knows about an answer", f"{fit}, or a rule")
            for name in find_unfit_components(scorer, of_texts=is_text)
        ]
    return scorer


def _count_values(dataset: DatasetSnapshot, field: str) -> int:
    """How many values the field has in the rows, up to one more than can be slices. The dataset's statistics know;
    of datasets of earlier releases the rows are read until there are too many."""
    if (known := dataset.statistics.get("values")) is not None:
        return int(known.get(field, 1))
    values: set[str] = set()
    for row in _stream_rows(dataset):
        values.add(str(row.get(field) or ""))
        if len(values) > SLICES:
            break
    return len(values)


def _stream_rows(dataset: DatasetSnapshot) -> Iterator[dict[str, Any]]:
    """Each with its `answer`; of texts, those that are right. Raises Conflict where the files are gone."""
    path = artifact_path(dataset.artifact.digest) / ROWS_FILE
    if not path.is_file():
        raise Conflict("The dataset's files are not in the artifact store.")
    if dataset.row_kind is RowKind.TEXT:
        yield from (as_suite_row(msgspec.to_builtins(text)) for text in read_right_texts(path))
        return
    with path.open(encoding="utf-8") as lines:
        yield from (json.loads(line) for line in lines if line.strip())


def find_suites(agent: Agent) -> list[EvaluationSuite]:
    """Those that a version of the agent can be scored on now."""
    return list(
        EvaluationSuite.objects.filter(agent=agent, dataset__marked_at=None)
        .select_related("dataset__artifact")
        .order_by("id")
    )


@transaction.atomic
def start_scoring(*, by: Actor, suite: EvaluationSuite, version: ModelVersion) -> Job:
    """The job that scores this version, the one that was asked for before, or a new one. Raises Conflict for a version
    of another model or a reward model, or that learnt from other prompts, and where rows of the suite were erased."""
    refuse_no_policy(version)
    if version.registered_model_id != suite.agent.registered_model_id:
        raise Conflict(f"{version} is not a version of {suite.agent.slug}.")
    if suite.dataset.marked_at is not None:
        raise Conflict("Rows of this suite were erased. Make a new suite from a rebuilt dataset.")
    require_files(version)
    if fault := find_other_prompts(suite.dataset, (), version):
        raise Conflict(f"{version} cannot be scored on this suite: {fault}.")
    return enqueue_job(
        kind=SCORE,
        workspace=by.workspace,
        payload={"suite": str(suite.id), "version": str(version.id)},
        dedupe_key=f"suite:{suite.id}:{version.id}",
    )


def score_version(context: JobContext) -> dict[str, Any] | None:
    """The job: the engine's method `evaluate` on the suite's rows. Idempotent."""
    suite = EvaluationSuite.objects.select_related("agent", "dataset__artifact", "workspace").get(
        id=context.payload["suite"]
    )
    version = ModelVersion.objects.select_related("artifact", "base__artifact", "registered_model").get(
        id=context.payload["version"]
    )
    if (existing := SuiteScore.objects.filter(suite=suite, version=version).first()) is not None:
        return {"score": str(existing.id)}
    if suite.dataset.marked_at is not None:
        raise Permanent("rows of the suite were erased")
    run_dir = settings.RUNS / f"suite-{context.job_id}"
    try:
        name = str(suite.id)
        write_atomically(_lay_out(run_dir, suite, name), json.dumps(_write_spec(run_dir, suite, version, name)))
        finished = run_engine(context, run_dir, sink=lambda events: None)
        score = make_score(suite, finished.folder, finished.result.suites[name], teach_words_of(version))
    finally:
        shutil.rmtree(run_dir, ignore_errors=True)  # it holds what people wrote
    with context.fenced():
        saved = save_score(score, version)
        context.complete({"score": str(saved.id)})
    return None


def _lay_out(run_dir: Path, suite: EvaluationSuite, name: str) -> Path:
    """The rows in place; where the spec goes."""
    (run_dir / "data").mkdir(parents=True, exist_ok=True)
    shutil.copyfile(artifact_path(suite.dataset.artifact.digest) / ROWS_FILE, run_dir / "data" / f"{name}.jsonl")
    return run_dir / "spec.json"


def _write_spec(run_dir: Path, suite: EvaluationSuite, version: ModelVersion, name: str) -> dict[str, Any]:
    artifact = str(artifact_path(version.stored.digest))
    base = {"path": str(artifact_path(version.base.stored.digest)), "adapter": artifact} if version.base else None
    setup = find_current_version(suite.agent)
    most = setup.max_prompt_tokens if setup is not None else None
    return {
        "run_id": run_dir.name,
        "method": "evaluate",
        "base": base or {"path": artifact},
        "data": {
            "text_suites" if suite.is_of_texts else "suites": {name: f"data/{name}.jsonl"},
            "compared": find_compared(suite.agent).model_dump(mode="json"),
        },
        **({"max_prompt_tokens": most} if most is not None else {}),
    }


def make_score(suite: EvaluationSuite, folder: Path, told: SuiteAnswers, words: Words | None) -> SuiteScore:
    """Not saved, and without its version; its answers are in the store. `folder`: the attempt's. `words`: the plain
    classifier beside the version."""
    rows = list(_stream_rows(suite.dataset))
    with (folder / told.predictions).open(encoding="utf-8") as lines:
        answers = read_answers(
            map(json.loads, lines),
            rows,
            slice_by=suite.slice_by,
            value=make_value(suite.scorer),
        )
    with tempfile.TemporaryDirectory(prefix="reckoner-answers-") as place:
        encode = msgspec.json.Encoder().encode
        (Path(place) / ANSWERS_FILE).write_bytes(b"".join(encode(one) + b"\n" for one in answers))
        artifact = store_artifact(
            workspace=suite.workspace, folder=Path(place), kind=ArtifactKind.DATASET, meta={"answers_to": str(suite.id)}
        )
    compared = find_compared(suite.agent)
    scores = summarise(answers, valid_share=told.valid_share, free_rows=told.free_rows, compared=compared)
    if words is not None and not suite.is_of_texts:
        asked = msgspec.convert(rows, list[Labelled])
        hits = [one.correct for one in answers]
        scores["plain"] = compare_with_words(words, asked, hits, rankings_of(answers))
    return SuiteScore(workspace_id=suite.workspace_id, suite=suite, answers=artifact, rows=len(answers), scores=scores)


def save_score(score: SuiteScore, version: ModelVersion, run: TrainingRun | None = None) -> SuiteScore:
    """Call inside a fenced transaction. A score that is there already stays."""
    existing = SuiteScore.objects.filter(suite=score.suite, version=version).first()
    if existing is not None:
        return existing
    maker = run or TrainingRun.objects.select_related("dataset").filter(produced_version=version).first()
    score.version, score.run = version, run
    score.learnt = maker is not None and _has_learnt(maker, score.suite.dataset)
    before = (
        SuiteScore.objects.select_related("answers").filter(suite=score.suite, version=version.parent_id).first()
        if version.parent_id is not None
        else None
    )
    if before is not None and before.answers.removed_at is None:
        score.against_id, score.differences = before.version_id, compare_scores(score, before)
    score.save()
    return score


def _has_learnt(run: TrainingRun, dataset: DatasetSnapshot) -> bool:
    """Whether the run, or those that made its base, learnt from rows of the dataset."""
    whole, partly = find_learnt(run)
    learnt = {*whole, *partly}
    if DatasetSnapshot.objects.filter(id__in=learnt, artifact=dataset.artifact_id).exists():
        return True
    own = DatasetItem.objects.filter(dataset=dataset).values("decision_id")
    return DatasetItem.objects.filter(dataset__in=learnt, decision_id__in=own).exists()


def load_answers(score: SuiteScore) -> list[Answer]:
    """In the order of the suite's rows. Raises Conflict where the files are gone."""
    path = artifact_path(score.answers.digest) / ANSWERS_FILE
    if not path.is_file():
        raise Conflict("The answers are not in the artifact store.")
    decode = msgspec.json.Decoder(Answer).decode
    with path.open("rb") as lines:
        return [decode(line) for line in lines]


def compare_scores(score: SuiteScore, other: SuiteScore) -> dict[str, Any]:
    """`score` minus `other`, paired; both of one suite. Raises Conflict where the answers are gone."""
    if score.against_id == other.version_id and score.differences:
        return dict(score.differences)
    return compare(load_answers(score), load_answers(other), find_compared(score.suite.agent))
