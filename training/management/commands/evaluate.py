"""`manage.py evaluate`: scores a model on a file of labelled rows or texts, outside the registry or in it, as JSON."""

from __future__ import annotations

import json
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
from django.core.management.base import CommandParser
from django.db.models import QuerySet

from decisions.agents.current import find_current_version
from decisions.agents.kinds import KINDS
from decisions.models import Agent, AgentKind
from decisions.rewards.specs import current_reward_spec
from models_registry.artifacts.opening import artifact_path
from models_registry.errors import UnknownVersion
from models_registry.models import ModelVersion
from models_registry.versions.references import FORMS, find_version, is_reference
from training.engine.rows.prompt_forms import find_mismatch, form_of, read_forms
from training.engine.rows.types import Labelled, Prompt
from training.engine.spec.base_files import is_sentence_encoder
from training.engine.spec.methods import RowKind
from training.engine.spec.result import RunResult
from training.engine.spec.run_spec import CLASSIFIER, REWARD_MODEL
from training.evaluation.plain_baseline import compare_with_words, teach_words_of
from training.evaluation.suites.scoring import make_value, rankings_of, read_answers, summarise
from training.evaluation.suites.texts import as_suite_row
from training.imports.answers import KnownAnswers, read_answers_file
from training.management.agents import NoSingleAgent, find_agent
from training.rows.decision_fields import find_compared
from training.rows.reward_scale import reward_if
from training.runs import launcher
from training.supervision.cards import CARD, name_base
from workspaces.commands import UncheckedCommand

EXIT_FAILED, EXIT_BAD_INPUT = 1, 2
SHOWN = 20
CONFIG, ADAPTER_CONFIG = "config.json", "adapter_config.json"
TRAINED = ("model", "adapter", "classifier")
"""Where `manage.py train` puts the weights in its output folder."""


@dataclass(frozen=True, slots=True)
class Model:
    """What the engine loads: a folder or a hub id, with an adapter over it if wanted. `name` and `base`, the model that
    all began with where that is known, are for people."""

    name: str
    path: str
    adapter: str | None = None
    base: str | None = None
    version: ModelVersion | None = None

    @property
    def source(self) -> dict[str, str]:
        return {"path": self.path} | ({"adapter": self.adapter} if self.adapter else {})


