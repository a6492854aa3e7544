"""Runs on disk, ArviZ export and tables: what is kept, and how it is read again."""
