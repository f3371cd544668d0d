"""Rows of decisions, one file a shape of the action: a choice, a ranking, a text.

Each has `write_rows(decision)`: the decision's rows, or why it makes none, a key of
`training.datasets.snapshots.preview.WHY`. `training.rows.shapes_of.shapes` says which agent's version has which shape.
"""
