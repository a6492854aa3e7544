"""Gradients of the log evidence through the filters, and moves by them: against differences and a closed form."""

import jax
import numpy as np
import numpyro.distributions as dist
import pytest

import seqgp
from seqgp.base.priors import Prior
from seqgp.samplers.online.exact import shared_history
from seqgp.samplers.online.filters import run_filters
from seqgp.samplers.online.gradients import ep_gradients, evidence_gradients, has_gradient, quadratic_slope
from seqgp.samplers.online.history import build_timeline
from seqgp.samplers.online.quadratics import QuadraticFit
from seqgp.statespace.ep import ep
from seqgp.statespace.filter_history import observed_history
from seqgp.statespace.model import StateSpaceModel

X = np.array([[0.0], [0.7], [1.5]])
WIDTHS = 10, 60


class Straight(Prior):
    """A normal prior that is no coefficient of the state: the particles have it."""

    loc: float = 0.0
    scale: float = 1.0

    def value(self, z):
        return z


def wave(number):
    return seqgp.means.Feature(lambda t, x: np.cos(number * (x[:, 0] + 0.3 * t)), name=f"wave_{number}")


WAVES = [wave(number) for number in range(1, max(WIDTHS) + 1)]


def model(weights=None, likelihood=None, space=0.6):
    kernel = seqgp.Separable(
        time=seqgp.kernels.Matern12(dist.LogNormal(0.0, 0.5) if weights is None else 1.0),
        space=seqgp.kernels.Matern12(space),
        scale=dist.LogNormal(0.0, 0.5) if weights is None else 0.5,
    )
    mean = 0.3 if weights is None else seqgp.means.Linear(WAVES[: len(weights)], weights=weights)
    return seqgp.Model(kernel=kernel, mean=mean, likelihood=likelihood or seqgp.likelihoods.Gaussian(0.3))


def data(gap=False):
    y = np.random.default_rng(2).standard_normal((5, 3))
    if gap:
        y[2, 1] = np.nan
    return [seqgp.Snapshot(0.4 * i, X, row) for i, row in enumerate(y)]


def timeline(of, snapshots):
    return build_timeline(StateSpaceModel(of), "auto", snapshots, (None,) * len(snapshots))


def differences(function, z, step=1e-5):
    rises = [(function(z + step * e) - function(z - step * e)) / (2 * step) for e in np.eye(z.shape[1])]
    return np.stack(rises, axis=1)


@pytest.mark.parametrize("gap", [False, True])
def test_gradient_of_filters_by_differences(gap):
    """In the eigenbasis (complete data, an inferred space kernel) and dense; each step with a weight of its own."""
    history = timeline(model(space=dist.LogNormal(-0.5, 0.5)), data(gap))
    assert history.filter.name == ("dense" if gap else "rotated")
    assert has_gradient(history, None)
    z = np.random.default_rng(0).standard_normal((2, 3))
    weights = np.array([0.7, 0.8, 0.9, 1.0, 0.4])
    expected = differences(lambda z: run_filters(history, z, 5)[1] @ weights, z)
    np.testing.assert_allclose(evidence_gradients(history, weights, z), expected, rtol=1e-5, atol=1e-6)


def test_gradient_of_ep_by_differences_of_its_fixed_point():
    """At sites that are its own: with the sites that each value has in the differences."""
    history = timeline(model(likelihood=seqgp.likelihoods.Poisson()), [
        one._replace(y=np.round(np.exp(one.y))) for one in data()
    ])  # fmt: skip
    z = np.array([[0.3, -0.2]])
    shared, _ = shared_history(history, z[0])

    def converged(z):
        own, log_prob = observed_history(shared.filter, shared.filter.matrices(z), shared.observations, shared.length)
        return ep(own, log_prob, shared.sites, tolerance=1e-10)[0]

    states = jax.jit(converged)
    expected = differences(lambda rows: np.array([float(states(row).log_evidence) for row in rows]), z, 1e-4)
    fixed = jax.tree.map(np.asarray, states(z[0]).sites)
    found = ep_gradients(shared._replace(sites=fixed), z)
    np.testing.assert_allclose(found, expected, rtol=1e-3, atol=1e-4)
    assert np.abs(found).max() > 0.1


def test_slope_of_a_quadratic():
    rng = np.random.default_rng(0)
    z = rng.standard_normal((40, 3))
    fit = QuadraticFit.fitted(z, -((z - 1.0) ** 2).sum(axis=1), np.full(40, 1 / 40))
    np.testing.assert_allclose(quadratic_slope(fit, z[:4]), -2 * (z[:4] - 1.0), atol=1e-3)


@pytest.mark.parametrize("width", WIDTHS)
def test_linear_parameters_in_closed_form(width):
    """Weights of a mean, kept by the particles: their posterior is Gaussian. False alarm 1e-3 or less."""
    of, snapshots = model(weights=[Straight() for _ in range(width)]), data()
    state, infos, warnings = None, [], []
    sampler = seqgp.OnlineSampler(of, particles=256, draws=64)
    for i, snapshot in enumerate(snapshots):
        key = jax.random.key(i)
        state, info = sampler.init(key, snapshot) if state is None else sampler.step(key, state, snapshot)
        infos += info.rejuvenations
        warnings += info.warnings
    assert "gradient moves" in {one.kind for one in infos}
    assert any(f"{width} parameters are many for 256 particles" in one for one in warnings) == (width > 50)
    t, y = np.repeat([one.t for one in snapshots], 3), np.concatenate([one.y for one in snapshots])
    x = np.tile(X[:, 0], 5)
    noise = 0.25 * np.exp(-np.abs(t[:, None] - t) - np.abs(x[:, None] - x) / 0.6) + 0.09 * np.eye(15)
    design = np.concatenate([np.stack([one.function(s.t, X) for one in WAVES[:width]], axis=1) for s in snapshots])
    precision = np.linalg.inv(np.eye(width) + design.T @ np.linalg.solve(noise, design))
    mean, sd = precision @ design.T @ np.linalg.solve(noise, y), np.sqrt(np.diag(precision))
    total = noise + design @ design.T
    evidence = -0.5 * (y @ np.linalg.solve(total, y) + np.linalg.slogdet(2 * np.pi * total)[1])
    particles = state.particles
    weights = particles.weights()
    found = weights @ particles.z
    assert np.abs((found - mean) / sd).max() < 4 / np.sqrt(256 / 8)
    assert np.sqrt(weights @ (particles.z - found) ** 2) / sd == pytest.approx(np.ones(width), abs=0.35)
    # Of sixty, 256 particles know the evidence to a nat or two (1024 to half a nat), and the warning says so.
    assert info.log_evidence == pytest.approx(evidence, abs=1.0 if width == 10 else 2.5)
