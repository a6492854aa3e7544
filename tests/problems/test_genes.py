"""Gene regulation: the likelihood solves the equations, and the run recovers what it says."""

import jax.numpy as jnp
import numpy as np
import pytest
from experiments import genes
from scipy.integrate import solve_ivp


def test_expression_solves_the_equations():
    """Against a solver of ordinary differential equations, for an activity that is linear between grid points."""
    f = np.random.default_rng(0).normal(size=len(genes.GRID))

    def slope(t, x):
        return genes.BASAL + genes.SENSITIVITY * np.interp(t, genes.GRID, f) - genes.DECAY * x

    rest = genes.BASAL / genes.DECAY
    solved = solve_ivp(slope, (0, 12), rest, t_eval=genes.TIMES, max_step=0.05, rtol=1e-9, atol=1e-10)
    found = genes.expression(jnp.asarray(f), genes.BASAL, genes.SENSITIVITY, genes.DECAY)
    assert np.asarray(found) == pytest.approx(solved.y, abs=1e-6)


def test_it_runs():
    """One replicate, few draws: an activity of the right shape, and tables of what was drawn."""
    args = genes.parse(["--quick"])
    data = genes.simulated(0, 1)
    run, found, _ = genes.sampled(genes.model(), data, args)
    assert found[0].shape == (args.draws, len(genes.GRID))
    assert np.corrcoef(found[0].mean(axis=0), data.activity[0])[0, 1] > 0.8
    parameters = dict(run.state.parameters)
    assert "| sensitivity | 2 |" in genes.parameter_table(parameters)
    assert "| decay | 5 |" in genes.parameter_table(parameters)
    assert genes.activity_table(found, data.activity).count("\n") == 2
    assert len(genes.figure(found, data, parameters).axes) == 3
