"""URLs of pages that need every floor, under /w/<workspace>/."""

from django.urls import path

from project.pages import connect_views, views
from project.pages import keys as key_views
from project.pages import rewards as rewards_views
from project.upkeep import views as upkeep_views

urlpatterns = [
    path("", views.overview, name="overview"),
    path("loop", views.loop, name="loop"),
    path("decisions/rewards", rewards_views.rewards, name="rewards"),
    path("decisions/rewards/status", rewards_views.rewards_status, name="rewards-status"),
    path("decisions/rewards/calculate", rewards_views.rewards_calculate, name="rewards-calculate"),
    path("disk", upkeep_views.disk, name="disk"),
    path("connect", connect_views.connect, name="connect"),
    path("connect/keys", connect_views.key_make, name="key-make"),
    path("connect/keys/<uuid:pk>", connect_views.key_made, name="key-made"),
    path("connect/keys/<uuid:pk>/limits", key_views.key_limits, name="key-limits"),
    path("connect/keys/<uuid:pk>/arrival", connect_views.key_arrival, name="key-arrival"),
    path("connect/keys/<uuid:pk>/revoke", connect_views.key_revoke, name="key-revoke"),
    path("demo/start", connect_views.demo_start, name="demo-start"),
]
