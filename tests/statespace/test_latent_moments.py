"""Moments of the latent without a covariance between all points are those of the covariance."""

import jax
import numpy as np
import numpyro.distributions as dist
import pytest

import seqgp
from seqgp.samplers.online import network
from seqgp.samplers.online.filters import filter_of, run_filters
from seqgp.samplers.online.history import build_timeline
from seqgp.samplers.online.layout import operator_of
from seqgp.statespace.latent_moments import latent_moments, moments_and_columns
from seqgp.statespace.observation import Query

GRID = np.stack(np.meshgrid(np.arange(4.0), np.arange(3.0), indexing="ij"), axis=-1).reshape(-1, 2)
ANYWHERE = np.random.default_rng(1).random((12, 2)) * 3
MODEL = seqgp.Model(
    seqgp.Separable(
        seqgp.kernels.Matern32(dist.LogNormal(0.0, 0.5)), seqgp.kernels.PerColumn([seqgp.kernels.Matern32(1.0)] * 2)
    ),
    seqgp.likelihoods.Gaussian(0.3),
    mean=dist.Normal(0.0, 2.0),
)


@pytest.mark.parametrize(
    ("x", "missing", "name"),
    [(GRID, 0.0, "rotated"), (ANYWHERE, 0.0, "rotated"), (ANYWHERE, 0.1, "low rank"), (ANYWHERE, 0.6, "dense")],
    ids=["grid", "complete", "gaps", "dense"],
)
def test_moments_and_columns_are_those_of_the_covariance(x, missing, name, monkeypatch):
    """At some of the sites, ahead in time; of the columns asked for, one is padding."""
    monkeypatch.setattr(network, "DENSE_BELOW", 4)
    rng, sampler = np.random.default_rng(0), seqgp.OnlineSampler(MODEL)
    y = np.where(rng.random((3, 12)) < missing, np.nan, rng.normal(size=(3, 12)))
    data = [seqgp.Snapshot(float(t), x, row) for t, row in enumerate(y)]
    history = build_timeline(sampler.ssm, "auto", data, [None] * 3)
    filters, _, _ = run_filters(history, sampler.ssm.particle_prior()[0][None], 3)
    filter = history.filter
    assert filter.name == name
    places = x[[7, 2, 9, 0, 11]]
    columns = sampler.ssm.columns(3.0, places, None)
    query = Query(places[:0], operator_of(history.layout, places), columns, np.array(0.7), np.array(3.0))
    whole = filter_of(filters, 0, filter)
    exact = filter.predict_f(*whole, query)
    assert exact.covariance.shape == (6, 6)  # a coefficient of the mean first
    cov = np.asarray(exact.covariance)[1:, 1:]
    mean, variance, some = jax.jit(lambda m, s: moments_and_columns(filter, m, s, query, np.array([3, 0, 5])))(*whole)
    np.testing.assert_allclose(mean, exact.mean[1:], atol=1e-10)
    np.testing.assert_allclose(variance, np.diag(cov), atol=1e-10)
    np.testing.assert_allclose(some[:, :2], cov[:, [3, 0]], atol=1e-10)
    np.testing.assert_array_equal(latent_moments(filter, *whole, query)[1], variance)
