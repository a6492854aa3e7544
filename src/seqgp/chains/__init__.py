"""Chains started, tuned, warmed up, drawn from, diagnosed."""
