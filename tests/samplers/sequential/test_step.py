"""A step with known parameters against what the algorithm targets, in closed form.

Given the draws of the window, each used once, the draws of a step are Gaussian with known mean and covariance; so are
their errors. Fixed seeds; ``|z| < 4`` for at most 60 numbers a test: a false alarm in 1 of 250.
"""

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest

import seqgp
from sequences import KNOWN, MEAN, NOISE, SCALE, TIME, covariance, matrix_scores, sampler, snapshots

DRAWS = 4000
SETTINGS = {"draws": DRAWS, "chains": 4, "warmup": 100, "thin": 5, "updates": seqgp.Plain(sweeps=(15, 0, 1))}
TIMES = np.array([0.0, 0.2, 0.3, 0.9, 1.0])  # not equidistant
Y = np.array([0.9, 1.6, 0.2, -0.8, 1.1])


def scalar_run(model=KNOWN, **changes):
    """The latent ``f`` (without the mean) after each of the snapshots at one location."""
    sequential = sampler(model, **SETTINGS, **changes)
    data = [seqgp.Snapshot(t, np.zeros((1, 1)), [y]) for t, y in zip(TIMES, Y)]
    state, _ = sequential.init(jax.random.key(0), data[0])
    found = [state.latent]
    for i, snapshot in enumerate(data[1:]):
        state, _ = sequential.step(jax.random.key(1 + i), state, snapshot)
        found.append(state.latent)
    return np.stack([np.asarray(latent)[:, 0] - MEAN for latent in found])


def recursion():
    """``m_t = g a m_{t−1} + (1 − g) y_t``, ``P_t = g q + (g a)² P_{t−1}``, ``g = r / (q + r)``."""
    m, p, r = 0.0, 0.0, NOISE**2
    for i, y in enumerate(Y - MEAN):
        a = np.exp(-(TIMES[i] - TIMES[i - 1]) / TIME) if i else 0.0
        q = SCALE**2 * (1 - a**2)
        g = r / (q + r)
        m, p = g * a * m + (1 - g) * y, g * q + (g * a) ** 2 * p
        yield m, p


def kalman():
    """The exact filter: ``f_{t−1}`` is revised by ``y_t``, too."""
    m, p, r = 0.0, 0.0, NOISE**2
    for i, y in enumerate(Y - MEAN):
        a = np.exp(-(TIMES[i] - TIMES[i - 1]) / TIME) if i else 0.0
        m, p = a * m, a**2 * p + SCALE**2 * (1 - a**2)
        g = r / (p + r)
        m, p = g * m + (1 - g) * y, g * p
        yield m, p


def scalar_scores(draws, moments):
    m, p = np.array(list(moments)).T
    first = (draws.mean(1) - m) / np.sqrt(p / DRAWS)
    second = (draws.var(1) / p - 1) / np.sqrt(2 / DRAWS)
    return np.abs(np.append(first, second))


@pytest.fixture(scope="module")
def scalar():
    return scalar_run()


def test_scalar_recursion(scalar):
    assert scalar_scores(scalar, recursion()).max() < 4


def test_the_exact_filter_is_another_target(scalar):
    """The check tells the algorithm's own target from the Kalman filter."""
    assert scalar_scores(scalar, kalman()).max() > 4


def test_start_from_the_conditional_prior():
    settings = SETTINGS | {"updates": seqgp.Plain(sweeps=(25, 0, 1), start="prior")}
    data = [seqgp.Snapshot(t, np.zeros((1, 1)), [y]) for t, y in zip(TIMES[:2], Y[:2])]
    sequential = sampler(KNOWN, **settings)
    state, _ = sequential.init(jax.random.key(0), data[0])
    after, _ = sequential.step(jax.random.key(1), state, data[1])
    draws = np.stack([np.asarray(s.latent)[:, 0] - MEAN for s in (state, after)])
    assert scalar_scores(draws, list(recursion())[:2]).max() < 4


VARIANCE_AS_SD = seqgp.Model(
    kernel=KNOWN.kernel,
    mean=MEAN,
    likelihood=seqgp.likelihoods.Likelihood(
        lambda f, context, noise: dist.Normal(f, noise**2), noise=NOISE, pointwise=True
    ),
)


