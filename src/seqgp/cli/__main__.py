"""``python -m seqgp.cli``."""

from seqgp.cli import main

main()
