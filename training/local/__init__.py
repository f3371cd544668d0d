"""Runs without an instance: `manage.py train`, and the demo of acting."""