class _Twice(dist.Normal):
    """Gaussian data, and the prior of the latent once more."""

    def log_prob(self, value):
        return super().log_prob(value) - 0.5 * ((self.loc - MEAN) / SCALE) ** 2


PRIOR_TWICE = seqgp.Model(
    kernel=KNOWN.kernel,
    mean=MEAN,
    likelihood=seqgp.likelihoods.Likelihood(lambda f, context, noise: _Twice(f, noise), noise=NOISE, pointwise=True),
)


class WithoutMean(seqgp.Dense):
    """A mutant: the past is in the covariance of the conditional prior, and not in its mean."""

    def conditional(self, kernel, geometry, parameters, jitter):
        found = super().conditional(kernel, geometry, parameters, jitter)
        return found._replace(cross=jnp.zeros_like(found.cross))


@pytest.mark.parametrize(
    ("model", "changes"),
    [(KNOWN, {"latent": WithoutMean()}), (VARIANCE_AS_SD, {}), (PRIOR_TWICE, {})],
    ids=["prior mean ignored", "noise variance used as sd", "prior counted twice"],
)
def test_mutants_are_caught(model, changes):
    assert scalar_scores(scalar_run(model, **changes), recursion()).max() > 4


@pytest.mark.parametrize("tau", [1, 2, 3])
def test_matrix_recursion(tau):
    """Five inputs that change with each snapshot, and a window that fills up."""
    data = snapshots([5] * (tau + 2))
    sequential = sampler(KNOWN, tau=tau, **(SETTINGS | {"draws": 2000, "updates": seqgp.Plain(sweeps=(40, 0, 1))}))
    state, _ = sequential.init(jax.random.key(0), data[0])
    for i, snapshot in enumerate(data[1:]):
        before = state
        state, _ = sequential.step(jax.random.key(1 + i), before, snapshot)
        assert matrix_scores(before, state, snapshot).max() < 4
    # The window slides: its times are the last ones, and its last latent is the present.
    np.testing.assert_allclose(state.window.times, [snapshot.t for snapshot in data[-tau:]])
    np.testing.assert_allclose(state.window.f[:, -1] + MEAN, state.latent)
    np.testing.assert_array_equal(state.window.x[-1], data[-1].x)


@pytest.mark.parametrize("start", ["prior", "warm"])
def test_too_few_updates_are_caught(start):
    """Each draw has a window of its own, and so a target of its own, which a few updates do not reach.

    This is why the tests above use 16 and 41 updates. It is a bias, the same for every seed, that R-hat does not see.
    """
    data = snapshots([5, 5, 5])[:2]
    updates = seqgp.Plain(sweeps=(2, 0, 1), start=start)
    sequential = sampler(KNOWN, **(SETTINGS | {"updates": updates}))
    before, _ = sequential.init(jax.random.key(0), data[0])
    after, info = sequential.step(jax.random.key(1), before, data[1])
    assert matrix_scores(before, after, data[1]).max() > 4
    assert info.max_rhat < 1.01


def test_each_draw_follows_its_own_window():
    """``f_t − E[f_t | window, y]`` is white noise, uncorrelated with the window that the draw came from."""
    data = snapshots([1, 1, 1])
    sequential = sampler(KNOWN, tau=2, **SETTINGS)
    state, _ = sequential.init(jax.random.key(0), data[0])
    state, _ = sequential.step(jax.random.key(1), state, data[1])
    (s, x0), (t, x1) = [(d.t, d.x) for d in data[:2]]
    f0, f1 = np.asarray(state.window.f)[:, :, 0].T
    a = covariance(t, x1, s, x0)[0, 0] / SCALE**2
    q = SCALE**2 * (1 - a**2)
    g = NOISE**2 / (q + NOISE**2)
    white = (f1 - g * a * f0 - (1 - g) * (data[1].y[0] - MEAN)) / np.sqrt(g * q)
    scores = [white.mean(), (white**2 - 1).mean() / 2**0.5, (white * (f0 - f0.mean()) / f0.std()).mean()]
    assert np.abs(scores).max() * DRAWS**0.5 < 4
