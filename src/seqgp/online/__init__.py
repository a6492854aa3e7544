"""Exact online inference: a cloud of parameter values, each with a filter of its own."""
