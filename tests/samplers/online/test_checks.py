"""Checks of each update by Gaussian data: no density above that of the noise, no prediction that varies less."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

import seqgp
from seqgp.runtime import engine
from seqgp.statespace.dense import DenseFilter
from seqgp.statespace.eigenbasis import RotatedFilter
from seqgp.statespace.network import NetworkFilter
from seqgp.statespace.observation import Observation, SiteOperator, reduced
from seqgp.statespace.snapshot_ep import EXCESS, SHORTFALL
from seqgp.statespace.update import gaussian_update, largest_log_density

NOISE = np.array([0.3, 0.2, 0.5])
Y = np.array([0.4, -1.0, 2.0])


def observation(y, seen=None, weights=None):
    none, n = np.zeros(()), len(y)
    operator = SiteOperator(np.arange(n)) if weights is None else SiteOperator(weights=weights)
    seen = np.ones(n, bool) if seen is None else seen
    return Observation(none, operator, y, seen, np.zeros((n, 0)), np.ones((n, 1)), none, none, None)


def test_the_largest_log_density_is_that_of_data_that_are_what_was_predicted():
    seen = np.array([True, False, True])
    most = largest_log_density(jnp.asarray(NOISE**2), observation(Y, seen))
    np.testing.assert_allclose(most, stats.norm.logpdf(0, 0, NOISE[seen]).sum(), rtol=1e-12)


def test_data_that_were_summed_up_count_in_full():
    weights = np.random.default_rng(0).normal(size=(9, 2))
    few = reduced(observation(np.arange(9.0), weights=weights))
    assert few.left_over > 0
    np.testing.assert_allclose(largest_log_density(jnp.asarray(0.04), few), 9 * stats.norm.logpdf(0, 0, 0.2))


@pytest.mark.parametrize("share", [0.5, 0.02])
def test_a_prediction_that_varies_less_than_the_noise_is_a_fault_of_its_datum(share):
    f_cov = np.diag([1.0, -share * NOISE[1] ** 2, 2.0])
    update = gaussian_update(jnp.asarray(NOISE**2), observation(Y), np.zeros(3), jnp.asarray(f_cov))
    assert np.isnan(update.log_evidence)
    np.testing.assert_array_equal(update.fault, [0, SHORTFALL, 0])


def test_rounding_is_no_fault():
    f_cov = np.diag([1.0, -1e-4 * NOISE[1] ** 2, 2.0])
    update = gaussian_update(jnp.asarray(NOISE**2), observation(Y), np.zeros(3), jnp.asarray(f_cov))
    right = stats.norm.logpdf(Y, 0, np.sqrt(NOISE**2 + np.maximum(np.diag(f_cov), 0))).sum()
    np.testing.assert_allclose(update.log_evidence, right, atol=2e-3)
    assert not np.any(update.fault)


def test_a_density_above_that_of_the_noise_is_a_fault():
    """Correlations beyond one leave variances positive and a determinant far too small."""
    f_cov = np.array([[0.5, 0.5799, 0], [0.5799, 0.5, 0], [0, 0, 0]])
    update = gaussian_update(jnp.full(3, 0.08), observation(np.zeros(3)), np.zeros(3), jnp.asarray(f_cov))
    assert np.isnan(update.log_evidence)
    np.testing.assert_array_equal(update.fault, [EXCESS] * 3)


def _model():
    m32 = seqgp.kernels.Matern32
    return seqgp.Model(seqgp.Separable(m32(1.0), m32(1.0), 1.0), seqgp.likelihoods.Gaussian(0.2))


FILTERS = {"rotated": (RotatedFilter, 6, False), "dense": (DenseFilter, 6, True), "network": (NetworkFilter, 64, True)}


@pytest.mark.parametrize("name", FILTERS)
def test_a_step_names_time_and_station(name, monkeypatch):
    """A transition that loses variance: the second step is refused, by each filter."""
    kind, stations, gap = FILTERS[name]
    honest = kind.predict

    def lossy(self, matrices, state, dt):
        found = honest(self, matrices, state, dt)
        low = found.low_rank if name == "network" else found
        cov = low.block if name == "network" else low.covariance
        less = jnp.where(jnp.asarray(dt) > 0, 1.0, 0.0)
        bend = 1.04 * less * (cov if name != "dense" else jnp.diag(jnp.diagonal(cov)))
        if name == "network":
            return found._replace(low_rank=low._replace(block=cov - bend))
        return found._replace(covariance=cov - bend)

    monkeypatch.setattr(kind, "predict", lossy)
    engine.forget()
    x = np.random.default_rng(1).uniform(-2, 2, (stations, 1))
    sampler, y = seqgp.OnlineSampler(_model(), particles=16, draws=20), np.zeros(stations)
    if gap:
        y[0] = np.nan
    state, info = sampler.init(jax.random.key(0), seqgp.Snapshot(0.0, x, y))
    assert info.settings["filter"] == {"network": "low rank"}.get(name, name)
    with pytest.raises(seqgp.SamplerError, match=r"t = 1\.0, station \d+ \(x = .*\): its predictive variance is below"):
        sampler.step(jax.random.key(1), state, seqgp.Snapshot(1.0, x, y))
    engine.forget()
