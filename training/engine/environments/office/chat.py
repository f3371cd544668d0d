"""The office's chat: people, channels, and colleagues who answer when asked."""

from __future__ import annotations

from training.engine.environments.office.tables import ToolError, one_cell
from training.engine.environments.office.world import ME, Message, World

MOST_MESSAGES = 1000
LONGEST = 2000
"""Characters of a message."""


def list_people(world: World) -> str:
    return ", ".join(world.people)


def post_message(world: World, to: str, text: str | None = None) -> str:
    """To a person or a channel; without a text it says what lies on the desk."""
    if to in world.people:
        world.person(to)
    elif world.open_to_me(to) not in world.channels:
        raise ToolError(f"no person or channel {to}")
    _post(world, Message(ME, to, world.on_desk.as_text()[:LONGEST] if text is None else text))
    return "sent"


def ask_person(world: World, person: str, question: str = "?") -> str:
    """Their answer comes onto the desk."""
    reply = world.replies.get(world.person(person), "I do not know")
    _post(world, Message(ME, person, question, question=True), Message(person, ME, reply))
    return f"{person}: {world.lay(one_cell('text', reply)).as_text()}"


def read_channel(world: World, channel: str) -> str:
    """Its last message, onto the desk."""
    _members(world, channel)
    said = [message.text for message in world.messages if message.to == channel]
    if not said:
        raise ToolError(f"nothing in {channel}")
    return world.lay(one_cell("text", said[-1])).as_text()


def add_member(world: World, channel: str, person: str) -> str:
    members = _members(world, channel)
    if world.person(person) not in members:
        members.append(person)
    return "added"


def _members(world: World, channel: str) -> list[str]:
    if world.open_to_me(channel) not in world.channels:
        raise ToolError(f"no channel {channel}")
    return world.channels[channel]


def _post(world: World, *messages: Message) -> None:
    if any(len(message.text) > LONGEST for message in messages):
        raise ToolError(f"more than {LONGEST} characters")
    if len(world.messages) + len(messages) > MOST_MESSAGES:
        raise ToolError("too many messages")
    world.messages.extend(messages)
