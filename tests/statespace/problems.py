"""Small state-space problems with data, and dense NumPy versions of them."""

import jax.numpy as jnp
import numpy as np
from scipy.special import gammaln

from seqgp.kernels.states import MaternState
from seqgp.statespace.ep import ObservedHistory
from seqgp.statespace.gauss_markov import ObservationOperator, gauss_markov


def problem(times, sites, lengthscale=1.0, scale=1.0, order=2, q=1, index=True, seed=0, offset=0.0, missing=0.2):
    """A Matérn state at sites on a line, irregular times, some data missing; the latent's own covariance beside it."""
    rng = np.random.default_rng(seed)
    t = np.cumsum(rng.uniform(0.2, 1.2, times))
    x = np.linspace(0.0, 2.0, sites) if sites > 1 else np.zeros(1)
    space = scale**2 * (np.exp(-np.abs(x[:, None] - x[None, :])) + 1e-9 * np.eye(sites))
    state, parameters = MaternState(order), {"lengthscale": jnp.asarray(lengthscale)}
    stationary = np.asarray(state.stationary(parameters))
    dt = np.diff(t, prepend=t[0])
    moves = np.stack([np.asarray(state.transition(parameters, jnp.asarray(d))) for d in dt])
    noises = np.stack([stationary - move @ stationary @ move.T for move in moves])
    n = order * sites + q
    cov = np.zeros((n, n))
    cov[: order * sites, : order * sites] = np.kron(stationary, space)
    cov[order * sites :, order * sites :] = 0.3 * np.eye(q)
    prior = gauss_markov(jnp.asarray(cov), jnp.asarray(moves), (jnp.asarray(noises),), (jnp.asarray(space),))
    seen = rng.uniform(size=(times, sites)) > missing
    h = np.tile(np.asarray(state.observe(parameters)), (times, 1))
    mixing = np.eye(sites) if index else np.abs(rng.normal(size=(sites, sites))) / sites
    operator = ObservationOperator(
        h,
        np.tile(np.arange(sites), (times, 1)) if index else None,
        None if index else np.tile(mixing, (times, 1, 1)),
        rng.normal(size=(times, sites, q)),
        np.full((times, sites), offset),
        seen,
    )
    return prior, operator


def dense(prior, operator):
    """Mean and covariance of all ``f_ti``, in the order of time, from matrices written out."""
    times, n = prior.move.shape[0], prior.cov.shape[0]
    sites, order = prior.space[0].shape[0], prior.move.shape[1]
    q = n - order * sites
    full = np.zeros((times * n, times * n))
    cov = np.asarray(prior.cov)
    steps = []
    for t in range(times):
        full[t * n : (t + 1) * n, t * n : (t + 1) * n] = cov
        a = np.eye(n)
        a[: order * sites, : order * sites] = np.kron(np.asarray(prior.move[t]), np.eye(sites))
        steps.append(a)
        q_t = float(prior.floor[t]) * np.eye(n)
        q_t[: order * sites, : order * sites] += np.kron(np.asarray(prior.noise[0][t]), np.asarray(prior.space[0]))
        cov = a @ cov @ a.T + q_t
    for s in range(times):
        block = full[s * n : (s + 1) * n, s * n : (s + 1) * n]
        for t in range(s + 1, times):
            block = steps[t - 1] @ block
            full[t * n : (t + 1) * n, s * n : (s + 1) * n] = block
            full[s * n : (s + 1) * n, t * n : (t + 1) * n] = block.T
    rows = []
    for t in range(times):
        weights = np.eye(sites)[operator.index[t]] if operator.weights is None else operator.weights[t]
        h_t = np.concatenate([np.kron(np.asarray(operator.h[t])[None, :], weights), operator.design[t]], axis=1)
        row = np.zeros((h_t.shape[0], times * n))
        row[:, t * n : (t + 1) * n] = h_t
        rows.append(row)
    big = np.concatenate(rows)
    assert q == operator.design.shape[2]
    return operator.offset.reshape(-1), big @ full @ big.T


def poisson(f, y):
    return y * f - jnp.exp(f) - gammaln_data(y)


def gammaln_data(y):
    from jax.scipy.special import gammaln as jax_gammaln

    return jax_gammaln(y + 1)


def poisson_numpy(f, y):
    return y * f - np.exp(f) - gammaln(y + 1)


def counts(prior, operator, seed=1):
    """Poisson counts drawn from the model."""
    rng = np.random.default_rng(seed)
    mean, cov = dense(prior, operator)
    f = rng.multivariate_normal(mean, cov)
    return rng.poisson(np.exp(f)).reshape(operator.offset.shape).astype(float)


def history_of(prior, operator, y):
    return ObservedHistory(prior, operator, jnp.asarray(y))
