"""Simulation-based calibration with samplers whose answer is known: no data, so the posterior is the prior."""

import jax
import numpy as np
import numpyro.distributions as dist
import pytest
from scipy.stats import chi2

import seqgp
import small
from seqgp.evaluate.simulate import default_design
from seqgp.evaluate.uniformity import bins_for, chi_square, holm, plot_ranks
from seqgp.samplers.full.stacked import FullState


def model(likelihood=None):
    space = seqgp.kernels.Matern32(seqgp.ScaledSigmoid(0.1, 1))
    likelihood = seqgp.likelihoods.Gaussian(0.3) if likelihood is None else likelihood
    return small.model(time=seqgp.kernels.Matern12(1.0), space=space, scale=1.0, likelihood=likelihood)


class FromPrior:
    """Draws from the prior: right where all data are missing, and a posterior that ignores the data elsewhere."""

    def __init__(self, of, spread=1.0, fail=()):
        self.model, self.draws, self.spread, self.fail, self.calls = of, 99, spread, fail, 0

    def sample(self, key, snapshots):
        self.calls += 1
        if self.calls in self.fail:
            raise FloatingPointError("lost")
        rng = np.random.default_rng(np.asarray(jax.random.key_data(key)))
        z = self.spread * 1.5 * rng.normal(size=(self.draws, 2))
        share = 1 / (1 + np.exp(-z))
        scaled = 3**0.5 * np.abs(snapshots[0].x - snapshots[0].x.T) / (0.1 + 0.9 * share[:, :1, None])
        root = np.linalg.cholesky((1 + scaled) * np.exp(-scaled))
        latent = (root @ rng.normal(size=(self.draws, len(snapshots[0].x), 1)))[..., 0] + 2 * share[:, 1:] - 1
        return FullState((0.0,), (latent,), {}, z, ""), type("Info", (), {"min_ess": 99.0})


class Listening(FromPrior):
    """Notes the keys that it is given."""

    def __init__(self, of):
        super().__init__(of)
        self.keys = []

    def sample(self, key, snapshots):
        self.keys.append(key)
        return super().sample(key, snapshots)


def design(missing):
    snapshot = default_design(model(), n=3)[0]
    return snapshot._replace(y=np.full(3, np.nan)) if missing else snapshot


def run(sampler, missing=True, simulations=60):
    return seqgp.calibrate(jax.random.key(0), model(), sampler, simulations, design=design(missing))


def test_an_exact_sampler_is_calibrated_and_a_failure_is_reported_with_its_seed():
    found = run(FromPrior(model(), fail=(7,)))
    assert found.calibrated(1e-3)
    assert set(found.ranks) == {
        "space.lengthscale",
        "mean",
        "latent[0]",
        "latent[1]",
        "latent[2]",
        "log likelihood",
        "log prior",
    }
    assert all(len(ranks) == 59 and ranks.min() >= 0 and ranks.max() <= 99 for ranks in found.ranks.values())
    (failure,) = found.failures
    assert failure.seed == found.seeds[failure.simulation]
    assert "FloatingPointError: lost" in failure.message
    assert "| mean |" in found.table()


def test_too_narrow_a_posterior_is_found_out():
    found = run(FromPrior(model(), spread=0.5), simulations=200)
    assert min(found.corrected["mean"], found.corrected["space.lengthscale"]) < 1e-3


def test_a_posterior_that_ignores_the_data_is_found_out_by_the_log_likelihood():
    found = run(FromPrior(model()), missing=False)
    assert found.corrected["log likelihood"] < 1e-6
    assert found.corrected["mean"] > 1e-3


def words(keys):
    """Keys as something to compare."""
    return {tuple(data) for data in np.asarray(jax.random.key_data(keys)).reshape(-1, 2).tolist()}


