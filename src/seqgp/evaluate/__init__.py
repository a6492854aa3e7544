"""What the draws are good for: prediction, scores, calibration."""
