"""Informed updates: exact whatever the approximation, and the collapsed sampler where it is."""

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest

import seqgp
import small
from geweke import BOUND, largest_score, standard_form
from seqgp.mcmc.charts import Tilted
from seqgp.mcmc.gaussian import log_normal_density
from seqgp.mcmc.informed import Informed, InformedTuning, QuadraticApproximation, chart_of
from seqgp.mcmc.moves import move_latent
from seqgp.mcmc.student import Student
from seqgp.mcmc.target import place_at, position_at

POINT = np.array([0.5, -0.8, 1.2])  # of the level: right for no data in particular
LIKELIHOODS = {
    "gaussian": seqgp.likelihoods.Gaussian(seqgp.ScaledSigmoid(0.2, 0.9)),
    "poisson": seqgp.likelihoods.Likelihood(
        lambda f, c, noise: dist.Poisson(jnp.exp(f) / noise), noise=seqgp.ScaledSigmoid(0.2, 0.9)
    ),
    "bernoulli": seqgp.likelihoods.Likelihood(
        lambda f, c, noise: dist.Bernoulli(logits=f / noise), noise=seqgp.ScaledSigmoid(0.2, 0.9)
    ),
    "nonlinear": seqgp.likelihoods.Likelihood(
        lambda f, c, noise: dist.Normal(jnp.cumsum(jnp.exp(f)), noise), noise=seqgp.ScaledSigmoid(0.2, 0.9)
    ),
}


def tuning(stretch=1.0, matrix=False):
    """A fixed approximation, its curvature stretched, and an ellipse that is not the prior of ``z``."""
    factor = np.sqrt(stretch) * np.array([1.2, 0.7, 0.0])
    if matrix:
        factor = np.sqrt(stretch) * np.array([[1.0, 0.3], [-0.4, 0.8], [0.5, 0.5]])
    curved = factor**2 * POINT if factor.ndim == 1 else factor @ (factor.T @ POINT)
    growth = np.array([0.0, 0.0, 0.0, 0.0, -0.4])
    approximation = QuadraticApproximation(*(jnp.asarray(part) for part in (factor, curved, small.MEAN, growth)))
    root = np.linalg.cholesky(1.5 * small.COVARIANCE + 0.1 * np.eye(5))
    return InformedTuning(approximation, Student(jnp.asarray(small.MEAN + 0.2), jnp.asarray(root)))


def sweep(chosen, updates=Informed()):  # noqa: B008
    """One draw of informed updates from a position in whitened coordinates."""

    def update(key, target, position):
        chart = updates.chart_at(target, position.z, chosen)
        return updates.sweep(key, target, position._replace(chart=chart), chosen, True)

    return update


@pytest.mark.parametrize("stretch", [1.0, 10.0, 0.1])
def test_gaussian_posterior_is_invariant(stretch):
    """False alarms: see geweke.BOUND."""
    assert largest_score(standard_form(jax.random.key(3), sweep(tuning(stretch)))) < BOUND


def test_several_sweeps_a_draw_leave_it_invariant_and_are_counted():
    update = sweep(tuning(), Informed(latent=2, sweeps=3))
    assert largest_score(standard_form(jax.random.key(7), update)) < BOUND
    target = small.target(Y)

    def once(key, z):
        return update(key, target, small.position(target, z, jnp.zeros(3)))

    _, info = jax.jit(once)(jax.random.key(0), small.MEAN)
    assert {name: int(slices.updates) for name, slices in info.items()} == {"parameters": 3, "latent": 6}


def joint(likelihood, update, key, replicates=4000, transitions=6):
    """``(z, nu)`` in standard form after alternating fresh data and updates, for any likelihood."""
    model = small.model(likelihood=likelihood)
    root = np.linalg.cholesky(small.COVARIANCE)

    def transition(state, key):
        key_data, key_update = jax.random.split(key)
        z, nu = state
        blank = small.target(jnp.zeros(3), of=model)
        sites = small.position(blank, z, nu).sites
        parameters = model.parameters(z)
        data = likelihood.distribution(sites + parameters["mean"], None, parameters).sample(key_data)
        target = small.target(jnp.asarray(data, float), of=model)
        moved, _ = update(key_update, target, small.position(target, z, nu))
        return (moved.z, moved.nu), None

    def replicate(key):
        key_z, key_nu, key_chain = jax.random.split(key, 3)
        z = small.MEAN + root @ jax.random.normal(key_z, (5,))
        nu = jax.random.normal(key_nu, (3,))
        (z, nu), _ = jax.lax.scan(transition, (z, nu), jax.random.split(key_chain, transitions))
        return jnp.concatenate([jax.scipy.linalg.solve_triangular(root, z - small.MEAN, lower=True), nu])

    with jax.debug_key_reuse(False), jax.numpy_dtype_promotion("standard"), jax.numpy_rank_promotion("allow"):
        return np.asarray(jax.jit(jax.vmap(replicate))(jax.random.split(key, replicates)))


