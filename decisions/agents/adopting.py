"""Makes a version of an agent that won its experiment act. `registry_ledger` calls it."""

from __future__ import annotations

from decisions.agents.services import use_agent_version
from decisions.models import ArmSetup
from models_registry.models import Variant
from workspaces.access.actors import Actor


def adopt_version(by: Actor, variant: Variant) -> None:
    """The agent version of a variant that was promoted acts for its agent from now on."""
    setup = ArmSetup.objects.select_related("agent_version__agent").get(variant=variant)
    use_agent_version(by=by, version=setup.agent_version)