class Command(UncheckedCommand):
    help = (
        "Scores a model on labelled rows or texts: accuracy, average reward of its own actions, error rate, validity, "
        "calibration, labels or fields, the measures of rankings and sample errors, and for a version a plain "
        "classifier of words that learnt from the same feedback, as JSON. Exit codes: 0 scored, 1 the model could not "
        "answer, 2 an argument or the file is invalid (every fault is named)."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--model", required=True, help="a version such as filer:2, or a folder of weights or LoRA")
        parser.add_argument(
            "--test-data",
            required=True,
            type=Path,
            help="JSON lines {id, prompt, options, answer}; or what export_training_data wrote, of choices and of "
            "texts; or texts, {id, prompt, completion} and whether they are right",
        )
        parser.add_argument(
            "--agent-type",
            help="kind (FILER, LIBRARIAN, …) or slug of the agent whose rewards, prompt limit and decision fields are "
            "used (default: the one whose decisions the file holds, else FILER)",
        )
        parser.add_argument(
            "--base-model",
            default="",
            help="base of a LoRA folder: a folder or hub id; by default the one that it names",
        )
        parser.add_argument("--output", type=Path, help="file for the JSON; by default standard output")
        parser.add_argument(
            "--free-rows",
            type=int,
            default=100,
            help="number of labelled rows that are also answered by free generation",
        )
        parser.add_argument(
            "--no-quantization", action="store_true", help="has no effect: weights are never quantised here"
        )
        parser.add_argument("--workspace", help="slug; optional if only one agent fits")
        parser.add_argument("--json", action="store_true", help="one JSON line on standard output, also with --output")

    def handle(self, *_: Any, **options: Any) -> None:
        agents, agent = Agent.objects.select_related("workspace"), None
        if options["workspace"]:
            agents = agents.filter(workspace__slug=options["workspace"])
        data, faults = read_answers_file(options["test_data"])
        try:
            agent = find_agent(agents, options["agent_type"] or _name_agent(agents, data))
            faults += _find_other_kinds(agent, data, options["test_data"])
        except NoSingleAgent as error:
            faults.insert(0, str(error))
        model = find_model(options["model"], options["base_model"], agent, faults)
        if (output := options["output"]) is not None and (output.is_dir() or not output.parent.is_dir()):
            faults.append(f"--output: {output} is a folder, or lies in none; name a file in a folder that is there")
        if model is not None and not faults:
            asked = form_of(
                Prompt(row["prompt"], row.get("system") or "", tuple(row.get("messages") or ())) for row in data.rows
            )
            mismatch = find_mismatch(read_forms(model.adapter, model.path), asked)
            faults += [f"--test-data: {mismatch}"] if mismatch else []
        if faults or model is None or agent is None:
            self.stderr.write("\n".join(faults[:SHOWN]))
            if len(faults) > SHOWN:
                self.stderr.write(f"and {len(faults) - SHOWN} more")
            sys.exit(EXIT_BAD_INPUT)
        told = self._score(agent, model, data, max(0, options["free_rows"]))
        text = json.dumps(told, ensure_ascii=False, indent=2)
        if options["output"] is not None:
            try:
                options["output"].write_text(text + "\n", encoding="utf-8")
            except OSError as error:  # it changed while the model answered
                self.stderr.write(f"--output: {options['output']}: {error.strerror}")
                sys.exit(EXIT_BAD_INPUT)
        if options["json"]:
            self.stdout.write(json.dumps(told, ensure_ascii=False))
        elif options["output"] is None:
            self.stdout.write(text)

    def _score(self, agent: Agent, model: Model, data: KnownAnswers, free_rows: int) -> dict[str, Any]:
        spec, setup = current_reward_spec(agent), find_current_version(agent)
        compared = find_compared(agent)
        value = make_value({"right": reward_if(spec, "confirmed"), "wrong": reward_if(spec, "corrected")})
        is_text = data.kind is RowKind.TEXT
        rows = [as_suite_row(row) for row in data.rows] if is_text else data.rows
        with tempfile.TemporaryDirectory(prefix="reckoner-evaluate-") as place:
            folder = Path(place)
            (folder / "rows.jsonl").write_bytes(b"".join(msgspec.json.encode(row) + b"\n" for row in data.rows))
            most = setup.max_prompt_tokens if setup is not None else None
            run = {
                "run_id": "evaluate",
                "method": "evaluate",
                "base": model.source,
                "data": {
                    "text_suites" if is_text else "suites": {"file": "rows.jsonl"},
                    "compared": compared.model_dump(mode="json"),
                },
                "evaluate": {"free_rows": free_rows},
                **({"max_prompt_tokens": most} if most is not None else {}),
            }
            (folder / "spec.json").write_text(json.dumps(run))
            ended = launcher.run_once(folder)
            if ended.returncode != 0:
                said = ended.stderr[-launcher.LAST_WORDS :].strip()
                self.stderr.write(said or f"the engine ended with {ended.returncode}")
                sys.exit(EXIT_FAILED)
            attempt = folder / "attempts" / "1"
            result = RunResult.model_validate_json((attempt / "result.json").read_text())
            told = result.suites["file"]
            with (attempt / told.predictions).open(encoding="utf-8") as lines:
                answers = read_answers(map(json.loads, lines), rows, slice_by="group", value=value)
        scores = summarise(answers, valid_share=told.valid_share, free_rows=told.free_rows, compared=compared)
        prompts = {row["id"]: row["prompt"] for row in rows}
        words = teach_words_of(model.version) if model.version is not None and not is_text else None
        hits, ranked = [one.correct for one in answers], rankings_of(answers)
        asked = msgspec.convert(rows, list[Labelled]) if words is not None else []
        errors = [one | {"prompt": prompts[one["id"]]} for one in scores.pop("errors")]
        return {
            "model": model.name,
            "base_model": model.base,
            "agent": agent.slug,
            "rows": len(rows),
            "left_out": data.left_out,
            "accuracy": scores["accuracy"]["mean"],
            "average_reward": scores["reward"]["mean"],
            "error_rate": scores["error_rate"]["mean"],
            "plain": None if words is None else compare_with_words(words, asked, hits, ranked),
            "scores": scores,
            "sample_errors": errors,
        }


def _name_agent(agents: QuerySet[Agent], data: KnownAnswers) -> str:
    """The agent that the file names, by its slug where there is one, else its kind; FILER where it names none."""
    if len(data.agents) == 1 and agents.filter(slug__in=data.agents).exists():
        return next(iter(data.agents))
    kind = next(iter(data.kinds)) if len(data.kinds) == 1 else ""
    return kind if kind in KINDS else AgentKind.FILER.value


def _find_other_kinds(agent: Agent, data: KnownAnswers, path: Path) -> list[str]:
    """What keeps the file's decisions from being this agent's."""
    others = sorted(data.kinds - {agent.kind})
    if not others:
        return []
    if len(data.kinds) > 1:
        return [f"{path}: holds decisions of {', '.join(sorted(data.kinds))}; export those of one kind"]
    return [f"--agent-type: {agent.slug} is a {agent.kind}, but {path} holds decisions of a {others[0]}; leave it out"]


def find_model(given: str, base: str, agent: Agent | None, faults: list[str]) -> Model | None:
    """A folder, or a version by its name; an adapter's base is the one that is given, or that its folder names. In the
    output folder of `manage.py train` the model or adapter is found."""
    folder = Path(given)
    if folder.is_dir():
        folder = _find_weights(folder.resolve())
        if (folder / REWARD_MODEL).is_file():
            faults.append(f"--model: {given} is a reward model, which scores texts and is not a policy")
            return None
        if (folder / CLASSIFIER).is_file():
            faults.append(
                f"--model: {given} is a classifier in a folder; a run of an instance makes one that is a version"
            )
            return None
        if is_sentence_encoder(folder):
            faults.append(f"--model: {given} is a sentence encoder, which turns texts into vectors and is not a policy")
            return None
        config = folder / ADAPTER_CONFIG
        if not config.is_file():
            card = folder / CARD
            if not (folder / CONFIG).is_file():
                faults.append(f"--model: {given} holds no model: neither {CONFIG} nor {ADAPTER_CONFIG} is there")
                return None
            return Model(given, str(folder), base=base or (name_base(str(folder)) if card.is_file() else None))
        try:
            under = base or json.loads(config.read_text(encoding="utf-8")).get("base_model_name_or_path") or ""
        except (OSError, ValueError, AttributeError) as error:
            faults.append(f"--model: {config} cannot be read: {error}")
            return None
        if not isinstance(under, str):
            faults.append(f"--model: {config}: base_model_name_or_path must be a text")
            return None
        if not under:
            faults.append("--base-model: the LoRA folder does not name its base; give it")
            return None
        path = str(Path(under).resolve()) if Path(under).is_dir() else under
        return Model(given, path, str(folder), name_base(path))
    if agent is None or not is_reference(given):
        faults.append(f"--model: {given!r} is neither a folder nor a version ({FORMS})")
        return None
    try:
        version = find_version(agent.workspace, given)
    except UnknownVersion as error:
        faults.append(f"--model: {error.message}")
        return None
    if version.is_reward_model:
        faults.append(f"--model: {version} is a reward model, which scores texts and is not a policy")
        return None
    if version.is_encoder:
        faults.append(f"--model: {version} is a sentence encoder, which turns texts into vectors and is not a policy")
        return None
    if version.is_remote:
        faults.append(f"--model: {version} is a remote model, whose weights are not here")
        return None
    artifact = str(artifact_path(version.stored.digest))
    root = version.base_model or None
    if version.base is None:
        return Model(given, artifact, base=root, version=version)
    return Model(given, str(artifact_path(version.base.stored.digest)), artifact, root, version)


def _find_weights(folder: Path) -> Path:
    """The folder itself if it holds weights, else the one in it that `manage.py train` wrote."""
    known = (CONFIG, ADAPTER_CONFIG, REWARD_MODEL, CLASSIFIER)
    if any((folder / name).is_file() for name in known):
        return folder
    trained = [folder / name for name in TRAINED if (folder / name).is_dir()]
    return trained[0] if len(trained) == 1 else folder
