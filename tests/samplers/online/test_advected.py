"""``seqgp.Advected`` in runs: velocities are found, runs go on from their store, and a configuration can say it."""

import jax
import numpy as np
import numpyro.distributions as dist
import pytest

import seqgp
from seqgp import kernels, likelihoods, means
from seqgp.base.errors import DataError, ModelError, SamplerError
from seqgp.evaluate.motion import motions
from seqgp.io.specification import ModelSpec, specify

VELOCITY = (0.5, -0.3)


def key():
    return jax.random.key(0)


TERM = seqgp.Separable(kernels.Matern12(lengthscale=4.0), kernels.SquaredExponential(lengthscale=1.0), 1.0)


def model(velocity=None, diffusion=0.0, term=TERM):
    prior = [dist.Normal(0.0, 1.0)] * 2 if velocity is None else velocity
    kernel = seqgp.Advected(term, velocity=prior, diffusion=diffusion, shortest=2.0, margin=5.0)
    return seqgp.Model(kernel, likelihoods.Gaussian(noise=0.2), mean=dist.Normal(0.0, 1.0))


def storm(steps=6):
    rng = np.random.default_rng(1)
    design = [seqgp.Snapshot(float(t), rng.uniform(0, 3, (25, 2)), np.zeros(25)) for t in range(steps)]
    return seqgp.simulate(key(), model(VELOCITY), design).snapshots


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    sampler = seqgp.OnlineSampler(model(), particles=64, draws=200)
    return seqgp.run(sampler, storm(), key=jax.random.key(1), store=tmp_path_factory.mktemp("runs") / "storm")


def test_the_velocity_is_found(run):
    found = np.asarray(run.state.parameters["velocity"])
    low, high = np.quantile(found, [0.005, 0.995], axis=0)
    assert (low < VELOCITY).all()
    assert (high > VELOCITY).all()
    assert (high - low < 0.8).all()  # of a prior eight times as wide
    (motion,) = run.summary().motions
    assert motion.bearing == pytest.approx(np.degrees(np.arctan2(*VELOCITY)) % 360, abs=30)
    assert motion.speed == pytest.approx(np.hypot(*VELOCITY), rel=0.35)
    assert str(motion) in str(run.summary())


def test_the_info_tells_what_the_modes_leave_out(run):
    info = run.infos[-1]
    assert run.state.step == 6
    assert info.stations is None
    with pytest.raises(DataError, match=r"monitor: seqgp\.Advected"):
        seqgp.monitor(run)
    assert info.settings["filter"] == "Fourier modes"
    assert 0 < info.extras["variance_left_out"] <= info.extras["truncation_error"] < 0.1
    assert not any("Fourier" in warning for warning in info.warnings)
    rough = seqgp.Model(
        seqgp.Advected(
            seqgp.Separable(kernels.Matern12(1.0), kernels.Matern12(lengthscale=0.3)), [0.0, 0.0], shortest=2.0
        ),
        likelihoods.Gaussian(noise=0.2),
    )
    _, info = seqgp.OnlineSampler(rough, particles=16, draws=20).init(key(), storm(1)[0])
    assert any("Fourier modes is off by up to" in warning for warning in info.warnings)


def test_a_run_goes_on_from_its_store_bit_for_bit(run, tmp_path):
    sampler, store = seqgp.OnlineSampler(model(), particles=64, draws=200), tmp_path / "store"
    seqgp.run(sampler, storm()[:3], key=jax.random.key(1), store=store)
    again = seqgp.run(sampler, storm(), key=jax.random.key(1), store=store)
    np.testing.assert_array_equal(np.asarray(again.state.latent), np.asarray(run.state.latent))


def test_it_predicts_and_smooths_anywhere(run):
    """Where the data are taken away at one time, the past given the others on both sides is nearer than the mean."""
    snapshots = list(storm())
    held = snapshots[3]
    snapshots[3] = held._replace(y=np.full_like(held.y, np.nan))
    known = seqgp.OnlineSampler(model(VELOCITY), particles=16, draws=100)
    state = seqgp.run(known, snapshots, key=key()).state
    assert isinstance(state, seqgp.OnlineState)
    smoothed = seqgp.smooth(key(), known, state, [3.0], x=held.x, draws=100).latent[0]
    error = held.y - smoothed.mean(axis=0)
    assert error.std() < 0.5 * held.y.std()
    assert np.abs(error / np.hypot(smoothed.std(axis=0), 0.2)).mean() < 1.3
    ahead = seqgp.predict(key(), run.model, run.state, np.array([[1.0, 1.0]]), t=7.5)
    assert np.isfinite(ahead.f).all()
    with pytest.raises(DataError, match="give Advected margin="):
        seqgp.predict(key(), run.model, run.state, np.array([[50.0, 1.0]]), t=6.0)


