"""``seqgp.Advected`` in the online sampler's filter: dense algebra of its kernel, by formulas of its own."""

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest

import oracles.dense as oracle
import seqgp
from seqgp import kernels, likelihoods
from seqgp.base.errors import DataError, ModelError
from seqgp.samplers.online.filters import filter_of, run_filters
from seqgp.samplers.online.history import begin
from seqgp.samplers.online.predictive import predictive_of
from seqgp.statespace.advected import AdvectedFilter
from seqgp.statespace.fourier_box import FourierBox, wave_vectors
from seqgp.statespace.model import StateSpaceModel

NOISE, VELOCITY, SCALE = 0.3, (0.7, -0.4), 1.3
TIMES = [0.0, 0.8, 1.1, 2.5, 2.9]
TERM = seqgp.Separable(kernels.Matern32(lengthscale=2.0), kernels.SquaredExponential(lengthscale=1.0), SCALE)
ORACLE = {
    "time": {"kind": "Matern32", "lengthscale": 2.0},
    "space": {"kind": "SquaredExponential", "lengthscale": 1.0},
    "scale": SCALE,
}


def data(seed=0, n=9):
    """Snapshots at irregular times, with gaps, at inputs that move; one has no data at all."""
    rng, snapshots = np.random.default_rng(seed), []
    for k, t in enumerate(TIMES):
        x, y = rng.uniform(0, 3, (n, 2)), rng.normal(size=n)
        y[rng.uniform(size=n) < 0.25] = np.nan
        snapshots.append(seqgp.Snapshot(t=t, x=x, y=np.full(n, np.nan) if k == 2 else y))
    return snapshots


def filtered(kernel, snapshots, mean=0.0):
    model = seqgp.Model(kernel, likelihoods.Gaussian(noise=NOISE), mean=mean)
    ssm = StateSpaceModel(model)
    history = begin(ssm, "auto", snapshots[0])
    for snapshot in snapshots[1:]:
        history = history.with_snapshot(snapshot)
    filters, increments, _ = run_filters(history, np.zeros((1, 0)), len(snapshots))
    return history, filters, increments[0]


def f_at(history, filters, x, t):
    query = predictive_of(history, filters, np.zeros(1, int), np.zeros((1, 0)), x, t, None).query
    found = history.filter.predict_f(*jax.tree.map(jnp.asarray, filter_of(filters, 0)), query)
    q = len(history.ssm.in_state)
    return np.asarray(found.mean)[q:], np.asarray(found.covariance)[q:, q:]


def moved(snapshots, velocity):
    """In coordinates that move along with the field."""
    return [(s.t, s.x - s.t * np.asarray(velocity), s.y, None) for s in snapshots]


def check_against_oracle(kernel, velocity, atol=1e-6, mean=None):
    """Without diffusion ``f(t, x) = g(t, x − v t)``, with ``g`` separable: the evidence, and ``f`` now and ahead."""
    snapshots, where = data(), np.random.default_rng(9).uniform(0, 3, (4, 2))
    history, filters, increments = filtered(kernel, snapshots, 0.0 if mean is None else dist.Normal(*mean))
    assert isinstance(history.filter, AdvectedFilter)
    intercept = 0.0 if mean is None else ("Normal", *mean)
    model = {"terms": [ORACLE], "mean": {"intercept": intercept, "features": []}, "likelihood": LIKELIHOOD}
    rows = oracle.Rows.of(moved(snapshots, velocity))
    for ahead in (0.0, 1.3):
        t = TIMES[-1] + ahead
        query = oracle.Rows.of([(t, where - t * np.asarray(velocity), np.full(4, np.nan), None)])
        truth = oracle.posterior(model, rows, query)
        f, cov = f_at(history, filters, where, t)
        np.testing.assert_allclose(f, truth.mean, rtol=0, atol=atol)
        np.testing.assert_allclose(cov, truth.covariance, rtol=0, atol=atol)
    np.testing.assert_allclose(increments.sum(), truth.log_evidence, rtol=0, atol=20 * atol)
    return history


