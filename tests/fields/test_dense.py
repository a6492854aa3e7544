"""The dense conditional prior against the textbook formula."""

import jax.numpy as jnp
import numpy as np

import seqgp
from seqgp.fields.dense import Dense

JITTER = 1e-10
KERNEL = seqgp.Separable(time=seqgp.kernels.Matern32(1.0), space=seqgp.kernels.SquaredExponential(1.0), scale=1.0)
PARAMETERS = {
    "time.lengthscale": jnp.asarray(0.8),
    "space.lengthscale": jnp.asarray(0.6),
    "scale": jnp.asarray(1.4),
}
RNG = np.random.default_rng(1)
TIMES = np.array([0.0, 0.3, 1.1])
X = RNG.normal(size=(3, 4, 2))


def covariance(times, x, other_times, other):
    r = 3**0.5 * np.abs(times[:, None] - other_times) / 0.8
    distance = ((x[:, None] - other) ** 2).sum(-1) / 0.6**2
    return 1.4**2 * (1 + r) * np.exp(-r) * np.exp(-distance / 2)


def textbook(known, present):
    """``K_tw K_ww⁻¹`` and ``K_tt − K_tw K_ww⁻¹ K_wt`` of chosen (block, site) pairs."""

    def pick(pairs):
        return np.array([TIMES[b] for b, _ in pairs]), np.array([X[b, s] for b, s in pairs])

    w, p = pick(known), pick(present)
    cross = covariance(*p, *w)
    gain = np.linalg.solve(covariance(*w, *w) + JITTER * np.eye(len(known)), cross.T).T
    return gain, covariance(*p, *p) - gain @ cross.T


def conditional(mask):
    dense = Dense()
    geometry = dense.geometry(KERNEL, jnp.asarray(TIMES), jnp.asarray(X), jnp.asarray(mask), 1)
    return dense.conditional(KERNEL, geometry, PARAMETERS, (JITTER,))


def test_mean_and_root():
    found = conditional(np.ones((3, 4), bool))
    gain, inner = textbook([(b, s) for b in (0, 1) for s in range(4)], [(2, s) for s in range(4)])
    window = RNG.normal(size=(2, 4))
    np.testing.assert_allclose(found.mean(jnp.asarray(window)), gain @ window.ravel(), rtol=1e-6)
    np.testing.assert_allclose(found.root.root @ found.root.root.T, inner, atol=1e-8)


def test_padding_changes_nothing():
    """Masked sites are independent of all others, whatever stands in them; a masked time is not there at all."""
    mask = np.array([[False] * 4, [True, True, True, False], [True, True, False, False]])
    found = conditional(mask)
    gain, inner = textbook([(1, s) for s in range(3)], [(2, s) for s in range(2)])
    window = RNG.normal(size=(2, 4))
    np.testing.assert_allclose(found.mean(jnp.asarray(window))[:2], gain @ window[1, :3], rtol=1e-6)
    root = np.asarray(found.root.root)
    np.testing.assert_allclose((root @ root.T)[:2, :2], inner, atol=1e-8)
    np.testing.assert_allclose((root @ root.T)[2:, 2:], 1.4**2 * np.eye(2), atol=1e-8)
    np.testing.assert_allclose((root @ root.T)[:2, 2:], 0.0, atol=1e-12)


def test_without_a_window_it_is_the_prior():
    dense = Dense()
    geometry = dense.geometry(KERNEL, jnp.asarray(TIMES[:1]), jnp.asarray(X[:1]), jnp.ones((1, 4), bool), 1)
    found = dense.conditional(KERNEL, geometry, PARAMETERS, (JITTER,))
    expected = covariance(np.zeros(4), X[0], np.zeros(4), X[0])
    np.testing.assert_allclose(found.root.root @ found.root.root.T, expected, atol=1e-8)
    np.testing.assert_array_equal(found.mean(jnp.zeros((0, 4))), np.zeros(4))


def test_duplicate_inputs_need_the_jitter_only():
    x = np.repeat(X[:1, :2], 2, axis=1)
    dense = Dense()
    geometry = dense.geometry(KERNEL, jnp.zeros(1), jnp.asarray(x), jnp.ones((1, 4), bool), 1)
    found = dense.conditional(KERNEL, geometry, PARAMETERS, (1e-8,))
    assert np.isfinite(found.root.root).all()
    assert int(found.events.not_positive_definite) == 0


def test_sites_are_padded_with_a_real_input():
    sites = Dense().sites(X[0], 6)
    assert sites.x.shape == (6, 2)
    assert sites.mask.tolist() == [True] * 4 + [False] * 2
    np.testing.assert_array_equal(sites.x[4:], X[0, [-1, -1]])
