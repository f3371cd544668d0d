"""The notes app's agents: one file for each kind, with its state, action, prompt and limits. PURE."""

from collections.abc import Mapping

from decisions.agents.kinds import filer, guardrail, librarian, prioritizer, retriever, storer
from decisions.agents.kinds.setup import KindSetup, action_schema, state_schema

__all__ = ["FIVE", "KINDS", "KindSetup", "action_schema", "state_schema"]

FIVE = ("FILER", "LIBRARIAN", "PRIORITIZER", "STORER", "RETRIEVER")
"""The notes app's own, in the order in which it names them."""
KINDS: Mapping[str, KindSetup] = {
    "FILER": filer.SETUP,
    "LIBRARIAN": librarian.SETUP,
    "PRIORITIZER": prioritizer.SETUP,
    "STORER": storer.SETUP,
    "RETRIEVER": retriever.SETUP,
    "GUARDRAIL": guardrail.SETUP,
}
"""What an agent of a kind takes that brings no set-up of its own. CUSTOM has none."""
