"""The past revised: against the exact posterior at known parameters."""

import jax
import numpy as np
import numpyro.distributions as dist
import pytest

import seqgp
from seqgp import kernels
from seqgp.reference import gaussian_posterior
from streams import sampled, snapshots

NEW = np.array([[0.1, 0.9], [1.5, -0.2], [0.45, 0.5]])


def known(mean=0.5):
    return seqgp.Model(
        kernel=seqgp.Separable(time=seqgp.kernels.Matern32(2.0), space=seqgp.kernels.Matern12(1.0), scale=1.0),
        mean=mean,
        likelihood=seqgp.likelihoods.Gaussian(0.3),
    )


def test_paths_are_of_the_exact_posterior():
    """Means and variances at three past times; 4 standard errors of 1500 draws."""
    data = snapshots(missing=0.2)
    sampler = seqgp.OnlineSampler(known(), particles=16, draws=1500)
    state, _ = sampled(sampler, data)
    times = [data[i].t for i in (0, 5, 10)]
    found = seqgp.smooth(jax.random.key(1), sampler, state, times, draws=1500)
    exact = gaussian_posterior(known(), data, known().parameters(np.zeros(0)))
    for i, latent in zip((0, 5, 10), found.latent):
        sd = np.sqrt(np.diag(exact[i].covariance))
        assert np.abs((latent.mean(axis=0) - exact[i].mean) / sd).max() < 4 / np.sqrt(1500)
        assert latent.std(axis=0) / sd == pytest.approx(np.ones(5), abs=4 / np.sqrt(2 * 1500))


def test_a_time_between_snapshots_is_between_them():
    data = snapshots()
    sampler = seqgp.OnlineSampler(known(dist.Normal(0.0, 1.0)), particles=16, draws=400)
    state, _ = sampled(sampler, data)
    between = 0.5 * (data[4].t + data[5].t)
    found = seqgp.smooth(jax.random.key(1), sampler, state, [data[4].t, between, data[5].t], draws=400)
    before, middle, after = (latent.mean(axis=0) for latent in found.latent)
    assert np.abs(middle - 0.5 * (before + after)).max() < 0.35
    with pytest.raises(seqgp.DataError, match="not between the first and the last time"):
        seqgp.smooth(jax.random.key(1), sampler, state, [data[-1].t + 1])
    for times in (data[4].t, []):
        with pytest.raises(seqgp.DataError, match=r"is not a list of times; for one time give \[t\]"):
            seqgp.smooth(jax.random.key(1), sampler, state, times)
    with pytest.raises(seqgp.SamplerError, match="draws = 0 is not a whole number"):
        seqgp.smooth(jax.random.key(1), sampler, state, [data[4].t], draws=0)
    another = seqgp.OnlineSampler(known(0.7), particles=16)
    with pytest.raises(seqgp.SamplerError, match="smooth: the state is of another model"):
        seqgp.smooth(jax.random.key(1), another, state, [data[4].t])
    jax.config.update("jax_enable_x64", False)
    try:
        with pytest.raises(seqgp.SamplerError, match="double precision"):
            seqgp.smooth(jax.random.key(1), sampler, state, [data[4].t])
    finally:
        jax.config.update("jax_enable_x64", True)


def matern32(distance, lengthscale):
    scaled = 3**0.5 * distance / lengthscale
    return (1 + scaled) * np.exp(-scaled)


def one_term(dt, dx):
    return matern32(dt, 2.0) * np.exp(-dx)


def two_terms(dt, dx):
    return one_term(dt, dx) + 0.6**2 * np.exp(-dt / 0.7) * matern32(dx, 0.4)


TERMS = {
    "one term": (one_term, seqgp.Separable(time=kernels.Matern32(2.0), space=kernels.Matern12(1.0), scale=1.0)),
    "two terms": (
        two_terms,
        seqgp.Separable(time=kernels.Matern32(2.0), space=kernels.Matern12(1.0), scale=1.0)
        + seqgp.Separable(time=kernels.Matern12(0.7), space=kernels.Matern32(0.4), scale=0.6),
    ),
}


def dense_posterior(covariance, data, times, x, mean=0.5, noise=0.3):
    """Mean and covariance of ``f`` at all pairs of times and inputs, by the algebra of Gaussians in NumPy."""
    seen = [(one.t, place, y) for one in data for place, y in zip(one.x, one.y) if np.isfinite(y)]
    asked = [(t, place) for t in times for place in x]
    at = np.array([t for t, *_ in seen]), np.array([place for _, place, _ in seen])
    to = np.array([t for t, _ in asked]), np.array([place for _, place in asked])

    def between(a, b):
        return covariance(np.abs(a[0][:, None] - b[0]), np.linalg.norm(a[1][:, None] - b[1], axis=2))

    gain = np.linalg.solve(between(at, at) + noise**2 * np.eye(len(seen)), between(at, to)).T
    y = np.array([y for *_, y in seen])
    return mean + gain @ (y - mean), between(to, to) - gain @ between(at, to)


