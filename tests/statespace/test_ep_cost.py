"""What EP of an easy snapshot costs, counted: likelihood evaluations and sweeps over counts."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.special import gammaln

from seqgp.statespace import quadrature
from seqgp.statespace.snapshot_ep import propagate
from seqgp.statespace.update import laplace

BEFORE = 8 * 24  # eight sweeps with 24 nodes each: the fixed rule, which did not look where the likelihood is


@pytest.mark.parametrize(("n", "most"), [(10, 1.2), (80, 1.5)])
def test_easy_counts_cost_little_more_than_a_fixed_rule(n, most, monkeypatch):
    """An evaluation is of all data at once, so the work for each hardly grows with their number."""
    rng, count = np.random.default_rng(0), {"likelihood": 0, "sweep": 0}
    x = np.linspace(0, 0.3 * n, n)
    spread = 0.5 * np.exp(-np.abs(x[:, None] - x[None, :]))
    y = rng.poisson(np.exp(1 + np.linalg.cholesky(spread) @ rng.normal(size=n))).astype(float)
    times = quadrature.Tabulated.times

    def note(what):
        jax.debug.callback(lambda _: count.update({what: count[what] + 1}), jnp.zeros(()))

    def counted_times(table, gaussians):
        note("sweep")
        return times(table, gaussians)

    def log_density(u):
        jax.debug.callback(lambda _: count.update(likelihood=count["likelihood"] + 1), u)
        return y * (1 + u) - jnp.exp(1 + u) - gammaln(y + 1)

    _, start = jax.jit(lambda spread: laplace(log_density, spread))(spread)
    jax.effects_barrier()
    count["likelihood"] = 0
    monkeypatch.setattr(quadrature.Tabulated, "times", counted_times)
    whole = jax.jit(lambda spread: propagate(log_density, start, spread, jnp.ones(n, bool), signed=False))
    found = jax.block_until_ready(whole(spread))
    jax.effects_barrier()
    print(count)
    assert not np.any(found.fault)
    assert count["sweep"] <= 8
    assert count["likelihood"] <= most * BEFORE
