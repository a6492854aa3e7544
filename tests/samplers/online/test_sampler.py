"""The online sampler at the end of a sequence: against the exact posterior."""

import jax
import numpy as np
import numpyro.distributions as dist
import pytest

import seqgp
from seqgp.reference.marginal import log_marginal, observed_distances, stack
from streams import SITES, exact, model, sampled, snapshots


@pytest.mark.parametrize("case", ["complete", "missing", "joining"])
def test_the_end_of_a_sequence_is_the_exact_posterior(case):
    data = snapshots(missing=0.2 if case == "missing" else 0.0, late=case == "joining")
    total, centre, sd = exact(model(), data)
    for seed in range(2):
        state, info = sampled(seqgp.OnlineSampler(model(), particles=128, draws=2000), data, seed)
        weights = state.particles.weights()
        mean = weights @ state.particles.z
        assert np.abs((mean - centre) / sd).max() < 0.15
        assert np.sqrt(weights @ (state.particles.z - mean) ** 2) / sd == pytest.approx(np.ones(2), abs=0.15)
        assert info.log_evidence == pytest.approx(total, abs=max(0.1, 4 * info.log_evidence_se))
        assert np.array(state.z).mean(axis=0) == pytest.approx(mean, abs=0.2 * sd.max())


def test_a_mean_with_a_gaussian_prior_is_integrated_out():
    """The same posterior as with the mean in the particles, and one dimension less there."""
    data = snapshots()
    inside = seqgp.OnlineSampler(model(mean=dist.Normal(0.0, 1.0)), particles=256, draws=4000)
    state, info = sampled(inside, data)
    assert state.particles.z.shape[1] == 2
    total, _, _ = exact(model(mean=dist.Normal(0.0, 1.0)), data, nodes=25)
    assert info.log_evidence == pytest.approx(total, abs=0.1)
    mean = np.asarray(state.parameters["mean"])
    assert mean == pytest.approx(np.asarray(state.z)[:, 2], abs=1e-9)
    assert abs(np.corrcoef(mean, np.asarray(state.latent).mean(axis=1))[0, 1]) > 0.05


def test_the_same_key_gives_the_same_draws():
    sampler, data = seqgp.OnlineSampler(model(), particles=32, draws=50), snapshots()[:4]
    one, other = sampled(sampler, data)[0], sampled(sampler, data)[0]
    assert np.array_equal(one.latent, other.latent)
    assert not np.array_equal(one.latent, sampled(sampler, data, seed=1)[0].latent)


def test_filters_that_were_dropped_are_computed_again_bit_for_bit():
    sampler, data = seqgp.OnlineSampler(model(), particles=32, draws=50), snapshots(missing=0.2)
    state, _ = sampled(sampler, data[:-1])
    whole, _ = sampler.step(jax.random.key(9), state, data[-1])
    again, _ = sampler.step(jax.random.key(9), state._replace(live=None), data[-1])
    assert np.array_equal(whole.latent, again.latent)
    assert np.array_equal(whole.particles.log_weights(), again.particles.log_weights())


def test_filters_on_knots_are_computed_again_where_no_parameter_is_inferred():
    """Inputs that move are laid on knots, which runs all filters anew though there is no particles to renew."""
    kernel = seqgp.Separable(seqgp.kernels.Matern32(0.7), seqgp.kernels.SquaredExponential(1.5))
    sampler = seqgp.OnlineSampler(seqgp.Model(kernel, seqgp.likelihoods.Gaussian(0.3)), particles=16, draws=50)
    rng = np.random.default_rng(0)
    edges = np.concatenate([[[0.0], [10.0]], rng.uniform(0, 10, (10, 1))])
    x = [edges, *rng.uniform(0, 10, (3, 12, 1))]
    data = [seqgp.Snapshot(float(t), at, rng.standard_normal(12)) for t, at in enumerate(x)]
    state, info = sampled(sampler, data[:-1])
    assert info.settings["latent"] == "knots"
    whole, _ = sampler.step(jax.random.key(9), state, data[-1])
    again, _ = sampler.step(jax.random.key(9), state._replace(live=None), data[-1])
    assert np.array_equal(whole.latent, again.latent)
    assert whole.log_evidence == again.log_evidence


