"""Double precision: one line before anything else."""

from __future__ import annotations

import jax


def enable_x64() -> None:
    """Switch JAX to double precision in this process: the first line of every program.

    The Cholesky factor of a smooth kernel fails in single precision, JAX's default. Importing seqgp changes no setting
    of JAX. This function is ``jax.config.update("jax_enable_x64", True)``.
    """
    jax.config.update("jax_enable_x64", True)
