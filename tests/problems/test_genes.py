"""Gene regulation: the likelihood solves the equations, and the run recovers what it says."""

import jax.numpy as jnp
import numpy as np
import pytest
from experiments import genes
from numpyro.handlers import substitute, trace
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
    table = genes.parameter_table(parameters, parameters)
    assert "| sensitivity | 2 |" in table
    assert "| decay | 5 |" in table
    assert "0.00 sds apart" in table
    assert genes.activity_table(found, data.activity).count("\n") == 2
    assert len(genes.figure(found, data, parameters).axes) == 3


def test_the_reference_is_the_same_model():
    """At any parameters and white noise NumPyro's model expects the data that ours expects."""
    which = genes.model()
    rng = np.random.default_rng(1)
    z = 0.3 * rng.standard_normal(len(which.names))
    z[which.names.index("space.lengthscale")] = -3.0  # short: roots that hardly depend on the jitter
    parameters = which.parameters(jnp.asarray(z))
    white = rng.standard_normal((2, len(genes.GRID)))
    fixed = {name: parameters[name] for name in which.inferred} | {"white": white}
    sites = trace(substitute(genes.refit_model, fixed)).get_trace(jnp.zeros((2, 5, len(genes.TIMES))))
    t, x = jnp.repeat(jnp.arange(2.0), len(genes.GRID)), jnp.tile(genes.GRID, 2)[:, None]
    jitter = 1e-8 * parameters["scale"] ** 2 * np.eye(len(t))
    root = np.linalg.cholesky(which.kernel.covariance(which.kernel.prepare(t, x), parameters) + jitter)
    for i, f in enumerate(jnp.asarray(root @ white.reshape(-1)).reshape(2, -1)):
        ours = which.likelihood.distribution(f, None, parameters)
        assert sites[f"y{i}"]["fn"].loc == pytest.approx(np.asarray(ours.loc), abs=1e-5)
        assert sites[f"y{i}"]["fn"].scale == pytest.approx(float(parameters["noise"]))
