"""``python -m seqgp`` is ``seqgp``."""

from seqgp.cli import main

main()
