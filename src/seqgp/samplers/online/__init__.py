"""Exact online inference: particles of parameter values, each with a filter of its own."""
