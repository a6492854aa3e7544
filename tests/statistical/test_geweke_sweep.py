"""Geweke's joint test of composed sweeps on stacked snapshots, as the full sampler has them."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import seqgp
import small
from geweke import BOUND, largest_score
from seqgp.mcmc.informed import InformedTuning, QuadraticApproximation
from seqgp.mcmc.plain import PlainTuning
from seqgp.mcmc.problem import target_of
from seqgp.mcmc.student import Student
from seqgp.mcmc.target import position_at
from seqgp.samplers.full.stacked import stacked_problem

SIZES = (2, 1)
SITES = 2 * max(SIZES)  # the second snapshot is padded


def problem(of):
    rng = np.random.default_rng(0)
    snapshots = [seqgp.Snapshot(t=0.5 * i, x=rng.uniform(size=(n, 1)), y=np.ones(n)) for i, n in enumerate(SIZES)]
    return stacked_problem(of, snapshots)[0]


def tuning_of(updates, d):
    """Anything fixed leaves the posterior invariant."""
    precision = jnp.array([2.0, 1.0, 3.0, 0.0])
    if isinstance(updates, seqgp.Plain):
        return PlainTuning(precision)
    approximation = QuadraticApproximation(
        jnp.sqrt(precision), jnp.array([0.5, -0.3, 0.4, 0.0]), jnp.full(d, 0.1), jnp.zeros(d)
    )
    return InformedTuning(approximation, Student(jnp.full(d, 0.2), 1.4 * jnp.eye(d)))


def replicate(of, updates, key, transitions):
    """``(z, nu)`` in standard form after resimulations of the data and sweeps, starting from the prior."""
    base, (mean, covariance) = problem(of), of.prior_of_z()
    sd = jnp.sqrt(jnp.diagonal(jnp.asarray(covariance)))
    tuning = tuning_of(updates, len(mean))

    def target_for(data):
        observed = tuple(o._replace(y=y) for o, y in zip(base.observed, data))
        return target_of(of, base._replace(observed=observed))

    def transition(state, key):
        key_data, key_sweep = jax.random.split(key)
        z, nu = state
        blind = target_for(tuple(o.y for o in base.observed))
        sites = position_at(blind, z, nu, seqgp.Plain().chart_at(blind, z, PlainTuning(jnp.zeros(SITES)))).sites
        parameters = of.parameters(z)
        keys = jax.random.split(key_data, len(base.observed))
        f = sites.reshape(len(base.observed), -1) + parameters["mean"]
        data = tuple(
            jnp.asarray(of.likelihood.distribution(f[i], None, parameters).sample(keys[i]), float)
            for i in range(len(base.observed))
        )
        target = target_for(data)
        start = position_at(target, z, nu, updates.chart_at(target, z, tuning))
        moved, _ = updates.sweep(key_sweep, target, start, tuning, True)
        return (moved.z, moved.nu), None

    key_z, key_nu, key_chain = jax.random.split(key, 3)
    z = jnp.asarray(mean) + sd * jax.random.normal(key_z, mean.shape)
    start = (z, jax.random.normal(key_nu, (SITES,)))
    (z, nu), _ = jax.lax.scan(transition, start, jax.random.split(key_chain, transitions))
    return jnp.concatenate([(z - jnp.asarray(mean)) / sd, nu])


@pytest.mark.parametrize(
    "likelihood", [seqgp.likelihoods.Gaussian(seqgp.ScaledSigmoid(0.2, 0.9)), seqgp.likelihoods.Poisson()]
)
@pytest.mark.parametrize("updates", [seqgp.Plain(initial=(2, 1, 1)), seqgp.Informed()])
def test_a_sweep_on_stacked_snapshots_leaves_the_posterior_invariant(likelihood, updates):
    of = small.model(scale=seqgp.ScaledSigmoid(0.3, 1.5), mean=seqgp.ScaledSigmoid(-1, 1), likelihood=likelihood)
    keys = jax.random.split(jax.random.key(0), 3000)
    values = jax.jit(jax.vmap(lambda key: replicate(of, updates, key, 5)))(keys)
    assert largest_score(np.asarray(values)) < BOUND
