"""Black boxes (values by ``jax.pure_callback``, no derivatives): against quadrature, and against the same in JAX."""

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest

import seqgp
from samplers.online.test_exact import COUNTS, MEAN, TIMES, model, quadrature, snapshots, stepped
from seqgp.evaluate.choose import best_sampler


def rates(f):
    return np.exp(np.asarray(f))


def called(f):
    return jax.pure_callback(rates, jax.ShapeDtypeStruct(f.shape, f.dtype), f, vmap_method="expand_dims")


def counts(f, context):
    return dist.Poisson(called(f))


def test_tabulated_counts_by_quadrature():
    """The evidence corrected by paths within three of its errors, which tell it from EP; the latent within four."""
    truth, mean, variance = quadrature()
    box = model(likelihood=seqgp.likelihoods.Likelihood(counts, pointwise=True))
    sampler = seqgp.OnlineSampler(box, particles=128, draws=4000, paths=64)
    state, info = stepped(sampler, snapshots(TIMES, COUNTS))
    assert abs(info.log_evidence - truth) < 3 * info.log_evidence_se
    latent = np.asarray(state.latent)[:, 0]
    assert abs(latent.mean() - mean) < 4 * np.sqrt(variance / 4000)
    assert abs(latent.var() / variance - 1) < 4 * np.sqrt(2 / 4000)
    assert info.exact
    assert info.extras["table_error"] < 1e-3


def test_with_an_inferred_parameter_it_is_called():
    """The same particles as with derivatives, to the tolerance of EP."""

    def noisy(mean):
        def given(f, context, noise):
            return dist.Normal(mean(f), noise)

        return model(likelihood=seqgp.likelihoods.Likelihood(given, pointwise=True, noise=dist.LogNormal(-1.0, 0.5)))

    data = snapshots(TIMES[:3], [0.4, 1.0, 0.7])
    found = [
        stepped(seqgp.OnlineSampler(noisy(mean), particles=16, draws=16, paths=0), data) for mean in (called, jnp.exp)
    ]
    (_, box), (_, smooth) = found
    assert "table_error" not in box.extras
    assert box.log_evidence == pytest.approx(smooth.log_evidence, abs=1e-3)


def totals(f):
    f = np.asarray(f)
    return np.stack([f.sum(axis=-1), f[..., 0]], axis=-1)


def total(f):
    return jax.pure_callback(totals, jax.ShapeDtypeStruct((2,), f.dtype), f, vmap_method="expand_dims")


def sums(mean, noise=0.3):
    def given(f, context, gain):
        return dist.Normal(gain * mean(f), noise)

    box = seqgp.likelihoods.Likelihood(given, gain=dist.LogNormal(0.0, 0.3))
    kernel = seqgp.Separable(time=seqgp.kernels.Matern12(1.0), space=seqgp.kernels.Matern12(1.0))
    return seqgp.Model(kernel=kernel, mean=MEAN, likelihood=box)


def test_a_box_that_sees_all_of_the_latent_by_sigma_points():
    """Where it is a line with a parameter, sigma points and derivatives find the same linearisation."""
    x = np.array([[0.0], [1.0], [3.0]])
    data = [seqgp.Snapshot(0.5 * i, x, y) for i, y in enumerate(([-1.0, 0.2], [-1.5, np.nan], [0.3, 0.1]))]
    by_hand = lambda f: jnp.stack([f.sum(), f[0]])  # noqa: E731
    found = [stepped(seqgp.OnlineSampler(sums(mean), particles=16, draws=16), data) for mean in (total, by_hand)]
    (state, box), (other, smooth) = found
    assert box.log_evidence == pytest.approx(smooth.log_evidence, abs=1e-5)
    np.testing.assert_allclose(state.particles.log_weights(), other.particles.log_weights(), atol=1e-5)
    assert box.extras["linearisation_ess_fraction"] > 0.99


def test_the_best_sampler_takes_them_online_and_says_so():
    data = snapshots(TIMES, COUNTS)
    choice = best_sampler(model(likelihood=seqgp.likelihoods.Likelihood(counts, pointwise=True)), data[0])
    assert isinstance(choice.sampler, seqgp.OnlineSampler)
    assert "by values of the likelihood alone" in choice.why
    seen = seqgp.Snapshot(0.0, np.zeros((3, 1)), [1.0, 2.0])
    choice = best_sampler(sums(total), seen)
    assert isinstance(choice.sampler, seqgp.OnlineSampler)
    assert "sigma points" in choice.why


def test_a_rough_box_is_told():
    """A likelihood with steps cannot be tabulated well."""

    def steps(f):
        return np.floor(5 * np.asarray(f)) / 5

    def given(f, context):
        return dist.Normal(
            jax.pure_callback(steps, jax.ShapeDtypeStruct(f.shape, f.dtype), f, vmap_method="expand_dims"), 0.3
        )

    box = model(likelihood=seqgp.likelihoods.Likelihood(given, pointwise=True))
    _, info = seqgp.OnlineSampler(box, particles=16, draws=16, paths=0).init(
        jax.random.key(0), snapshots(TIMES, COUNTS)[0]
    )
    assert info.extras["table_error"] > 0.05
    assert any("table of the black box is off" in warning for warning in info.warnings)
