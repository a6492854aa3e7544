"""The oracle of the online sampler: every path against the dense likelihood, the whole against quadrature."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import seqgp
import small
from seqgp.reference import online_posterior, quadrature, quadrature_moments
from seqgp.reference.conditional import _dense, conditional

Z = np.array([0.3, -0.4, 0.2, 0.5, -0.3])


def model(time=seqgp.kernels.Matern32):
    space = seqgp.kernels.Matern32(seqgp.ScaledSigmoid(0, 2))
    return small.model(time=time(seqgp.ScaledSigmoid(0, 4)), space=space, jitter=1e-10)


def data(missing=0.0, changing=False, steps=6, n=4, seed=0):
    """Irregular times; with ``changing``, a station is gone now and then and another one comes late."""
    rng = np.random.default_rng(seed)
    x, times = rng.uniform(size=(n, 2)), np.cumsum(rng.uniform(0.2, 0.9, steps))
    f = np.cumsum(0.5 * rng.normal(size=(steps, 1)), axis=0) + 0.3 * rng.normal(size=(steps, n))
    y = np.where(rng.uniform(size=f.shape) < missing, np.nan, f)
    rows = [
        np.array([j for j in range(n) if not changing or ((j + i) % 3 and (j < n - 1 or i > 2))]) for i in range(steps)
    ]
    return [seqgp.Snapshot(t, x[row], y[i, row]) for i, (t, row) in enumerate(zip(times, rows))]


CASES = {
    "scalar filters": (seqgp.kernels.Matern12, data()),
    "scalar filters, 32": (seqgp.kernels.Matern32, data()),
    "scalar filters, 52": (seqgp.kernels.Matern52, data()),
    "scalar series": (seqgp.kernels.SquaredExponential, data()),
    "one value after the other": (seqgp.kernels.Matern12, data(missing=0.3)),
    "one value after the other, 32": (seqgp.kernels.Matern32, data(changing=True)),
    "one value after the other, 52": (seqgp.kernels.Matern52, data(missing=0.2, changing=True)),
}


@pytest.mark.parametrize("case", CASES)
def test_every_path_is_the_dense_likelihood(case):
    time, snapshots = CASES[case]
    path = conditional(model(time), snapshots)
    assert path.name == case.split(",")[0]
    found = jax.jit(path.given)(jnp.asarray(Z))
    expected = jax.jit(_dense(model(time), snapshots))(jnp.asarray(Z))
    for one, other in zip(found, expected):
        np.testing.assert_allclose(one, other, rtol=1e-6, atol=1e-7)


def test_the_dense_path_takes_what_the_others_cannot():
    snapshots = data(missing=0.3)
    assert conditional(model(seqgp.kernels.SquaredExponential), snapshots).name == "dense"
    twice = [s._replace(x=s.x[[0, 0, 1, 2]]) for s in snapshots]
    assert conditional(model(), twice).name == "dense"


@pytest.mark.parametrize("missing", [0.0, 0.3])
def test_parameters_f_and_evidence_are_those_of_quadrature(missing):
    """Means to 5 standard errors of 4000 points, at least half of them effective: a false alarm in 1e5."""
    kernel = seqgp.Separable(seqgp.kernels.Matern32(seqgp.ScaledSigmoid(0, 4)), seqgp.kernels.Matern32(0.8), 1.0)
    known = seqgp.Model(kernel, seqgp.likelihoods.Gaussian(seqgp.ScaledSigmoid(0, 1)), mean=0.2, jitter=1e-10)
    snapshots = data(missing)
    truth = quadrature(known, snapshots)
    mean, sd = quadrature_moments(known, snapshots, truth)
    found = online_posterior(known, snapshots, seed=1)
    error = 1 / np.sqrt(found.ess)
    assert found.ess > 2000
    assert found.names == truth.names
    assert np.max(np.abs(found.mean - truth.mean) / truth.sd) < 5 * error
    np.testing.assert_allclose(found.sd, truth.sd, rtol=5 * error)
    assert abs(found.log_evidence - truth.log_evidence) < 5 * found.log_evidence_se
    np.testing.assert_allclose(found.f_mean, mean[-4:], atol=5 * error * sd[-4:].max())
    np.testing.assert_allclose(found.f_variance, sd[-4:] ** 2, rtol=5 * error)


def test_what_it_cannot_do_is_said():
    snapshots = data()
    counts = seqgp.Model(model().kernel, seqgp.likelihoods.Poisson(), mean=0.0)
    with pytest.raises(seqgp.ModelError, match="online_posterior integrates the latent out"):
        online_posterior(counts, snapshots)
    with pytest.raises(seqgp.SamplerError, match="points are effective; lower least"):
        online_posterior(model(), snapshots, points=200, least=0.999)
