"""The demo: real text, an agent that sorts it, and a simulated reader who gives feedback."""
