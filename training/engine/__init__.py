"""The training engine: a program without Django whose interface is a folder.

`python -m training.engine RUN_DIR` reads `spec.json` and `data/`, and writes `attempts/<n>/` with `events.jsonl`,
`checkpoints/`, `model/` or `adapter/` and, last, `result.json`. Only this package imports torch.
"""
