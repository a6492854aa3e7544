"""Time kernels of one's own in the online sampler: evidence and posterior against dense algebra of the true kernel."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest
from scipy.special import logsumexp
from scipy.stats import multivariate_normal

import seqgp
from seqgp import kernels
from seqgp.evaluate.choose import best_sampler

NOISE, X = 0.4, np.array([[0.0], [0.7], [2.0]])
TIMES = np.cumsum(0.3 + np.random.default_rng(3).random(14))


def in_time(r, width, power):
    return jnp.exp(-((jnp.where(r > 0, r, 1e-30) / width) ** power))


def model(time):
    return seqgp.Model(
        seqgp.Separable(time, kernels.Matern12(1.0), scale=1.0), likelihood=seqgp.likelihoods.Gaussian(NOISE)
    )


def log_evidence(correlation, y):
    """Of all data, dense, by the true correlation in time."""
    space = np.exp(-np.abs(X - X.T))
    covariance = np.kron(correlation, space) + NOISE**2 * np.eye(y.size)
    return multivariate_normal(np.zeros(y.size), covariance).logpdf(y.reshape(-1))


def data(correlation, seed=0):
    rng = np.random.default_rng(seed)
    covariance = np.kron(correlation, np.exp(-np.abs(X - X.T))) + NOISE**2 * np.eye(len(TIMES) * len(X))
    return (np.linalg.cholesky(covariance) @ rng.normal(size=len(covariance))).reshape(len(TIMES), len(X))


def ran(sampler, y):
    """State and info after all snapshots."""
    state = info = None
    for i, (t, row) in enumerate(zip(TIMES, y)):
        key, snapshot = jax.random.fold_in(jax.random.key(0), i), seqgp.Snapshot(float(t), X, row)
        state, info = sampler.init(key, snapshot) if state is None else sampler.step(key, state, snapshot)
    return state, info


APART = np.abs(TIMES[:, None] - TIMES[None, :])
STRETCHED = functools.partial(in_time, width=2.0, power=1.5)


def test_the_evidence_of_a_kernel_of_ones_own_is_the_true_one_within_the_told_error():
    y = data(np.asarray(STRETCHED(APART)))
    _, info = ran(seqgp.OnlineSampler(model(kernels.StationaryCovariance(in_time, width=2.0, power=1.5)), 16, 50), y)
    error, exact = info.extras["kernel_error"], log_evidence(np.asarray(STRETCHED(APART)), y)
    assert 0 < error < 1e-3
    assert not [one for one in info.warnings if "time kernel" in one]
    # The derivative of the evidence is at most ½ (|α|² + |K⁻¹|) |dK|; by the error of each entry, here:
    allowed = 0.5 * error * y.size / NOISE**2
    assert abs(info.log_evidence - exact) < allowed
    other = log_evidence(np.asarray(in_time(APART, 2.0, 1.3)), y)
    assert abs(info.log_evidence - other) > abs(info.log_evidence - exact) + 0.1


def test_a_correlation_that_stays_at_a_level():
    """With the level left out, the evidence is another."""
    lasting = lambda r: 0.7 + 0.3 * jnp.exp(-r / 2.0)  # noqa: E731
    y = data(np.asarray(lasting(APART)))
    choice = best_sampler(model(kernels.StationaryCovariance(lasting)), draws=50)
    assert isinstance(choice.sampler, seqgp.OnlineSampler)
    _, info = ran(choice.sampler, y)
    exact = log_evidence(np.asarray(lasting(APART)), y)
    assert abs(info.log_evidence - exact) < 1e-4 + 0.5 * info.extras["kernel_error"] * y.size / NOISE**2
    assert abs(log_evidence(0.3 * np.exp(-APART / 2.0), y) - exact) > 0.5


def weighted(y, correlation, draws):
    """Moments of parameters under the posterior, by importance sampling from their prior."""
    log = np.array([log_evidence(correlation(*one), y) for one in draws])
    weights = np.exp(log - logsumexp(log))
    mean = weights @ np.log(draws)
    return mean, np.sqrt(weights @ (np.log(draws) - mean) ** 2), logsumexp(log) - np.log(len(log))


@pytest.mark.parametrize("name", ["RationalQuadratic", "own"])
def test_the_posterior_of_the_shape_is_that_of_importance_sampling(name):
    """Monte Carlo errors of both are below 0.05 sds."""
    width = dist.LogNormal(0.5, 0.4)
    if name == "own":
        shape = seqgp.ScaledSigmoid(0.9, 1.9)
        time = kernels.StationaryCovariance(in_time, width=width, power=shape)
        correlation = lambda width, power: np.asarray(in_time(APART, width, power))  # noqa: E731
        names = ["time.width", "time.power"]
    else:
        shape = seqgp.ScaledSigmoid(0.3, 4.0)
        time = kernels.RationalQuadratic(width, alpha=shape)
        correlation = lambda width, alpha: (1 + 0.5 * (APART / width) ** 2 / alpha) ** -alpha  # noqa: E731
        names = ["time.lengthscale", "time.alpha"]
    y = data(correlation(2.0, 1.2), seed=1)
    state, info = ran(seqgp.OnlineSampler(model(time), 256, 4000), y)
    rng = np.random.default_rng(0)
    z = rng.normal(size=(6000, 2))
    values = shape.value(jnp.asarray(shape.loc + shape.scale * z[:, 1]))
    mean, sd, evidence = weighted(y, correlation, np.column_stack([np.exp(0.5 + 0.4 * z[:, 0]), values]))
    found = np.log(np.column_stack([np.asarray(state.parameters[one]) for one in names]))
    assert np.abs(found.mean(axis=0) - mean).max() < 0.15 * sd.max()
    assert (np.abs(found.mean(axis=0) - mean) / sd).max() < 0.2
    assert found.std(axis=0) / sd == pytest.approx([1.0, 1.0], abs=0.12)
    assert info.log_evidence == pytest.approx(evidence, abs=0.1 + 50 * info.extras["kernel_error"])


def test_the_online_sampler_is_chosen_and_what_has_no_state_is_named():
    own = kernels.StationaryCovariance(in_time, width=2.0, power=1.5)
    assert isinstance(best_sampler(model(own)).sampler, seqgp.OnlineSampler)
    box = kernels.StationaryCovariance(lambda r: jnp.where(r < 1, 1.0, 0.0))
    choice = best_sampler(model(box))
    assert isinstance(choice.sampler, seqgp.SequentialSampler)
    assert "no state of an order up to 10" in choice.why


def test_draws_beyond_the_fitted_values_are_told():
    """A prior far from the data: power within 1.70 to 1.72, by data of a rough process, leaves its range."""
    time = kernels.StationaryCovariance(in_time, width=2.0, power=dist.LogNormal(np.log(1.5), 0.01))
    sampler = seqgp.OnlineSampler(model(time), 16, 50)
    state, info = ran(sampler, data(np.asarray(STRETCHED(APART))))
    assert not [one for one in info.warnings if "outside" in one]
    from seqgp.samplers.online.info import _kernel_warnings

    moved = state._replace(parameters={"time.power": np.full(50, 1.9)})
    (told,) = _kernel_warnings(moved, sampler.ssm)
    assert "100% of the draws of time.power are outside 1.46 to 1.55" in told
