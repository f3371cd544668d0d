"""URLs of the ledger's pages, under /w/<workspace>/."""

from django.urls import path

from decisions.pages import (
    agents,
    bulk_labels,
    decisions,
    episodes,
    judges,
    label_queues,
    new_agent,
    playground,
    reward_drafts,
    reward_edit,
    reward_history,
    rewards,
    similar,
    suggestions,
    traces,
)

urlpatterns = [
    path("agents/", agents.agent_list, name="agents"),
    path("agents/new/", new_agent.agent_new, name="agent-new"),  # agents/new may be the page of one with that name
    path("agents/<slug:agent>", agents.agent_detail, name="agent"),
    path("agents/<slug:agent>/cache", agents.agent_cache, name="agent-cache"),
    path("agents/<slug:agent>/edit", agents.agent_edit, name="agent-edit"),
    path("agents/<slug:agent>/versions/<int:number>", agents.agent_version, name="agent-version"),
    path("agents/<slug:agent>/versions/<int:number>/use", agents.agent_version_use, name="agent-version-use"),
    path("agents/<slug:agent>/judges", judges.agent_judges, name="agent-judges"),
    path("agents/<slug:agent>/judges/calibrate", judges.agent_judge_calibrate, name="agent-judge-calibrate"),
    path("agents/<slug:agent>/suggestions", suggestions.agent_suggestions, name="agent-suggestions"),
    path("agents/<slug:agent>/suggestions/learn", suggestions.agent_suggestions_learn, name="agent-suggestions-learn"),
    path("agents/<slug:agent>/traces", traces.agent_traces, name="agent-traces"),
    path("agents/<slug:agent>/rewards", rewards.agent_rewards, name="agent-rewards"),
    path("agents/<slug:agent>/rewards/history", reward_history.reward_history, name="agent-reward-history"),
    path("agents/<slug:agent>/rewards/status", rewards.agent_rewards_status, name="agent-rewards-status"),
    path("agents/<slug:agent>/rewards/edit", reward_edit.agent_rewards_edit, name="agent-rewards-edit"),
    path("agents/<slug:agent>/rewards/<int:number>", rewards.agent_reward_spec, name="agent-reward-spec"),
    path("agents/<slug:agent>/rewards/<int:number>.yaml", rewards.agent_reward_yaml, name="agent-reward-yaml"),
    path("agents/<slug:agent>/rewards/drafts/<uuid:pk>", reward_drafts.reward_draft, name="reward-draft"),
    path(
        "agents/<slug:agent>/rewards/drafts/<uuid:pk>/status",
        reward_drafts.reward_draft_status,
        name="reward-draft-status",
    ),
    path(
        "agents/<slug:agent>/rewards/drafts/<uuid:pk>/publish",
        reward_drafts.reward_draft_publish,
        name="reward-draft-publish",
    ),
    path(
        "agents/<slug:agent>/rewards/drafts/<uuid:pk>/drop", reward_drafts.reward_draft_drop, name="reward-draft-drop"
    ),
    path("decisions/", decisions.decision_list, name="decisions"),
    path("decisions/queues/", label_queues.queue_list, name="label-queues"),
    path("decisions/queues/new", label_queues.queue_new, name="label-queue-new"),
    path("decisions/queues/<slug:queue>/", label_queues.queue_detail, name="label-queue"),
    path("decisions/queues/<slug:queue>/edit", label_queues.queue_edit, name="label-queue-edit"),
    path("decisions/queues/<slug:queue>/change", label_queues.queue_change, name="label-queue-change"),
    path("decisions/queues/<slug:queue>/label", label_queues.queue_work, name="label-queue-work"),
    path("decisions/queues/<slug:queue>/label/<uuid:pk>", label_queues.queue_label, name="label-queue-label"),
    path("decisions/queues/<slug:queue>/undo/<uuid:pk>", label_queues.queue_undo, name="label-queue-undo"),
    path("decisions/queues/<slug:queue>/disputes", label_queues.queue_disputes, name="label-queue-disputes"),
    path(
        "decisions/queues/<slug:queue>/disputes/<uuid:pk>", label_queues.queue_adjudicate, name="label-queue-adjudicate"
    ),
    path("decisions/bulk/", bulk_labels.bulk_ask, name="label-bulk"),
    path("decisions/bulk/<uuid:pk>", bulk_labels.bulk_detail, name="label-bulk-detail"),
    path("decisions/bulk/<uuid:pk>/status", bulk_labels.bulk_status, name="label-bulk-status"),
    path("decisions/bulk/<uuid:pk>/cancel", bulk_labels.bulk_cancel, name="label-bulk-cancel"),
    path("decisions/bulk/<uuid:pk>/undo", bulk_labels.bulk_undo, name="label-bulk-undo"),
    path("decisions/label", decisions.label_queue, name="label"),
    path("decisions/<decision:pk>", decisions.decision_detail, name="decision"),
    path("decisions/<decision:pk>/similar", similar.decision_similar, name="decision-similar"),
    path("decisions/<decision:pk>/ask", playground.decision_playground, name="decision-ask"),
    path("decisions/<decision:pk>/label", decisions.decision_label, name="decision-label"),
    path("decisions/<decision:pk>/unlabel", decisions.decision_unlabel, name="decision-unlabel"),
    path("episodes/", episodes.episode_list, name="episodes"),
    path("episodes/<uuid:pk>/", episodes.episode_detail, name="episode"),
    path("episodes/<uuid:pk>/ask", playground.episode_playground, name="episode-ask"),
]
