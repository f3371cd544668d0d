"""The interface of a run's folder: types of `spec.json` and `result.json`, and the tables behind them. No torch, no
Django."""
