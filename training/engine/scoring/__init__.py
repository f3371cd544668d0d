"""What a model makes of many rows, without gradients: scores, states, answers, calibration."""