def test_prediction_is_the_filters():
    """At a station far in the future ``f`` is the prior's; at the present it is the state's."""
    sampler, data = seqgp.OnlineSampler(model(), particles=64, draws=3000), snapshots()
    state, _ = sampled(sampler, data)
    now = seqgp.predict(jax.random.key(1), model(), state, data[-1].x)
    assert np.asarray(now.f).mean(axis=0) == pytest.approx(np.asarray(state.latent).mean(axis=0), abs=0.03)
    assert np.asarray(now.f).std(axis=0) == pytest.approx(np.asarray(state.latent).std(axis=0), rel=0.1)
    later = seqgp.predict(jax.random.key(1), model(), state, data[-1].x, t=data[-1].t + 1000)
    scale = np.asarray(state.parameters["scale"])
    assert np.asarray(later.f).mean(axis=0) == pytest.approx(np.full(SITES, 0.5), abs=0.15)
    assert np.asarray(later.f).var(axis=0) == pytest.approx(np.full(SITES, (scale**2).mean()), rel=0.15)
    assert np.isfinite(now.log_score(data[-1].y))


def test_one_snapshot_ahead_is_the_evidence():
    """The log score of a forecast is the increment of the log evidence."""
    sampler, data = seqgp.OnlineSampler(model(), particles=256, draws=4000), snapshots()
    state, before = sampled(sampler, data[:-1])
    forecast = seqgp.predict(jax.random.key(3), model(), state, data[-1].x, t=data[-1].t)
    _, after = sampler.step(jax.random.key(4), state, data[-1])
    assert forecast.log_score(data[-1].y) == pytest.approx(after.log_evidence - before.log_evidence, abs=0.1)


def test_what_it_cannot_take_is_named_with_a_remedy():
    flat = seqgp.kernels.StationaryCovariance(lambda r: 1.0 + 0.0 * r)
    kernel = seqgp.Separable(time=flat, space=seqgp.kernels.Matern12(1.0))
    with pytest.raises(seqgp.ModelError, match=r"StationaryCovariance in time does not decay.*SequentialSampler"):
        seqgp.OnlineSampler(seqgp.Model(kernel=kernel, likelihood=seqgp.likelihoods.Gaussian(0.1)))
    no_variance = seqgp.likelihoods.Likelihood(lambda f, context: dist.TruncatedPolyaGamma(batch_shape=(1,)))
    sampler = seqgp.OnlineSampler(model(likelihood=no_variance))
    with pytest.raises(seqgp.ModelError, match=r"no mean and variance.*SequentialSampler"):
        sampler.init(jax.random.key(0), seqgp.Snapshot(0.0, np.zeros((3, 1)), [1.0]))
    joint = seqgp.likelihoods.Likelihood(lambda f, context: dist.MultivariateNormal(f, np.eye(3)))
    with pytest.raises(seqgp.ModelError, match=r"joint over the elements of y.*SequentialSampler"):
        seqgp.OnlineSampler(model(likelihood=joint)).init(
            jax.random.key(0), seqgp.Snapshot(0.0, np.zeros((3, 1)), np.ones(3))
        )
    with pytest.raises(seqgp.SamplerError, match="particles = 3"):
        seqgp.OnlineSampler(model(), particles=3)
    with pytest.raises(seqgp.SamplerError, match="forget"):
        seqgp.OnlineSampler(model(), forget=0)
    for latent in ("sparse", None, seqgp.Knots):
        with pytest.raises(seqgp.SamplerError, match=r"^latent = .*: expected 'auto', seqgp\.Dense\(\)"):
            seqgp.OnlineSampler(model(), latent=latent)
    assert seqgp.OnlineSampler(model(), forget=np.float32(0.5)).forget == 0.5


