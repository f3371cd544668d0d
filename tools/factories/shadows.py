"""Factories of shadows, their answers and their figures."""

from __future__ import annotations

import factory
from django.utils import timezone
from factory.django import DjangoModelFactory

from decisions.models import Shadow, ShadowAnswer, ShadowPoint
from tools.factories.decisions import OPTIONS, AgentFactory, DecisionFactory
from tools.factories.models_registry import ModelVersionFactory


class ShadowFactory(DjangoModelFactory[Shadow]):
    """Running, and without a job; `start_shadow` makes the whole."""

    class Meta:
        model = Shadow

    agent = factory.SubFactory(AgentFactory)
    workspace = factory.SelfAttribute("agent.workspace")
    version = factory.SubFactory(
        ModelVersionFactory, registered_model=factory.SelfAttribute("..agent.registered_model")
    )
    reason = "learnt from October"
    requested_by = "system"


class ShadowAnswerFactory(DjangoModelFactory[ShadowAnswer]):
    """It agrees with a decision of `DecisionFactory`."""

    class Meta:
        model = ShadowAnswer

    shadow = factory.SubFactory(ShadowFactory)
    workspace = factory.SelfAttribute("shadow.workspace")
    decision = factory.SubFactory(DecisionFactory, agent=factory.SelfAttribute("..shadow.agent"))
    probabilities = factory.LazyFunction(lambda: [0.8, *[0.2 / (len(OPTIONS) - 1)] * (len(OPTIONS) - 1)])
    place = 0
    pick = OPTIONS[0]
    agrees = True
    answered_at = factory.LazyFunction(timezone.now)


class ShadowPointFactory(DjangoModelFactory[ShadowPoint]):
    class Meta:
        model = ShadowPoint

    shadow = factory.SubFactory(ShadowFactory)
    workspace = factory.SelfAttribute("shadow.workspace")
    at = factory.LazyFunction(timezone.now)
    answered = 100
    failed = 0
    agreement = 0.7
    agreement_low = 0.6
    agreement_high = 0.8
