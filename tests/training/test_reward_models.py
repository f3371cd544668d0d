"""A version that is a reward model never acts, and a run's reward can name it and nothing else."""

import pytest
from django.urls import reverse
from django.utils import timezone

from jobs.models import Job, JobState
from jobs.runner import run_job
from models_registry.artifacts.opening import artifact_path
from models_registry.errors import NotAPolicy
from models_registry.experiments.plan import ExperimentPlan
from models_registry.experiments.promotion import promote_version
from models_registry.experiments.services import start_experiment
from models_registry.models import Alias, Experiment
from models_registry.versions.services import NewVersion, get_champion, move_alias, register_version
from tests.engine_task import labelled
from tools.factories import (
    AgentFactory,
    ArtifactFactory,
    DatasetSnapshotFactory,
    EvaluationSuiteFactory,
    ModelVersionFactory,
    RewardSpecFactory,
    TrainingRunFactory,
)
from training.datasets.snapshots import import_labelled
from training.errors import InvalidRun
from training.evaluation.suites.services import start_scoring
from training.exports.services import start_export
from training.lineage.marks import mark_made_versions
from training.management.commands.evaluate import find_model
from training.models import Evaluation, ExportJob
from training.runs.reward_models import resolve_reward_version
from training.runs.services import RunPlan, check_plan, start_run, switch_to_run
from workspaces.access.actors import system
from workspaces.errors import InvalidInput
from workspaces.models import AuditEntry

pytestmark = pytest.mark.django_db
OVER = {"state": "succeeded", "finished_at": timezone.now()}


def make_reward_model(agent):
    artifact = ArtifactFactory(workspace=agent.workspace, kind="reward_model")
    new = NewVersion(artifact=artifact, method="reward_model")
    return register_version(by=system(agent.workspace), model=agent.registered_model, new=new)


def test_a_reward_model_never_acts(agent, admin, page_client):
    """Nor is it champion as the first version, which the first policy after it is."""
    by, judge = system(agent.workspace), make_reward_model(agent)
    assert not Alias.objects.exists()
    policy = register_version(
        by=by,
        model=agent.registered_model,
        new=NewVersion(artifact=ArtifactFactory(workspace=agent.workspace), method="import"),
    )
    run = TrainingRunFactory(agent=agent, produced_version=judge, **OVER)
    suite = EvaluationSuiteFactory(agent=agent)

    def seen():
        counts = (model.objects.count() for model in (Experiment, ExportJob, Job, AuditEntry))
        return (*counts, *Alias.objects.values_list("name", "version"))

    before = seen()
    assert ("champion", policy.id) in before
    refused = (
        lambda: promote_version(by=by, version=judge, reason="by hand"),
        lambda: switch_to_run(by=by, run=run),
        lambda: move_alias(by=by, version=judge, name="challenger"),
        lambda: start_experiment(by=by, treatment=judge, plan=ExperimentPlan(), reason="a better one"),
        lambda: start_export(by=by, version=judge),
        lambda: start_scoring(by=by, suite=suite, version=judge),
    )
    for act in refused:
        with pytest.raises(NotAPolicy, match="is a reward model"):
            act()
    assert seen() == before
    faults = []
    assert find_model(str(judge), "", agent, faults) is None and f"{judge} is a reward model" in faults[0]
    page = page_client(admin).get(reverse("pages:version", args=[agent.workspace.slug, judge.id])).content.decode()
    assert "This version is a reward model." in page and "Promote" not in page
    page = page_client(admin).get(reverse("pages:suite", args=[agent.workspace.slug, suite.id])).content.decode()
    assert f'value="{policy.id}"' in page and f'value="{judge.id}"' not in page


def test_no_folder_of_one_is_a_base(agent, settings, tmp_path):
    for name in ("config.json", "reward_model.json"):
        (tmp_path / name).write_text("{}")
    settings.BASE_MODELS = [str(tmp_path)]
    rows = DatasetSnapshotFactory(agent=agent, kind="labelled", rows=7)
    with pytest.raises(InvalidRun) as raised:
        check_plan(agent, RunPlan("sft", rows, base_model=str(tmp_path)))
    [fault] = raised.value.faults
    assert fault.field == "base_model" and "is a reward model" in fault.reason
    faults = []
    assert find_model(str(tmp_path), "", None, faults) is None and "is a reward model" in faults[0]


def test_a_run_s_reward_names_a_version_and_no_folder(agent):
    RewardSpecFactory(agent=agent)
    base = ModelVersionFactory(registered_model=agent.registered_model)
    judge, elsewhere = make_reward_model(agent), make_reward_model(AgentFactory())
    rows = DatasetSnapshotFactory(agent=agent, kind="labelled", rows=7)
    pairs = DatasetSnapshotFactory(agent=agent, kind="preferences", rows=7)

    def faults_of(method, reward, **plan):
        given = {"dataset": rows, "base_version": base, "settings": {"reward": [reward]}} | plan
        with pytest.raises(InvalidRun) as raised:
            check_plan(agent, RunPlan(method=method, **given))
        return " ".join(f"{fault.field}: {fault.reason}" for fault in raised.value.faults)

    named = {"name": "model", "version": str(judge.id)}
    plan = RunPlan("grpo", rows, base_version=base, settings={"reward": [named]})
    assert check_plan(agent, plan)["reward"] == [named]
    by_name = {"reward": [{"name": "model", "version": str(judge)}, {"name": "matches_answer"}]}
    assert resolve_reward_version(agent.workspace, by_name) == {"reward": [named, {"name": "matches_answer"}]}
    for wrong in (str(elsewhere.id), str(base.id), "no id"):
        assert "is not a reward model here" in faults_of("grpo", named | {"version": wrong})
    assert "is filled in by the run" in faults_of("grpo", {"name": "model", "source": {"path": "/etc"}})
    assert "needs a reward model" in faults_of("grpo", {"name": "model"})
    assert "base_version: " in (told := faults_of("grpo", named, base_version=judge)) and "is a reward model" in told
    texts = DatasetSnapshotFactory(agent=agent, kind="text", rows=7)
    assert "heldout: has text rows" in faults_of("reward_model", {}, dataset=pairs, heldout=texts, settings={})
    for train, held_out in ((pairs, pairs), (pairs, rows), (rows, rows), (rows, pairs)):
        plan = RunPlan("reward_model", train, base_version=base, heldout=held_out)
        assert check_plan(agent, plan)["method"] == "reward_model"