LIKELIHOOD = {"kind": "Gaussian", "noise": NOISE}
FINE = {"shortest": 1.0, "margin": 9.0}  # more modes than anybody needs: what they leave out is beyond six digits


def test_a_moving_field_is_the_kernel_moved_along():
    check_against_oracle(seqgp.Advected(TERM, VELOCITY, **FINE), VELOCITY)


def test_the_sign_of_the_velocity_is_told_from_its_opposite():
    with pytest.raises(AssertionError):
        check_against_oracle(seqgp.Advected(TERM, [-v for v in VELOCITY], **FINE), VELOCITY, atol=1e-2)


def test_no_velocity_and_no_diffusion_is_the_separable_kernel():
    check_against_oracle(seqgp.Advected(TERM, [0.0, 0.0], 0.0, **FINE), (0.0, 0.0))


def test_the_mean_is_in_the_state_beside_the_modes():
    check_against_oracle(seqgp.Advected(TERM, VELOCITY, **FINE), VELOCITY, mean=(0.5, 2.0))


def test_the_modes_of_the_priors_have_the_error_that_is_told():
    """Chosen by themselves, on a rough kernel: the largest error at displacements of the data is the one told."""
    term = seqgp.Separable(kernels.Matern12(lengthscale=3.0), kernels.Matern32(lengthscale=1.0), SCALE)
    history, _, _ = filtered(seqgp.Advected(term, VELOCITY), data())
    told, _ = box_of(history).report(history.ssm.model, jnp.zeros(0), data()[-1].x, np.array(TIMES))
    rng = np.random.default_rng(0)
    x, lag = data()[-1].x, rng.uniform(0, 2.9, 4000)
    h = x[rng.integers(9, size=4000)] - x[rng.integers(9, size=4000)]
    r = np.sqrt(3) * np.linalg.norm(h - lag[:, None] * VELOCITY, axis=1)
    exact = np.exp(-lag / 3.0) * (1 + r) * np.exp(-r)
    weights = mode_weights(box_of(history))
    phase = (h - lag[:, None] * np.array(VELOCITY)) @ box_of(history).wave.T
    modes = np.exp(-lag / 3.0) * np.sum(weights * np.cos(phase), axis=1)
    worst = np.abs(modes - exact).max()
    assert told["truncation_error"] == pytest.approx(worst, rel=0.3)
    assert told["variance_left_out"] == pytest.approx(1 - weights.sum(), abs=1e-9)


def box_of(history):
    assert isinstance(history.layout.knots, FourierBox)
    return history.layout.knots


def mode_weights(box):
    """From the closed form of the density of a Matérn-3/2 kernel in two dimensions."""
    square = np.sum(box.wave**2, axis=1)
    density = 1.5 * 3**1.5 / np.pi * (3 + square) ** -2.5
    pair = np.where(square == 0, 1.0, 2.0)
    return pair * (2 * np.pi) ** 2 / np.prod(box.box) * density


