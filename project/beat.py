"""The Celery application of beat, which only sends the names of tasks: it loads none, and takes 50 MB less for it."""

from project.celery import make_app

app = make_app()
