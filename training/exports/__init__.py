"""Versions as files for other programs, and as models of an Ollama server."""
