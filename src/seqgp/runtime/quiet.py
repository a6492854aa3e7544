"""XLA's notices about slow compilation are kept from users: imported with ``seqgp``, before JAX.

XLA prints a page, as an error, about each compilation of more than two minutes. JAX reads the variable once, when it is
first imported, so this module imports nothing. Who sets ``TF_CPP_MIN_LOG_LEVEL`` keeps that value.
"""

import os

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