def test_counts_and_a_season_of_the_scale():
    """Other likelihoods go through EP as on knots; the scale of a field that moves may have a season."""
    season = means.Modulated(1.0, means.harmonics(4.0), weights=[0.3, 0.0])
    kernel = model(VELOCITY, term=seqgp.Separable(TERM.time, TERM.space, season)).kernel
    counts = [one._replace(y=np.round(np.exp(one.y))) for one in storm(2)]
    sampler = seqgp.OnlineSampler(seqgp.Model(kernel, likelihoods.Poisson()), particles=16, draws=40)
    state = seqgp.run(sampler, counts, key=key()).state
    assert isinstance(state, seqgp.OnlineState)
    assert np.isfinite(state.log_evidence)
    assert "seqgp.Advected" in seqgp.OnlineSampler(sampler.model, paths="auto").approximate()


def test_a_configuration_says_it_and_is_remembered():
    prior = {"distribution": "Normal", "loc": 0.0, "scale": 2.0}
    words = {
        "time": {"kernel": "Matern12", "lengthscale": 4.0},
        "space": {"kernel": "Matern32", "lengthscale": 1.0},
        "velocity": [prior, prior],
        "diffusion": {"distribution": "LogNormal", "loc": 0.0, "scale": 1.0},
        "margin": 5.0,
        "likelihood": {"family": "Gaussian", "noise": 0.1},
    }
    built = ModelSpec.model_validate(words).build()
    assert built.names == ["velocity[0]", "velocity[1]", "diffusion"]
    assert isinstance(built.kernel, seqgp.Advected)
    assert built.kernel.margin == 5.0
    again = specify(built)
    assert again is not None
    assert ModelSpec.model_validate(again).build().fingerprint() == built.fingerprint()
    with pytest.raises(ValueError, match="two ways to move"):
        ModelSpec.model_validate({**words, "slowness": [0.1, 0.1]})
    with pytest.raises(ValueError, match="margin has no effect without velocity"):
        ModelSpec.model_validate({**{k: v for k, v in words.items() if k not in ("velocity", "diffusion")}})


def test_two_fields_have_velocities_of_their_own():
    spreading = seqgp.Advected(TERM, [dist.Normal(0, 1)] * 2, dist.LogNormal(0.0, 1.0))
    kernel = model(VELOCITY).kernel + spreading + TERM
    two = seqgp.Model(kernel, likelihoods.Gaussian(noise=0.2))
    assert two.names == ["1.velocity[0]", "1.velocity[1]", "1.diffusion"]
    draws = {"1.velocity": np.random.default_rng(0).normal((3.0, 4.0), 1e-3, (100, 2))}
    (motion,) = motions(two, draws)
    assert str(motion).startswith("1: moves towards 37° (95% 37 to 37°), 5 distance per unit of time")
    _, info = seqgp.OnlineSampler(two, particles=16, draws=20).init(key(), storm(1)[0])
    assert np.isfinite(info.log_evidence)


def test_who_does_not_take_it_says_so():
    spreading = model(VELOCITY, diffusion=dist.LogNormal(0.0, 1.0))
    with pytest.raises(ModelError, match=r"SequentialSampler does not take seqgp\.Advected"):
        seqgp.SequentialSampler(spreading)
    with pytest.raises(ModelError, match="with a diffusion has no closed form"):
        seqgp.FullSampler(spreading).sample(key(), storm(2))
    with pytest.raises(ModelError, match="with a diffusion has no closed form"):
        seqgp.simulate(key(), spreading, storm(2))
    with pytest.raises(SamplerError, match="latent = Dense"):
        seqgp.OnlineSampler(spreading, latent=seqgp.Dense()).init(key(), storm(1)[0])
    with pytest.raises(SamplerError, match="robust = 'exclude' watches stations"):
        seqgp.OnlineSampler(spreading, robust="exclude")
    own = likelihoods.Gaussian(noise=dist.LogNormal(0.0, 1.0), by="station")
    with pytest.raises(SamplerError, match=r"by='station' does not take seqgp\.Advected"):
        seqgp.OnlineSampler(seqgp.Model(spreading.kernel, own))


def test_the_full_sampler_takes_a_field_that_does_not_spread():
    """Its dense kernel has no modes: the posterior of the last velocity agrees with that of the filters."""
    state, _ = seqgp.FullSampler(model(VELOCITY), draws=400, chains=4).sample(key(), storm(3))
    online = seqgp.run(seqgp.OnlineSampler(model(VELOCITY), particles=16, draws=400), storm(3), key=key()).state
    sd = np.asarray(online.latent).std(axis=0)
    gap = (np.asarray(state.latent[-1]).mean(axis=0) - np.asarray(online.latent).mean(axis=0)) / sd
    assert np.abs(gap).max() < 0.5
    assert np.sqrt(np.mean(gap**2)) < 0.2
