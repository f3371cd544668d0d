"""The glossary: one meaning for each term. Pages show the entries as tooltips (`{% term %}`), and docs/vocabulary.md
lists them; `python -m tools.glossary` writes its list."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Entry:
    """`met`: where the term is found: names of URLs, API fields, models or files. `means`: one or two sentences."""

    term: str
    met: tuple[str, ...]
    means: str

    @property
    def plain(self) -> str:
        """The meaning without Markdown, for a tooltip."""
        return self.means.replace("`", "").replace("*", "")


ENTRIES = (
    Entry(
        "decision",
        ("api-decisions", "pages:decisions"),
        "A state (what the agent knows), the options and the chosen action.",
    ),
    Entry(
        "action space",
        ("AgentVersion.action_space",),
        "The kind of action: `choice`, `ranking`, `structured`, `text` or `tool_calls`.",
    ),
    Entry("agent", ("api-agents",), "It makes decisions. Its settings are stored in versions that never change."),
    Entry(
        "system prompt",
        ("AgentVersion.system_prompt",),
        "Instructions that a model reads before the prompt. It belongs to the agent's version.",
    ),
    Entry(
        "unit",
        ("unit",),
        "What an experiment assigns to an arm, such as a user or an item. It can have many decisions.",
    ),
    Entry("episode", ("episode", "api-episodes"), "The decisions and steps of one request."),
    Entry(
        "trajectory, rollout",
        ("training/engine/methods/online.py",),
        "A trajectory is an episode in memory during training, a rollout is creating one.",
    ),
    Entry(
        "environment",
        ("api-environments",),
        "A world in which a model acts for several steps: a task sets it up, and each step says what it earned.",
    ),
    Entry(
        "task", ("training/engine/environments/tasks.py",), "What an environment is set up with, and what it asks for."
    ),
    Entry("step", ("Step", "api-steps"), "A tool call, model call, piece of reasoning or span in an episode."),
    Entry(
        "feedback", ("api-feedback",), "Something observed after a decision, such as a verdict. It is never changed."
    ),
    Entry(
        "verdict",
        ("verdict",),
        "Feedback that says whether a decision was right: confirmed, corrected, overridden or ignored.",
    ),
    Entry(
        "label", ("api-decision-labels",), "A person's judgement of a decision or an episode, also stored as feedback."
    ),
    Entry(
        "judge",
        ("api-judges", "pages:agent-judges"),
        "A model or code that scores decisions in people's stead: the feedback of one metric from the source `llm` or "
        "`code`. It is calibrated against people.",
    ),
    Entry(
        "Krippendorff’s α",
        ("decisions/labelling/alpha.py",),
        "Agreement beyond chance: 1 is perfect, 0 is what chance gives.",
    ),
    Entry("skip", ("Skip",), "A reviewer passed over a decision. It is no verdict."),
    Entry("reward", ("Reward",), "A number from 0 to 1, calculated from feedback. Models learn from it."),
    Entry(
        "reward spec",
        ("RewardSpec",),
        "The components of a reward with their weights. It is numbered and never changed.",
    ),
    Entry(
        "propensity",
        ("propensity",),
        "The probability with which the acting policy chose this action in this state, exploration included.",
    ),
    Entry(
        "exploration",
        ("epsilon",),
        "Choosing at random in a share ε of the decisions, so that the log also covers unlikely actions.",
    ),
    Entry(
        "exploration budget",
        ("exploration_budget",),
        "The most right decisions of 1,000 that exploration is expected to give up, by the model's own probabilities.",
    ),
    Entry(
        "confidence",
        ("confidence",),
        "The probability that the model itself gives to the action, before temperature and exploration.",
    ),
    Entry("assignment probability", ("assignment_probability",), "The probability that a unit gets this arm."),
    Entry(
        "policy",
        ("policy_name",),
        "What decides: a model with its temperature and exploration, or an outside model by name.",
    ),
    Entry("model version", ("api-versions", "pages:version"), "A frozen model with a number, such as `filer:7`."),
    Entry("adapter", ("training/engine/models/loading.py",), "LoRA weights on top of a base model."),
    Entry("checkpoint", ("training/engine/attempt/checkpoints.py",), "Saved progress of a run, never served."),
    Entry("run", ("api-runs", "pages:runs"), "Offline training that creates a model version."),
    Entry(
        "dataset",
        ("api-datasets",),
        "Frozen rows for training: *logged* rows have an action among options and a reward, *text* rows what was "
        "written and a reward; *labelled* rows have the right answer, *preference* pairs a better and a worse action.",
    ),
    Entry("held-out", ("heldout",), "Rows that no training has used. Versions are evaluated on them."),
    Entry("replay", ("replay",), "Labelled rows mixed into training, so that the model keeps what it learnt before."),
    Entry(
        "gate",
        ("GateVerdict",),
        "The check before an experiment: the version must be better on held-out rows or by logged decisions, and "
        "shown to be worse by neither.",
    ),
    Entry(
        "shadow",
        ("Shadow", "pages:shadows"),
        "A version, the candidate, is asked about live decisions in the background. No user sees its answers.",
    ),
    Entry(
        "canary",
        ("training/shadows/rounds.py",),
        "The experiment that a shadow opens: the candidate gets 5% of the units at first.",
    ),
    Entry(
        "Kendall's tau",
        ("training/shadows/agreement.py",),
        "How alike two orders are: 1 for the same one, −1 for its reverse, 0 for no relation.",
    ),
    Entry(
        "calibration error",
        ("training/evaluation/predictions.py",),
        "The mean difference between the model's confidence and its accuracy, in percentage points. 0 is perfect.",
    ),
    Entry(
        "off-policy estimate",
        ("training/evaluation/off_policy.py",),
        "An estimate of the reward that a version would get, calculated from decisions of another version.",
    ),
    Entry("rehearsal", ("Rehearsal", "pages:rehearsals"), "The loop on labelled texts, before anything goes live."),
    Entry(
        "ceiling",
        ("training/loops/rehearsal/report.py",),
        "The accuracy of the same training with every label known. A rehearsal is compared with it.",
    ),
    Entry(
        "loss",
        ("training/engine/updates/fit.py",),
        "What training makes smaller, by the method's formula. Compare it only between runs of one method.",
    ),
    Entry(
        "reward of fresh actions",
        ("training/engine/methods/online.py",),
        "The mean reward of the actions that the model took in a step, for methods that act while they learn.",
    ),
    Entry(
        "held-out accuracy",
        ("training/engine/evaluation/watch.py",),
        "The share of at most 64 held-out rows that the model answers rightly, always the same ones. The evaluation "
        "at the end takes all.",
    ),
    Entry(
        "probability of right",
        ("training/engine/evaluation/watch.py",),
        "The mean probability that the model gives to the right option of those held-out rows.",
    ),
    Entry(
        "KL",
        ("training/engine/scoring/rows.py",),
        "How far the model has moved from its start, in nats. 0 is no change; a steep rise warns of forgetting.",
    ),
    Entry(
        "entropy",
        ("training/engine/evaluation/watch.py",),
        "How undecided the model is between the options, in nats. Near 0 it always takes the same one.",
    ),
    Entry(
        "valid share",
        ("training/engine/evaluation/watch.py",),
        "The share of freely written answers that are one of the options, or valid JSON where JSON is wanted.",
    ),
    Entry(
        "learning rate",
        ("training/engine/updates/fit.py",),
        "The size of the next update: it rises at first and then falls.",
    ),
    Entry(
        "gradient norm",
        ("training/engine/updates/fit.py",),
        "The length of the last gradient before it was clipped. Leaps say that the learning rate is too high.",
    ),
    Entry(
        "tokens per second",
        ("training/engine/evaluation/watch.py",),
        "Tokens that the model learned from in a second, padding included.",
    ),
    Entry(
        "peak memory",
        ("training/engine/evaluation/watch.py",),
        "The most memory so far in GB: of the GPU where there is one, else of the process.",
    ),
    Entry(
        "experiment",
        ("api-experiments", "pages:experiments"),
        "An A/B test of a new version against the champion on live traffic.",
    ),
    Entry(
        "variant, arm",
        ("variant",),
        "The version that a unit gets: control (the champion) or treatment (the new version).",
    ),
    Entry(
        "group of experiments",
        ("ExperimentGroup",),
        "Experiments of several versions against one champion at the same time.",
    ),
    Entry("lane", ("Experiment.lane_low",), "The part of the units that one experiment of a group has to itself."),
    Entry(
        "holdout",
        ("Holdout",),
        "Units that keep one version while everybody else gets what is promoted, to see what all of it is worth.",
    ),
    Entry("phase", ("Phase",), "A part of an experiment with one treatment share."),
    Entry(
        "ramp",
        ("Experiment.ramp",),
        "Phases with larger and larger treatment shares; the next one opens when the last did no harm.",
    ),
    Entry(
        "guardrail",
        ("guardrails",),
        "A measure that must not get worse by more than its margin while the reward improves.",
    ),
    Entry(
        "evidence",
        ("log_e_plus", "log_e_minus"),
        "E⁺ measures how strongly the data show that the treatment is better, E⁻ that it is worse. Either may be read "
        "at any time.",
    ),
    Entry(
        "futility",
        ("futility_e", "log_e_futile"),
        "The version is shown not to be better by the smallest effect that is worth finding: the experiment ends "
        "undecided.",
    ),
    Entry(
        "contrast",
        ("conditioned", "rescaled"),
        "How units of both arms are compared: plainly, or conditioned on what both versions would have decided.",
    ),
    Entry(
        "sample ratio mismatch",
        ("sample_ratio_mismatch",),
        "The arms do not have their planned shares of the units, so the result cannot be trusted.",
    ),
    Entry("exposure", ("Exposure",), "A unit got a decision from its arm for the first time."),
    Entry(
        "exposure window",
        ("exposure_window_seconds",),
        "The time after the first decision of a unit in which its decisions count for the experiment.",
    ),
    Entry(
        "attribution window",
        ("attribution_window_seconds",),
        "The time after the exposure window in which feedback still counts for the experiment.",
    ),
    Entry("observation", ("Observation",), "The outcome of a matured unit, counted once."),
    Entry(
        "matured",
        ("matured_at",),
        "Both windows of a unit have passed. Later feedback does not count for the experiment.",
    ),
    Entry("champion", ("aliases",), "The alias of the version that serves all traffic outside an experiment."),
    Entry("challenger", ("aliases",), "The alias of the version that an experiment compares with the champion."),
    Entry("alias", ("api-alias-moves",), "A name that points at one version of a model, and moves."),
    Entry("approval", ("approved_at",), "A person's word that a version may get traffic."),
    Entry("backend", ("api-backends",), "A server that answers for model versions."),
    Entry("deployment", ("api-deployments",), "A version on a backend, with a priority."),
    Entry("call", ("api-calls",), "A question to the gateway, and how it was answered."),
    Entry(
        "circuit breaker",
        ("models_registry/backends/breaker.py",),
        "After three failures in a row, or an answer too late, a process does not ask a server for 5 seconds.",
    ),
    Entry("artifact", ("Artifact",), "A folder of files in the store, named by the SHA-256 of its manifest."),
    Entry(
        "export",
        ("api-version-export",),
        "A version as files that other programs load, compared with it before they can be downloaded.",
    ),
    Entry("job", ("Job",), "Background work, stored as a row until a worker has done it."),
    Entry(
        "lease, fence",
        ("jobs/context.py",),
        "The lease says until when a worker owns a job; the fence makes writes of an earlier owner fail.",
    ),
    Entry("workspace", ("Workspace",), "It owns all rows. Keys and pages of one see nothing of another."),
)
_BY_TERM = {entry.term: entry for entry in ENTRIES}


def find_entry(term: str) -> Entry:
    """Raises KeyError for a term that the glossary does not have."""
    return _BY_TERM[term]
