"""From which reward on a decision counts as right where a run does not say otherwise. Loads nothing."""

RIGHT_FROM = 0.6
