"""The parts of the model server: artifacts, loaded models, scoring, chat, the one thread that owns them, routes."""
