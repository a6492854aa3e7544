"""What can go wrong with files: each error names the file and the remedy."""

from __future__ import annotations

from seqgp.base.errors import SeqgpError


class StoreError(SeqgpError):
    """A run on disk that cannot be read, written or continued as asked."""


class DamagedError(StoreError):
    """A file of a run that is truncated, corrupted, foreign or gone."""


class PassingError(StoreError):
    """What may be over in a moment: another process holds the run, the disk is full. Worth trying again."""


class TableError(SeqgpError, ValueError):
    """A table that cannot be read as snapshots."""
