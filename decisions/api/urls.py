"""The ledger's part of /api/v1."""

from django.urls import path, register_converter
from django.urls.converters import StringConverter

from decisions.answer_ids import DecisionIdConverter
from decisions.api import (
    agent_experiments,
    agents,
    bulk_labels,
    decisions,
    episodes,
    export,
    feedback,
    items,
    judges,
    label_queues,
    playground,
    reward_drafts,
    reward_specs,
    reward_summary,
    rewards,
    similar,
    suggestions,
)


class SubjectsConverter(StringConverter):
    """What a labelling queue asks about."""

    regex = "decisions|episodes"


register_converter(SubjectsConverter, "subjects")
register_converter(DecisionIdConverter, "decision")

urlpatterns = [
    path("decisions", decisions.DecisionList.as_view(), name="api-decisions"),
    path("feedback", feedback.FeedbackList.as_view(), name="api-feedback"),
    path("agents/<slug:slug>/decide", agents.Decide.as_view(), name="api-decide"),
    path(
        "agents/<slug:slug>/rewards/summary",
        reward_summary.RewardSummaryDetail.as_view(),
        name="api-agent-reward-summary",
    ),
    path("agents/<slug:slug>", agents.AgentDetail.as_view(), name="api-agent"),
    path(
        "agents/<slug:slug>/versions/<int:number>/use", agents.AgentVersionUse.as_view(), name="api-agent-version-use"
    ),
    path("agents/<slug:slug>/cache", agents.AgentCache.as_view(), name="api-agent-cache"),
    path(
        "agents/<slug:slug>/experiment-groups",
        agent_experiments.AgentExperimentGroups.as_view(),
        name="api-agent-experiment-groups",
    ),
    path("agents/<slug:slug>/experiments", agent_experiments.AgentExperiments.as_view(), name="api-agent-experiments"),
    path("agents/<slug:slug>/reward-specs", reward_specs.RewardSpecList.as_view(), name="api-reward-specs"),
    path(
        "agents/<slug:slug>/reward-specs/<int:number>",
        reward_specs.RewardSpecDetail.as_view(),
        name="api-reward-spec",
    ),
    path("agents/<slug:slug>/reward-drafts", reward_drafts.RewardDraftList.as_view(), name="api-reward-drafts"),
    path(
        "agents/<slug:slug>/reward-drafts/<uuid:pk>",
        reward_drafts.RewardDraftDetail.as_view(),
        name="api-reward-draft",
    ),
    path(
        "agents/<slug:slug>/reward-drafts/<uuid:pk>/publish",
        reward_drafts.RewardDraftPublish.as_view(),
        name="api-reward-draft-publish",
    ),
    path(
        "agents/<slug:slug>/reward-drafts/<uuid:pk>/drop",
        reward_drafts.RewardDraftDrop.as_view(),
        name="api-reward-draft-drop",
    ),
    path("agents", agents.AgentList.as_view(), name="api-agents"),
    path("decisions/export", export.DecisionExport.as_view(), name="api-decisions-export"),
    path("decisions/<decision:pk>", decisions.DecisionDetail.as_view(), name="api-decision"),
    path("decisions/<decision:pk>/labels", decisions.DecisionLabels.as_view(), name="api-decision-labels"),
    path("decisions/<decision:pk>/similar", similar.SimilarDecisions.as_view(), name="api-decision-similar"),
    path("decisions/<decision:pk>/ask", playground.DecisionAsk.as_view(), name="api-decision-ask"),
    path("episodes", episodes.EpisodeList.as_view(), name="api-episodes"),
    path("episodes/<uuid:pk>", episodes.EpisodeDetail.as_view(), name="api-episode"),
    path("episodes/<uuid:pk>/ask", playground.EpisodeAsk.as_view(), name="api-episode-ask"),
    path("steps", episodes.StepList.as_view(), name="api-steps"),
    path("agents/<slug:slug>/auto-labeler", suggestions.AutoLabelerDetail.as_view(), name="api-auto-labeler"),
    path("agents/<slug:slug>/suggestions", suggestions.SuggestionList.as_view(), name="api-suggestions"),
    path("agents/<slug:slug>/judges", judges.JudgeList.as_view(), name="api-judges"),
    path("reward-components", reward_specs.RewardComponents.as_view(), name="api-reward-components"),
    path("bulk-labels", bulk_labels.BulkLabelList.as_view(), name="api-bulk-labels"),
    path("bulk-labels/<uuid:pk>", bulk_labels.BulkLabelDetail.as_view(), name="api-bulk-label"),
    path("bulk-labels/<uuid:pk>/cancel", bulk_labels.BulkLabelCancel.as_view(), name="api-bulk-label-cancel"),
    path("bulk-labels/<uuid:pk>/undo", bulk_labels.BulkLabelUndo.as_view(), name="api-bulk-label-undo"),
    path("label-queues", label_queues.LabelQueueList.as_view(), name="api-label-queues"),
    path("label-queues/<slug:slug>", label_queues.LabelQueueDetail.as_view(), name="api-label-queue"),
    path("label-queues/<slug:slug>/next", label_queues.NextInQueue.as_view(), name="api-label-queue-next"),
    path("label-queues/<slug:slug>/disputes", label_queues.DisputeList.as_view(), name="api-label-queue-disputes"),
    path("label-queues/<slug:slug>/agreement", label_queues.QueueAgreement.as_view(), name="api-label-queue-agreement"),
    path("label-queues/<slug:slug>/gold", label_queues.QueueGold.as_view(), name="api-label-queue-gold"),
    *(
        path(
            f"label-queues/<slug:slug>/<subjects:subjects>/<decision:pk>/{verb}",
            view.as_view(),
            name=f"api-label-queue-{verb}",
        )
        for verb, view in {
            "label": label_queues.LabelInQueue,
            "draft": label_queues.DraftInQueue,
            "discard": label_queues.DiscardInQueue,
            "skip": label_queues.SkipInQueue,
            "undo": label_queues.UndoInQueue,
            "adjudicate": label_queues.AdjudicateInQueue,
        }.items()
    ),
    path("rewards", rewards.RewardList.as_view(), name="api-rewards"),
    path("rewards/calculations", rewards.CalculationList.as_view(), name="api-reward-calculations"),
    path("status-changes", items.StatusChangeCreate.as_view(), name="api-status-changes"),
]
