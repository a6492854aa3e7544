"""A representation of a user's own: whatever keeps the protocol is accepted, and nothing else knows of it."""

from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import seqgp
from seqgp.fields.operators import Events
from seqgp.fields.protocol import PredictionSites
from seqgp.fields.sites import Observe, Sites, StepSites
from seqgp.io import serialise
from seqgp.reference import sequential_target
from sequences import KNOWN, sampler

X = np.array([[-0.7], [0.1], [0.8]])
DATA = [seqgp.Snapshot(t, X, y) for t, y in ((0.0, [1.0, np.nan, -0.4]), (0.5, [0.3, 0.9, 0.2]))]


class Symmetric(NamedTuple):
    """The symmetric square root ``V diag(√λ) V'`` of a covariance, in place of a Cholesky factor."""

    matrix: jax.Array

    def apply(self, v):
        return self.matrix @ v

    def solve(self, v):
        return jnp.linalg.solve(self.matrix, v)

    def pull(self, v):
        return self.matrix @ v

    def pull_diagonal(self, d):
        return self.matrix * d[None, :]

    def gram_diagonal(self, d):
        return d[:, None] * (self.matrix @ self.matrix) * d[None, :]


class Given(NamedTuple):
    """The present given a window of one time at the same inputs: ``N(r f, (1 − r²) K)`` for a Markov kernel in time."""

    root: Symmetric
    weight: jax.Array
    events: Events

    def mean(self, window):
        return self.weight * window.sum(axis=0)


class Eigen(eqx.Module):
    """Fixed inputs, Matérn-1/2 in time, one time in the window; the space covariance by its eigenvectors."""

    points: np.ndarray

    @property
    def name(self):
        return "eigen"

    def sites(self, x, size):
        return Sites(self.points, np.ones(len(x), bool), Observe())

    def step_sites(self, x, window, last, pointwise):
        return StepSites(self.sites(x, len(x)), window, len(x))

    def prediction_sites(self, x, now):
        return PredictionSites(self, self.points, Observe(index=np.array([0])), known=now)

    def geometry(self, kernel, times, x, mask, present):
        return times, kernel.space.prepare(jnp.asarray(self.points), jnp.asarray(self.points))

    def conditional(self, kernel, geometry, parameters, jitter):
        times, space = geometry
        matrix = kernel.space.covariance(space, {"lengthscale": parameters["space.lengthscale"]})
        values, vectors = jnp.linalg.eigh(matrix + jitter[0] * jnp.eye(len(matrix)))
        rest = jnp.exp(-(times[-1] - times[0]) / parameters["time.lengthscale"]) if len(times) > 1 else jnp.zeros(())
        scale = parameters["scale"] * jnp.sqrt(1 - rest**2)
        root = scale * (vectors * jnp.sqrt(values)[None, :]) @ vectors.T
        return Given(Symmetric(root), rest, Events.none())

    def report(self, model, z, x):
        return {"points": len(self.points)}, []


@pytest.fixture(scope="module")
def states():
    sequential = sampler(KNOWN, latent=Eigen(X), draws=4000, updates="informed", chains=2)
    state, _ = sequential.init(jax.random.key(0), DATA[0])
    return [state, *sequential.step(jax.random.key(1), state, DATA[1])]


def test_a_representation_of_ones_own(states):
    """Known parameters, Gaussian noise: mean and sd of the sampler's own target; |z| < 5 for six numbers."""
    _, after, info = states
    assert info.settings["latent"] == "eigen"
    assert info.extras["points"] == 3
    exact = sequential_target(KNOWN, DATA)[1]
    sd = np.sqrt(np.diag(exact.covariance))
    latent = np.asarray(after.latent)
    assert np.abs((latent.mean(0) - exact.mean) / (sd / np.sqrt(len(latent)))).max() < 5
    assert np.abs((latent.std(0) / sd - 1) * np.sqrt(len(latent))).max() < 5


def test_prediction_is_asked_of_it(states):
    prediction = seqgp.predict(jax.random.key(2), KNOWN, states[1], X[:1])
    np.testing.assert_allclose(prediction.f[:, 0], states[1].latent[:, 0])


def test_it_is_stored_once_its_class_is_known(states, tmp_path):
    serialise.register(Eigen)
    arrays = {}
    again = serialise.decode(serialise.encode(states[1], "state", arrays), arrays)
    np.testing.assert_array_equal(again.representation.points, X)


def test_what_lacks_a_method_is_refused_with_its_name():
    with pytest.raises(seqgp.SamplerError, match=r"latent = .*it lacks name, sites, step_sites"):
        sampler(KNOWN, latent=object())
