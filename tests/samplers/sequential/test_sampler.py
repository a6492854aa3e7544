"""What a user sees of init and step: shapes, seeds, changing inputs, likelihoods and kernels of one's own."""

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest
import tinygp

import seqgp
import small
from seqgp.samplers.sequential.state import moments_of_z
from sequences import KNOWN, compilations, sampler, snapshots

DATA = snapshots([4, 4, 3, 4])


def sequence(sequential, data=DATA, seed=0):
    """States and infos of a run."""
    keys = jax.random.split(jax.random.key(seed), len(data))
    found = [sequential.init(keys[0], data[0])]
    for i, snapshot in enumerate(data[1:]):
        found.append(sequential.step(keys[1 + i], found[-1][0], snapshot))
    return found


@pytest.fixture(scope="module")
def run():
    return sequence(sampler())


def test_shapes_and_names(run):
    for (state, info), snapshot in zip(run, DATA):
        assert state.latent.shape == (40, len(snapshot.x))
        assert state.z.shape == (40, 5)
        assert list(state.parameters) == small.MODEL.inferred
        assert all(values.shape == (40,) for values in state.parameters.values())
        assert state.t == info.t == snapshot.t
        assert info.chains == 2
        assert set(info.rhat) == set(info.ess) == {*small.MODEL.names, "latent"}
    assert [state.step for state, _ in run] == [1, 2, 3, 4]
    for name, values in small.MODEL.natural(jnp.asarray(run[-1][0].z)).items():
        np.testing.assert_array_equal(values, run[-1][0].parameters[name])


def test_updates_are_counted(run):
    """Of 40 draws, each after three updates of the latent, and two of the mean (at fixed level, at fixed ``nu``)."""
    updates = run[1][1].updates
    assert {name: info.updates for name, info in updates.items()} == {
        "latent": 120,
        "kernel": 40,
        "mean": 80,
        "likelihood": 40,
    }
    assert all(info.evaluations >= info.updates for info in updates.values())
    assert all(info.capped == info.not_positive_definite == 0 for info in updates.values())


def test_the_same_seed_gives_the_same_draws(run):
    again = sequence(sampler())
    for (one, _), (two, _) in zip(run, again):
        np.testing.assert_array_equal(one.z, two.z)
        np.testing.assert_array_equal(one.latent, two.latent)
    other = sequence(sampler(), DATA[:2], seed=1)
    assert not np.array_equal(other[1][0].latent, run[1][0].latent)


def test_all_chains_differ(run):
    z = np.asarray(run[0][0].z).reshape(2, 20, -1)
    assert not np.isclose(z[0], z[1]).any()


def test_missing_data_everywhere_in_a_step(run):
    """The draws are then predictions, and the moments of ``z`` stay what they were."""
    state = run[0][0]
    nothing = seqgp.Snapshot(DATA[1].t, DATA[1].x, np.full(4, np.nan))
    after, info = sampler().step(jax.random.key(5), state, nothing)
    assert info.missing == 4
    assert any("all of y is missing" in warning for warning in info.warnings)
    assert np.isfinite(after.latent).all()


def test_some_missing_data_and_more_inputs_than_before(run):
    """More inputs than were compiled for: padded to a larger size, and the window with them."""
    state = run[-1][0]
    more = snapshots([6], times=[DATA[-1].t + 0.1], seed=3)[0]
    y = np.where(np.arange(6) == 2, np.nan, more.y)
    after, info = sampler().step(jax.random.key(6), state, seqgp.Snapshot(more.t, more.x, y))
    assert after.latent.shape == (40, 6)
    assert info.missing == 1
    assert after.window.x.shape[1] >= 6


def test_moments_after_the_first_time_keep_the_prior_of_the_time_kernel(run):
    prior_mean, prior_covariance = small.MODEL.prior_of_z()
    mean, covariance = moments_of_z(small.MODEL, run[0][0])
    z = np.asarray(run[0][0].z)
    assert mean[0] == prior_mean[0]
    np.testing.assert_allclose(covariance[0], [prior_covariance[0, 0], 0, 0, 0, 0])
    np.testing.assert_allclose(mean[1:], z[:, 1:].mean(0))
    np.testing.assert_allclose(covariance[1:, 1:], np.cov(z[:, 1:], rowvar=False), rtol=1e-6)
    mean, covariance = moments_of_z(small.MODEL, run[1][0])
    z = np.asarray(run[1][0].z)
    np.testing.assert_allclose(mean, z.mean(0))
    np.testing.assert_allclose(covariance, np.cov(z, rowvar=False), rtol=1e-6, atol=1e-8)