def test_forgetting_nothing_is_neutral_and_a_jump_is_followed():
    """Noise that jumps from 0.3 to 1.5: with ``forget`` the posterior follows, without it lags behind."""
    noisy = model(likelihood=seqgp.likelihoods.Gaussian(seqgp.ScaledSigmoid(0, 4)))
    calm = snapshots()
    rng = np.random.default_rng(5)
    wild = [seqgp.Snapshot(s.t + 40, s.x, s.y + 1.5 * rng.normal(size=SITES)) for s in snapshots(seed=1)]
    found = {}
    for forget in (1.0, 0.8):
        state, _ = sampled(seqgp.OnlineSampler(noisy, particles=64, draws=500, forget=forget), calm + wild)
        found[forget] = float(np.mean(state.parameters["noise"]))
    assert found[0.8] > 1.15 > found[1.0] + 0.05


def test_the_order_of_the_terms_of_a_sum_does_not_matter_on_knots():
    """A very smooth term first: its eigenvectors alone would leave out most of the other's."""
    smooth = seqgp.Separable(seqgp.kernels.Matern12(3.0), seqgp.kernels.SquaredExponential(8.0))
    rougher = seqgp.Separable(seqgp.kernels.Matern32(0.7), seqgp.kernels.SquaredExponential(1.3), 1.2)
    rng = np.random.default_rng(1)
    edges = np.concatenate([[[0.0], [10.0]], rng.uniform(0, 10, (10, 1))])
    data = [
        seqgp.Snapshot(0.2 * i, x, np.sin(3 * x[:, 0]) + 0.3 * rng.standard_normal(12))
        for i, x in enumerate([edges, *rng.uniform(0, 10, (2, 12, 1))])
    ]
    for kernel in (smooth + rougher, rougher + smooth):
        known = seqgp.Model(kernel, seqgp.likelihoods.Gaussian(0.3))
        _, info = sampled(seqgp.OnlineSampler(known, particles=16, draws=50), data)
        assert info.settings["latent"] == "knots"
        stacked, parameters = stack(known, data), known.parameters(np.zeros(0))
        exactly = log_marginal(known, stacked, observed_distances(known, stacked), parameters)
        assert info.log_evidence == pytest.approx(float(exactly), abs=0.01)


def test_knots_follow_inputs_that_drift():
    """Floats leave the box that they began in: the evidence is that the exact one."""
    kernel = seqgp.Separable(seqgp.kernels.Matern32(2.0), seqgp.kernels.SquaredExponential(2.5))
    known = seqgp.Model(kernel, seqgp.likelihoods.Gaussian(0.3))
    rng = np.random.default_rng(0)
    x = [3.0 * i + rng.uniform(0, 8, (12, 1)) for i in range(4)]
    data = [seqgp.Snapshot(0.5 * i, at, np.sin(at[:, 0]) + 0.3 * rng.standard_normal(12)) for i, at in enumerate(x)]
    run = seqgp.run(seqgp.OnlineSampler(known, particles=16, draws=50), data, key=jax.random.key(0))
    assert run.infos[-1].settings["latent"] == "knots"
    stacked, parameters = stack(known, data), known.parameters(np.zeros(0))
    exactly = log_marginal(known, stacked, observed_distances(known, stacked), parameters)
    assert run.state.log_evidence == pytest.approx(float(exactly), abs=0.05)
    again = run.state._replace(live=None).ready(known)
    assert np.array_equal(again.live.history.layout.knots.points, run.state.live.history.layout.knots.points)
    asked = seqgp.OnlineSampler(known, particles=16, draws=50, latent=seqgp.Knots(domain=[(0.0, 10.0)]))
    with pytest.raises(seqgp.DataError, match="outside the domain"):
        seqgp.run(asked, data, key=jax.random.key(0))
