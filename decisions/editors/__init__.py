"""Editors: how each kind of action is shown, and how a reviewer corrects it. `table.py` says which kind has which."""
