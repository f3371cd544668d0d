"""Factories of jobs and their hints."""

from __future__ import annotations

import factory
from factory.django import DjangoModelFactory

from jobs.models import Job, Outbox


class JobFactory(DjangoModelFactory[Job]):
    class Meta:
        model = Job

    kind = "tests.nothing"


class OutboxFactory(DjangoModelFactory[Outbox]):
    class Meta:
        model = Outbox

    job = factory.SubFactory(JobFactory)