@pytest.mark.parametrize(("name", "matrix"), [("poisson", False), ("bernoulli", False), ("nonlinear", True)])
def test_other_posteriors_are_invariant(name, matrix):
    """False alarms: see geweke.BOUND."""
    values = joint(LIKELIHOODS[name], sweep(tuning(matrix=matrix)), jax.random.key(4))
    assert largest_score(values) < BOUND


def no_correction(self, nu, coordinates):
    return jnp.zeros(())


def test_an_approximation_that_is_not_corrected_is_caught(monkeypatch):
    monkeypatch.setattr(Tilted, "log_weight", no_correction)
    assert largest_score(standard_form(jax.random.key(3), sweep(tuning()))) > BOUND


def test_an_ellipse_that_is_not_corrected_is_caught(monkeypatch):
    monkeypatch.setattr(Student, "log_density", lambda self, z: jnp.zeros(()))
    assert largest_score(standard_form(jax.random.key(3), sweep(tuning()))) > BOUND


def test_an_ellipse_corrected_as_if_it_were_gaussian_is_caught(monkeypatch):
    monkeypatch.setattr(Student, "log_density", lambda self, z: log_normal_density(z, self.mean, self.root))
    assert largest_score(standard_form(jax.random.key(3), sweep(tuning()), replicates=20_000)) > BOUND


Y = np.array([0.3, -0.4, 1.5])


def exact_quadratic():
    zero = jnp.zeros(5)
    return QuadraticApproximation(jnp.ones(3), jnp.asarray(Y), zero, zero)


def test_gaussian_likelihood_makes_the_latent_an_independent_draw():
    """The slice is accepted at the first proposal, always."""
    target = small.target(Y)
    z = jnp.asarray(small.MEAN)
    chart = chart_of(target, place_at(target, z), z, exact_quadratic())
    position = position_at(target, z, chart.centre(), chart)
    keys = jax.random.split(jax.random.key(0), 200)
    _, info = jax.jit(lambda: jax.lax.scan(lambda p, key: move_latent(key, target, p), position, keys))()
    assert (np.asarray(info.evaluations) == 1).all()
    assert (np.asarray(info.spread) < 1e-16).all()


def test_gaussian_likelihood_makes_the_density_of_z_the_marginal_likelihood():
    target = small.target(Y)
    rng = np.random.default_rng(0)
    found, expected = [], []
    for _ in range(5):
        z = jnp.asarray(small.MEAN + rng.normal(size=5))
        place = place_at(target, z)
        chart = chart_of(target, place, z, exact_quadratic())
        coordinates = jnp.asarray(rng.normal(size=3))
        position = position_at(target, z, chart.centre() + chart.centred_nu(coordinates), chart)
        found.append(float(position.log_likelihood + chart.log_weight(position.nu, coordinates)))
        parameters = small.MODEL.parameters(z)
        root = np.asarray(place.conditional.root.root)
        covariance = root @ root.T + float(parameters["noise"]) ** 2 * np.eye(3)
        mean = np.asarray(place.offset) + float(parameters["mean"])
        expected.append(
            float(dist.MultivariateNormal(jnp.asarray(mean), jnp.asarray(covariance)).log_prob(jnp.asarray(Y)))
        )
    np.testing.assert_allclose(np.diff(found), np.diff(expected), atol=1e-8)


def test_settings_are_checked():
    with pytest.raises(seqgp.SamplerError, match="inflate"):
        Informed(inflate=0.5)
    with pytest.raises(seqgp.SamplerError, match="repetitions"):
        Informed(latent=0)
