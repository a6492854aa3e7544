"""Maps: means and variances at points, against the dense Gaussian of sites and points."""

import jax
import numpy as np
from experiments import gap_filters, networks

from seqgp.statespace.latent_moments import MapParticles, map_batch
from seqgp.statespace.modes import Modes

SITES, STEPS, POINTS = 12, 4, 25
SCALES = np.array([0.8])


def test_against_dense_algebra():
    """Two particles that share eigenvectors and differ in scale and noise; a coefficient of the mean.

    The second term is independent between stations: it says nothing about a new point, and adds all of its variance.
    """
    rng = np.random.default_rng(0)
    x, design = rng.random((POINTS, 2)), rng.normal(size=(POINTS, 1))
    at_data, found, states = rng.normal(size=(STEPS, SITES, 1)), [], []
    variances = [(1.0, 0.5), (2.0, 0.3)]
    for (first, second), noise in zip(variances, (0.3, 0.5)):
        net = networks.network(SITES, noise=noise, scale=first**0.5)
        net = net._replace(
            spaces=(*net.spaces, second * np.eye(SITES)),
            terms=(*net.terms, networks.time_term("Matern12", 0.1)),
        )
        y = networks.simulate(net, STEPS)
        seen = rng.random(y.shape) >= 0.3
        modes, state, *_ = gap_filters.low_rank(net, y, seen, 3 * SITES, gaps=9, design=at_data, scales=SCALES)
        if states:  # eigenvectors are those of the first particle, up to signs
            signs = np.sign(np.sum(np.asarray(modes.vectors) * states[0][0].vectors, axis=0))
            state = state._replace(
                mean=state.mean * signs, factor=state.factor * signs, response=state.response * signs
            )
        states.append((modes, state))
        found.append(dense_moments(net, y, seen, at_data, x, design, (first, second)))
    unit = networks.network(SITES).spaces[0]
    vectors = states[0][0].vectors
    shared = Modes(vectors, np.stack([np.diag(vectors.T @ unit @ vectors), np.ones(SITES)]))
    particles = MapParticles(
        jax.tree.map(lambda *leaves: np.stack(leaves), *(state for _, state in states)),
        np.array(variances),
        np.stack([net.observe] * 2),
        np.ones((2, 2)),
    )
    sites = networks.network(SITES).x

    distance = np.sqrt(3) * np.linalg.norm(x[:, None] - sites[None], axis=-1) / 0.3
    cross = (1 + distance) * np.exp(-distance)
    own = np.stack([np.full(POINTS, 1 + networks.JITTER), np.ones(POINTS)])
    crosses = cross, np.zeros(cross.shape)
    moments = jax.jit(lambda p: map_batch(p, shared, (2, 1), crosses, own, design, SCALES))(particles)
    np.testing.assert_allclose(moments.mean, [mean for mean, _ in found], atol=1e-8)
    np.testing.assert_allclose(moments.variance, [variance for _, variance in found], atol=1e-8)


def dense_moments(net, y, seen, at_data, x, design, variances):
    """From a filter that has the points as sites which are never seen."""
    both = np.concatenate([net.x, x])
    distance = networks.space_covariance(both, both, "Matern32", 0.3, variances[0] ** 0.5)
    wide = net._replace(x=both, spaces=(distance, variances[1] * np.eye(len(both))))
    unseen = np.concatenate([seen, np.zeros((STEPS, POINTS), bool)], axis=1)
    data = np.concatenate([y, np.zeros((STEPS, POINTS))], axis=1)
    columns = np.concatenate([at_data, np.zeros((STEPS, POINTS, 1))], axis=1)
    dense, _ = gap_filters.dense(wide, data, unseen, columns, SCALES)
    shown = np.kron(wide.observe[None], np.eye(len(both)))[SITES:]
    shown = np.concatenate([shown, design], axis=1)
    return shown @ dense.mean, np.diag(shown @ dense.cov @ shown.T)
