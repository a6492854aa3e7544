"""Compiled once, run on all cores, with progress."""
