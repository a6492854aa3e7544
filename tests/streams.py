"""A small stream of stations, its exact posterior by quadrature, and a sampler run over it."""

import jax
import numpy as np
from scipy.special import logsumexp

import seqgp
import small
from seqgp.reference.marginal import log_marginal, observed_distances, stack

SITES, TIMES = 5, 12


def model(mean=0.5, likelihood=None):
    return small.model(
        time=seqgp.kernels.Matern32(seqgp.ScaledSigmoid(0, 6)),
        space=seqgp.kernels.Matern12(1.0),
        scale=seqgp.ScaledSigmoid(0, 3),
        mean=mean,
        likelihood=likelihood or seqgp.likelihoods.Gaussian(0.3),
    )


def snapshots(missing=0.0, late=False, seed=0):
    rng = np.random.default_rng(seed)
    x = rng.random((SITES, 2))
    times = np.cumsum(0.5 + rng.random(TIMES))
    distance = np.abs(times[:, None] - times[None, :]) / 2.0
    in_time = (1 + 3**0.5 * distance) * np.exp(-(3**0.5) * distance)
    in_space = np.exp(-np.linalg.norm(x[:, None] - x[None, :], axis=2))
    field = np.linalg.cholesky(np.kron(in_time, in_space) + 1e-9 * np.eye(SITES * TIMES)) @ rng.normal(
        size=SITES * TIMES
    )
    y = 0.5 + field.reshape(TIMES, SITES) + 0.3 * rng.normal(size=(TIMES, SITES))
    y = np.where(rng.random(y.shape) < missing, np.nan, y)
    few = 3 if late else SITES
    return [
        seqgp.Snapshot(t, x[: few if i < 5 else SITES], row[: few if i < 5 else SITES])
        for i, (t, row) in enumerate(zip(times, y))
    ]


def exact(model, data, nodes=41):
    """Log evidence and moments of the two parameters by quadrature over ``z``."""
    mean, covariance = model.prior_of_z()
    sd = np.sqrt(np.diag(covariance))
    line = np.linspace(-4, 4, nodes)
    grid = np.stack([g.reshape(-1) for g in np.meshgrid(*[m + s * line for m, s in zip(mean, sd)])], axis=1)
    stacked = stack(model, data)
    between = observed_distances(model, stacked)
    evidence = np.asarray(
        jax.jit(lambda z: jax.lax.map(lambda one: log_marginal(model, stacked, between, model.parameters(one)), z))(
            grid
        )
    )
    weight = -0.5 * (((grid - mean) / sd) ** 2).sum(axis=1)
    prior = weight - logsumexp(weight)
    total = logsumexp(prior + evidence)
    share = np.exp(prior + evidence - total)
    centre = share @ grid
    return total, centre, np.sqrt(share @ (grid - centre) ** 2)


def sampled(sampler, data, seed=0):
    state, info = sampler.init(jax.random.key(seed), data[0])
    for i, snapshot in enumerate(data[1:], start=1):
        state, info = sampler.step(jax.random.fold_in(jax.random.key(seed), i), state, snapshot)
    return state, info