def test_what_a_reward_model_of_erased_rows_taught_is_marked(agent):
    pairs = DatasetSnapshotFactory(agent=agent, kind="preferences", rows=7, marked_at=timezone.now(), erased_rows=1)
    judge = make_reward_model(agent)
    TrainingRunFactory(agent=agent, dataset=pairs, produced_version=judge, **OVER)
    taught, other = (ModelVersionFactory(registered_model=agent.registered_model) for _ in range(2))
    for version, reward in ((taught, {"name": "model", "version": str(judge.id)}), (other, {"name": "matches_answer"})):
        TrainingRunFactory(agent=agent, produced_version=version, **OVER, spec={"reward": [reward]})
    assert mark_made_versions(agent.workspace) == 2
    for version, marked in ((judge, True), (taught, True), (other, False)):
        version.refresh_from_db()
        assert (version.marked_at is not None) is marked


@pytest.mark.slow
@pytest.mark.django_db(transaction=True)
def test_a_run_makes_one_and_another_learns_from_it(agent, by, base_version, store):
    """Right answers against other options → a version that does not serve → fresh decisions that it rewards."""
    rows, held_out = (
        import_labelled(by=by, agent=agent, name=name, rows=labelled(count, seed))
        for name, count, seed in (("train", 32, 5), ("held-out rows", 16, 6))
    )
    plan = RunPlan(
        "reward_model", rows, base_version=base_version, heldout=held_out,
        settings={"lora": {"r": 2}, "optimiser": {"epochs": 1, "batch_size": 16}, "reward_model": {"others": 2}},
    )  # fmt: skip
    run = start_run(by=by, agent=agent, plan=plan)
    assert run_job(run.job_id) is JobState.SUCCEEDED
    run.refresh_from_db()
    judge = run.produced_version
    assert judge.is_reward_model and get_champion(agent.registered_model) == base_version
    assert (judge.base, judge.gate_verdicts.count()) == (base_version, 0)
    trained = Evaluation.objects.get(version=judge).scores["trained"]
    assert set(trained) == {"ordered_rightly", "margin"} and trained["ordered_rightly"]["n"] == 2 * 16
    assert run.metrics["heldout_calibration_error"] >= 0
    assert "is not a policy" in (artifact_path(judge.artifact.digest) / "README.md").read_text()

    prompts = import_labelled(by=by, agent=agent, name="prompts", rows=labelled(8, 6))
    reward = [{"name": "model", "version": str(judge.id)}]
    settings = {"reward": reward, "online": {"steps": 1, "prompts_per_step": 4, "group": 2}}
    taught = start_run(by=by, agent=agent, plan=RunPlan("grpo", prompts, base_version=base_version, settings=settings))
    assert run_job(taught.job_id) is JobState.SUCCEEDED
    taught.refresh_from_db()
    assert taught.produced_version.artifact.kind == "model" and 0 < taught.metrics["reward"] < 1


def make_version(agent, kind):
    artifact = ArtifactFactory(workspace=agent.workspace, kind=kind)
    new = NewVersion(artifact=artifact, method="base" if kind == "encoder" else "classifier")
    return register_version(by=system(agent.workspace), model=agent.registered_model, new=new)


@pytest.mark.parametrize(
    ("kind", "formats"),
    [("encoder", ("merged", "onnx", "sklearn", "gguf")), ("classifier", ("merged", "lora", "gguf"))],
)
def test_what_cannot_be_an_export_of_this_kind_is_refused(agent, kind, formats):
    version = make_version(agent, kind)
    for format in formats:
        with pytest.raises((NotAPolicy, InvalidInput)) as refused:
            start_export(by=system(agent.workspace), version=version, format=format)
        reasons = [refused.value.message, *(fault.reason for fault in getattr(refused.value, "faults", ()))]
        assert any(kind in reason for reason in reasons)
    assert not ExportJob.objects.exists()


def test_an_encoder_never_acts(agent):
    by, encoder = system(agent.workspace), make_version(agent, "encoder")
    suite = EvaluationSuiteFactory(agent=agent)
    for act in (
        lambda: promote_version(by=by, version=encoder, reason="by hand"),
        lambda: start_experiment(by=by, treatment=encoder, plan=ExperimentPlan(), reason="a better one"),
        lambda: start_scoring(by=by, suite=suite, version=encoder),
    ):
        with pytest.raises(NotAPolicy, match="is a sentence encoder"):
            act()
    faults = []
    assert find_model(str(encoder), "", agent, faults) is None and "is a sentence encoder" in faults[0]
