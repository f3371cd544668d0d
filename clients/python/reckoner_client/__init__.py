"""Records what AI agents decide, and how it went, into a Reckoner. See docs/clients.md.

client = Reckoner()                     # RECKONER_URL, RECKONER_KEY
decision = client.record_decision("filer", {"text": "…"}, "graphs", policy_name="my-own-rules")
client.record_feedback("verdict", "confirmed", decision_id=decision)
client.decide("filer", {"text": "…"}).action
"""

from reckoner_client.client import VERSION, Answer, Reckoner
from reckoner_client.errors import ConfigurationError, ReckonerError, Refused, Unavailable
from reckoner_client.following import tool
from reckoner_client.hook import Hook, hook_into_agent
from reckoner_client.recording import Recording, ToolCall, current_recording
from reckoner_client.sender import Sending, Stats
from reckoner_client.wire import uuid7

__version__ = VERSION
__all__ = [
    "Answer",
    "ConfigurationError",
    "Hook",
    "Reckoner",
    "ReckonerError",
    "Recording",
    "Refused",
    "Sending",
    "Stats",
    "ToolCall",
    "Unavailable",
    "__version__",
    "current_recording",
    "hook_into_agent",
    "tool",
    "uuid7",
]
