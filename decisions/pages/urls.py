"""URLs of the ledger's pages, under /w/<workspace>/."""

from django.urls import path

from decisions.pages import agents, decisions, episodes

urlpatterns = [
    path("agents/", agents.agent_list, name="agents"),
    path("agents/<slug:agent>", agents.agent_detail, name="agent"),
    path("agents/<slug:agent>/edit", agents.agent_edit, name="agent-edit"),
    path("agents/<slug:agent>/versions/<int:number>", agents.agent_version, name="agent-version"),
    path("decisions/", decisions.decision_list, name="decisions"),
    path("decisions/label", decisions.label_queue, name="label"),
    path("decisions/<uuid:pk>", decisions.decision_detail, name="decision"),
    path("decisions/<uuid:pk>/label", decisions.decision_label, name="decision-label"),
    path("decisions/<uuid:pk>/unlabel", decisions.decision_unlabel, name="decision-unlabel"),
    path("episodes/", episodes.episode_list, name="episodes"),
    path("episodes/<uuid:pk>/", episodes.episode_detail, name="episode"),
]
