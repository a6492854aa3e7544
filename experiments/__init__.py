"""The paper, figure by figure: one command each, with the numbers expected."""

import seqgp.runtime.quiet  # noqa: F401  (before JAX)
