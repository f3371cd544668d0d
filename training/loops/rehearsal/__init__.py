"""Rehearsals: the loop on a team's labelled texts, before anything goes live.

`source` reads the file, `plan` divides its rows, `person` gives feedback, `recipe` holds the training settings, `loop`
walks serve → record → feedback → reward → dataset → train in the ledger, `outlook` extrapolates, `report` collects the
results. `services` starts and ends a rehearsal for `manage.py rehearse` and the pages.
"""