@pytest.mark.parametrize("terms", TERMS)
def test_new_places_at_past_times_agree_with_dense_algebra(terms):
    """Mean and covariance jointly over 3 places and 3 times (one between snapshots); 54 numbers within 5 standard
    errors of 3000 draws, a false alarm in 3e4."""
    covariance, kernel = TERMS[terms]
    data, draws = snapshots(missing=0.2), 3000
    model = seqgp.Model(kernel=kernel, mean=0.5, likelihood=seqgp.likelihoods.Gaussian(0.3))
    sampler = seqgp.OnlineSampler(model, particles=16, draws=draws)
    state, _ = sampled(sampler, data)
    times = [data[2].t, 0.3 * data[2].t + 0.7 * data[3].t, data[9].t]
    found = seqgp.smooth(jax.random.key(3), sampler, state, times, x=NEW, draws=draws)
    mean, exact = dense_posterior(covariance, data, times, NEW)
    white = np.linalg.solve(np.linalg.cholesky(exact), (np.concatenate(found.latent, axis=1) - mean).T)
    assert np.abs(white.mean(axis=1)).max() < 5 / np.sqrt(draws)
    assert np.abs(white @ white.T / draws - np.eye(len(white))).max() < 5 * np.sqrt(2 / draws)


def test_sites_subsets_permutations_and_repeated_places_are_one_function():
    """With one key the path is one path: a place has one value, however and wherever it is asked for."""
    data = snapshots(missing=0.2)
    sampler = seqgp.OnlineSampler(known(), particles=16, draws=20)
    state, _ = sampled(sampler, data)
    times = [data[7].t, data[1].t, data[7].t]
    at_data = seqgp.smooth(jax.random.key(5), sampler, state, times)
    x = data[0].x
    chosen = np.array([3, 0, 3])
    few = seqgp.smooth(jax.random.key(5), sampler, state, times, x=x[chosen])
    for one, other in zip(few.latent, at_data.latent):
        np.testing.assert_array_equal(one, other[:, chosen])
    mixed = seqgp.smooth(
        jax.random.key(5), sampler, state, times, x=np.concatenate([NEW[:1], x[2:3], NEW[:2], NEW[:1]])
    )
    for one, other in zip(mixed.latent, at_data.latent):
        np.testing.assert_array_equal(one[:, 1], other[:, 2])
        np.testing.assert_array_equal(one[:, [0, 0]], one[:, [2, 4]])
    np.testing.assert_array_equal(mixed.latent[0], mixed.latent[2])
    assert mixed.x[0].shape == (5, 2)
    assert mixed.times == tuple(times)


def test_covariates_at_new_places():
    """The mean at new places takes its covariates from ``context=``, which may change in time."""
    data = [
        one._replace(y=one.y + 3.0 * np.arange(5) * one.t, context={"height": np.arange(5.0) * one.t})
        for one in snapshots()
    ]
    mean = seqgp.means.Linear(["height"], weights=dist.Normal(0.0, 10.0), intercept=0.5)
    sampler = seqgp.OnlineSampler(known(mean), particles=16, draws=400)
    state, _ = sampled(sampler, data)
    times = [data[3].t, data[8].t]
    found = seqgp.smooth(
        jax.random.key(1), sampler, state, times, x=NEW, context=lambda t: {"height": np.full(3, 10.0 * t)}
    )
    for t, latent in zip(times, found.latent):
        assert np.abs(latent.mean(axis=0) - 30.0 * t).max() < 3.0  # sd of f about the mean is 1
    with pytest.raises(seqgp.DataError, match="height"):
        seqgp.smooth(jax.random.key(1), sampler, state, times, x=NEW)
    with pytest.raises(seqgp.DataError, match="context is given without x"):
        seqgp.smooth(jax.random.key(1), sampler, state, times, context={"height": np.zeros(5)})


def test_inputs_that_are_none_are_refused():
    data = snapshots()
    sampler = seqgp.OnlineSampler(known(), particles=16, draws=20)
    state, _ = sampler.init(jax.random.key(0), data[0])
    for x, said in [
        (np.zeros((2, 3)), "3 columns, but the data have 2"),
        (np.zeros(2), "expected"),
        ([[0.0, np.nan]], "not finite"),
    ]:
        with pytest.raises(seqgp.DataError, match=said):
            seqgp.smooth(jax.random.key(1), sampler, state, [data[0].t], x=x)


def test_new_places_between_knots():
    """On knots the latent is interpolated: at the data, as everywhere in the domain."""
    data = snapshots()
    model = seqgp.Model(
        kernel=seqgp.Separable(time=kernels.Matern32(2.0), space=kernels.SquaredExponential(1.0), scale=1.0),
        mean=0.5,
        likelihood=seqgp.likelihoods.Gaussian(0.3),
    )
    knots = seqgp.Knots(domain=[(-0.5, 1.5), (-0.5, 1.5)])
    sampler = seqgp.OnlineSampler(model, particles=16, draws=20, latent=knots)
    state, _ = sampled(sampler, data)
    times = [data[4].t]
    at_data = seqgp.smooth(jax.random.key(5), sampler, state, times)
    again = seqgp.smooth(jax.random.key(5), sampler, state, times, x=data[4].x[::-1])
    np.testing.assert_allclose(again.latent[0], at_data.latent[0][:, ::-1], rtol=1e-12)
    with pytest.raises(seqgp.DataError, match="outside the domain"):
        seqgp.smooth(jax.random.key(5), sampler, state, times, x=[[3.0, 0.0]])
