"""The loop rehearsed on labelled texts: what Reckoner would do with a team's data, before anything goes live.

`source` reads the file, `plan` divides its rows, `person` stands for whoever gives feedback, `recipe` says how the
engine is to train, `loop` walks serve → record → feedback → reward → dataset → train in the ledger, `outlook`
calculates what it would take, `report` tells it. `services` starts and ends a rehearsal; `manage.py rehearse` and pages
call it.
"""