def test_a_likelihood_that_sees_all_of_the_latent():
    """``y`` of another length than ``x``, a changing number of inputs, and a context."""
    likelihood = seqgp.likelihoods.Likelihood(
        lambda f, context, noise: dist.Normal(context["weights"] @ jnp.exp(f), noise), noise=0.3
    )
    model = seqgp.Model(kernel=KNOWN.kernel, likelihood=likelihood)
    rng = np.random.default_rng(0)
    data = [
        seqgp.Snapshot(t, rng.uniform(-1, 1, (n, 1)), [1.5, np.nan], {"weights": np.full((2, n), 1 / n)})
        for t, n in [(0.0, 4), (0.4, 3), (0.9, 5)]
    ]
    found = sequence(sampler(model, draws=400, updates=seqgp.Plain(sweeps=(10, 0, 0))), data)
    for (state, info), snapshot in zip(found, data):
        assert state.latent.shape == (400, len(snapshot.x))
        assert info.missing == 1
        average = np.exp(np.asarray(state.latent)).mean(1)
        assert abs(average.mean() - 1.5) < 0.2  # the datum pins it down to 0.3 / 400^½, and the prior pulls a little


def test_a_tinygp_kernel_and_a_prior_through_a_function():
    space = tinygp.kernels.Matern32(scale=0.8, distance=tinygp.kernels.distance.L2Distance())
    theirs = sequence(sampler(_level_model(space)), DATA[:1])
    ours = sequence(sampler(_level_model(seqgp.kernels.Matern32(0.8))), DATA[:1])
    for (one, _), (two, _) in zip(theirs, ours):
        np.testing.assert_allclose(one.latent, two.latent, rtol=1e-6, atol=1e-6)
        level = jax.nn.softplus(one.parameters["mean"])
        assert ((level > 0) & (level < 0.5)).all()


def _level_model(space):
    return seqgp.Model(
        kernel=seqgp.Separable(time=seqgp.kernels.Matern32(1.0), space=space),
        mean=seqgp.ScaledSigmoid(0, 0.5).through(seqgp.means.inverse_softplus),
        likelihood=seqgp.likelihoods.Gaussian(0.5),
    )


def test_duplicate_inputs():
    x = np.repeat(DATA[0].x[:2], 2, axis=0)
    data = [seqgp.Snapshot(t, x, DATA[0].y) for t in (0.0, 0.5)]
    for state, info in sequence(sampler(), data):
        assert np.isfinite(state.latent).all()
        assert info.updates["latent"].capped == 0


def test_a_covariance_that_cannot_be_factored_is_rejected_and_counted():
    """A function that is no covariance for half of its parameter's range."""
    broken = seqgp.kernels.Covariance(
        lambda a, b, knob: jnp.where(jnp.array_equal(a, b), 1.0, knob), knob=seqgp.ScaledSigmoid(-1.0, 1.0)
    )
    model = seqgp.Model(
        kernel=seqgp.Separable(time=seqgp.kernels.Matern12(1.0), space=broken),
        likelihood=seqgp.likelihoods.Gaussian(0.5),
    )
    found = sequence(sampler(model), DATA[:2])
    assert sum(info.updates["kernel"].not_positive_definite for _, info in found) > 0
    assert any("not positive definite" in warning for _, info in found for warning in info.warnings)
    for state, _ in found:
        assert np.isfinite(state.latent).all()
        assert (np.asarray(state.parameters["space.knob"]) > -1 / 3).all()  # four equal correlations


def test_one_draw_has_no_moments(run):
    state = run[0][0]
    one = state._replace(z=state.z[:1], window=state.window._replace(f=state.window.f[:1]))
    with pytest.raises(seqgp.SamplerError, match="no covariance of the parameters to carry; use draws >= 2"):
        moments_of_z(small.MODEL, one)


def test_progress_is_reported():
    heard = []
    sampler(KNOWN).init(jax.random.key(0), DATA[0], progress=heard.append)
    assert heard == sorted(heard)
    assert heard[-1] == pytest.approx(1.0)


def test_compiled_code_is_shared_between_equal_samplers(run):
    before = compilations()
    sequence(sampler(), DATA[:2])
    assert compilations() == before