def test_a_diffusion_fades_each_wave():
    """A plane wave of wave number k fades by exp(−κk²u) beside the kernel of time."""
    kernel, snapshots = seqgp.Advected(TERM, VELOCITY, 0.25, shortest=2.0, margin=3.0), data()
    history, filters, increments = filtered(kernel, snapshots)
    box = box_of(history)
    square = np.sum(box.wave**2, axis=1)
    weights = SCALE**2 * np.where(square == 0, 1.0, 2.0) * 2 * np.pi / np.prod(box.box) * np.exp(-square / 2)

    def covariance(t, x, other_t, other_x):
        u, h = t[:, None] - other_t, x[:, None] - other_x
        r = np.sqrt(3) * np.abs(u) / 2.0
        phase = (h - u[..., None] * np.array(VELOCITY)) @ box.wave.T
        fade = np.exp(-0.25 * square * np.abs(u)[..., None])
        return (1 + r) * np.exp(-r) * np.sum(weights * fade * np.cos(phase), axis=-1)

    t = np.concatenate([np.full(len(s.x), s.t) for s in snapshots])
    x, y = np.concatenate([s.x for s in snapshots]), np.concatenate([s.y for s in snapshots])
    t, x, y = t[~np.isnan(y)], x[~np.isnan(y)], y[~np.isnan(y)]
    whole = covariance(t, x, t, x) + NOISE**2 * np.eye(len(y))
    log_evidence = -0.5 * (y @ np.linalg.solve(whole, y) + np.linalg.slogdet(2 * np.pi * whole)[1])
    np.testing.assert_allclose(increments.sum(), log_evidence, rtol=0, atol=1e-8)
    where, now = np.array([[1.0, 2.0], [2.5, 0.5]]), np.full(2, 4.0)
    cross = covariance(now, where, t, x)
    f, cov = f_at(history, filters, where, 4.0)
    np.testing.assert_allclose(f, cross @ np.linalg.solve(whole, y), rtol=0, atol=1e-8)
    left = covariance(now, where, now, where) - cross @ np.linalg.solve(whole, cross.T)
    np.testing.assert_allclose(cov, left, rtol=0, atol=1e-8)


def test_inputs_that_leave_the_box_have_a_larger_one_and_questions_beyond_it_are_refused():
    snapshots = data()
    drift = [seqgp.Snapshot(s.t, s.x + 1.2 * k, s.y) for k, s in enumerate(snapshots)]
    kernel = seqgp.Advected(TERM, VELOCITY)
    history, filters, increments = filtered(kernel, drift)
    every = np.concatenate([s.x for s in drift])
    assert box_of(history).holds(every)
    rows = oracle.Rows.of(moved(drift, VELOCITY))
    model = {"terms": [ORACLE], "mean": {"intercept": 0.0, "features": []}, "likelihood": LIKELIHOOD}
    truth = oracle.posterior(model, rows, rows.kept(np.arange(1)))
    assert increments.sum() == pytest.approx(truth.log_evidence, abs=0.5)
    with pytest.raises(DataError, match=r"x\[1, 0\] = 90 is outside .* give Advected margin="):
        f_at(history, filters, np.array([[1.0, 1.0], [90.0, 1.0]]), 4.0)


def test_what_cannot_be_is_refused_by_name():
    with pytest.raises(ModelError, match="RationalQuadratic has no spectral density"):
        seqgp.Advected(seqgp.Separable(kernels.Matern12(1.0), kernels.RationalQuadratic(1.0)), [0.0])
    with pytest.raises(ModelError, match="diffusion reaches down to"):
        seqgp.Advected(TERM, [0.0, 0.0], dist.Normal(0, 1))
    with pytest.raises(ModelError, match="kernel inside moves already"):
        seqgp.Advected(seqgp.Delayed(TERM, [0.1, 0.1]), [0.0, 0.0])
    with pytest.raises(ModelError, match="velocity has 1 entries, but x has 2 columns"):
        seqgp.Advected(TERM, [0.0]).check_inputs(data()[0].x)


def test_one_of_each_pair_of_waves():
    wave = wave_vectors(np.array([4.0, 6.0]), 2.0)
    both = {tuple(np.round(k, 9)) for k in np.concatenate([wave, -wave[1:]]) + 0.0}
    index = [(i, j) for i in range(-9, 10) for j in range(-9, 10) if np.hypot(i / 4, j / 6) <= 0.5 + 1e-12]
    assert len(both) == 2 * len(wave) - 1 == len(index)
    np.testing.assert_array_equal(wave[0], 0.0)
    with pytest.raises(ModelError, match="shortest = 9 is longer than the box"):
        wave_vectors(np.array([4.0, 6.0]), 9.0)
