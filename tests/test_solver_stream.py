"""The experiment with a solver as the likelihood runs, and finds the online sampler near the exact posterior."""

import jax
import numpy as np
from experiments import diffusion, solver_stream

import seqgp


def test_exact_weights_are_nearly_equal_where_the_linearisation_is_good():
    sampler = seqgp.OnlineSampler(diffusion.model(), particles=32, draws=100)
    snapshot = diffusion.simulate(0, 1).snapshots[0]
    state, _ = sampler.init(jax.random.key(0), snapshot)
    truth = solver_stream.exact(sampler, state)
    assert truth.ess > 40
    row = solver_stream.row_of(truth, state)
    assert row["bias of f"] < 0.3
    assert np.isfinite(list(row.values())).all()
