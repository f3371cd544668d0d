"""Pages that need every floor, under /w/<workspace>/."""

from django.urls import path

from project import views

urlpatterns = [
    path("", views.overview, name="overview"),
    path("loop", views.loop, name="loop"),
]
