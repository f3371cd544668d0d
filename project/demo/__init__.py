"""The demo world: real text, an agent that files it, and a reader who answers."""
