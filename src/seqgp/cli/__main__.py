"""``python -m seqgp.cli``."""

from seqgp.cli import main

if __name__ == "__main__":  # the processes of a local cluster import this module as well
    main()
