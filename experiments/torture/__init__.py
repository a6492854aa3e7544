"""Runs on disk under attack: ``make torture`` prints what was tried and what held."""