def test_the_sampler_has_no_key_of_the_simulation():
    sampler = Listening(model())
    found = run(sampler, simulations=20)
    assert len(words(jax.numpy.stack(sampler.keys))) == 20
    for seed in found.seeds:
        drawn_with = jax.random.split(jax.random.key(int(seed)), 8)  # fold_in gives the same keys
        assert not words(drawn_with) & words(jax.numpy.stack(sampler.keys))


def test_a_design_has_no_data_so_they_need_not_fit():
    """Its values of ``y`` are zeros, and a Gamma's are positive; what the context lacks is named all the same."""
    positive = model(seqgp.likelihoods.Gamma(2.0))
    found = seqgp.calibrate(jax.random.key(0), positive, FromPrior(positive), 20)
    assert len(found.ranks["mean"]) == 20
    with pytest.raises(seqgp.DataError, match="exposure 'area' is missing"):
        seqgp.calibrate(jax.random.key(0), model(seqgp.likelihoods.Poisson("area")), FromPrior(positive), 20)


def test_all_simulations_failing_is_an_error_that_names_the_first():
    with pytest.raises(seqgp.SamplerError, match=r"25 of 25 simulations failed.*seed \d+.*lost"):
        run(FromPrior(model(), fail=range(100)), simulations=25)


def test_a_full_sampler_and_a_sequence_of_steps():
    of = model()
    snapshots = default_design(of, n=2, steps=2)
    for sampler in (
        seqgp.FullSampler(of, draws=99, chains=1, warmup=20, thin=1, updates="informed"),
        seqgp.SequentialSampler(of, draws=99, chains=1, warmup=20, thin=1, updates="informed"),
    ):
        found = seqgp.calibrate(jax.random.key(0), of, sampler, 20, design=snapshots)
        assert not found.failures
        assert all(len(ranks) == 20 for ranks in found.ranks.values())


class Mute(dist.Normal):
    """A distribution that cannot be sampled."""

    def sample(self, key, sample_shape=()):
        raise NotImplementedError


def test_bad_input():
    of = model()
    sampler = FromPrior(of)
    with pytest.raises(seqgp.SamplerError, match="simulations = 19"):
        seqgp.calibrate(jax.random.key(0), of, sampler, 19)
    with pytest.raises(seqgp.SamplerError, match="draws = 50"):
        seqgp.calibrate(jax.random.key(0), of, seqgp.FullSampler(of, draws=50), 20)
    mute = model(seqgp.likelihoods.Likelihood(lambda f, context: Mute(f, 1.0), pointwise=True))
    with pytest.raises(seqgp.ModelError, match="no sample"):
        seqgp.calibrate(jax.random.key(0), mute, sampler, 20)
    rough = seqgp.Separable(seqgp.kernels.Matern12(1.0), lambda x, y: 1 - 9 * abs(x[0] - y[0]), 1.0)
    with pytest.raises(seqgp.ModelError, match=r"prior cannot be simulated: .* 20 of 20"):
        seqgp.calibrate(jax.random.key(0), seqgp.Model(rough, seqgp.likelihoods.Gaussian(0.3)), sampler, 20)


def test_chi_square_and_its_correction():
    assert (bins_for(20), bins_for(100), bins_for(500)) == (4, 20, 20)
    assert chi_square(np.repeat(np.arange(100), 5)) == 1.0
    one_sided = chi_square(np.repeat(np.arange(50), 2))
    assert one_sided == pytest.approx(chi2.sf(100.0, 19))
    assert holm({"a": 0.04, "b": 0.01, "c": 0.03}) == pytest.approx({"a": 0.06, "b": 0.03, "c": 0.06})


def test_the_plot_has_a_panel_for_every_quantity(tmp_path):
    rng = np.random.default_rng(0)
    ranks = {name: rng.integers(0, 100, 50) for name in "abc"}
    plot_ranks(ranks).savefig(tmp_path / "ranks.png")
    assert (tmp_path / "ranks.png").stat().st_size > 1000
