"""A problem sampled: what is said of its start, and the plan of the updates that are used."""

import re
from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest

import seqgp
import small
from seqgp.mcmc.informed import Informed
from seqgp.mcmc.plain import Plain
from seqgp.mcmc.sample import _check_start


def chains_at(log_likelihoods):
    """Chains of which no more is known than the log likelihood where each is."""
    positions = [SimpleNamespace(log_likelihood=np.asarray(value)) for value in log_likelihoods]
    return SimpleNamespace(positions=positions, plan=SimpleNamespace(chains=len(positions)))


@pytest.mark.parametrize(
    ("values", "what"),
    [
        ([5.0, -np.inf], "returned NaN or -inf at .* in 1 of 2 chains"),
        ([5.0, np.nan], "returned NaN or -inf at .* in 1 of 2 chains"),
        ([-np.inf, -np.inf], "returned NaN or -inf at .* in 2 of 2 chains"),
        ([5.0, np.inf], r"returned \+inf at .* in 1 of 2 chains"),
        ([-np.inf, np.inf], r"returned NaN, -inf or \+inf at"),
    ],
)
def test_what_a_start_without_density_is_called(values, what):
    with pytest.raises(seqgp.SamplerError, match=what):
        _check_start(chains_at(values), 0.0)


def test_a_start_with_density_everywhere_passes():
    _check_start(chains_at([-3.0]), 0.0)


def model():
    own = seqgp.likelihoods.Likelihood(lambda f, context: dist.Normal(f, 1.0))
    return small.model(
        time=seqgp.kernels.Matern12(1.0), space=seqgp.kernels.Matern12(1.0), scale=1.0, mean=0.0, likelihood=own
    )


def snapshot(t):
    return seqgp.Snapshot(t, np.array([[0.0], [1.0]]), np.array([0.3, -0.2]))


@pytest.fixture
def lost(monkeypatch):
    """No search for the point of the informed updates converges."""
    search = Informed.tune

    def tune(self, target):
        found = target.search(target.mean)
        failed = SimpleNamespace(search=lambda z: found._replace(converged=jnp.asarray(False)))
        for name in ("mean", "covariance", "present", "differentiable", "prior_variance", "curvature"):
            setattr(failed, name, getattr(target, name))
        return search(self, failed)

    monkeypatch.setattr(Informed, "tune", tune)


def test_the_fallback_to_plain_updates_has_their_plan(lost):
    """Warm-up and thinning of the initial sample, and no draws that only informed updates adapt in, are Plain's own."""
    counts = {}
    for updates in ("informed", "plain"):
        sampler = seqgp.SequentialSampler(model(), draws=8, chains=2, updates=updates)
        state, info = sampler.init(jax.random.key(0), snapshot(0.0))
        after = sampler.step(jax.random.key(1), state, snapshot(0.5))[1]
        assert info.settings["updates"] == after.settings["updates"] == "plain"
        counts[updates] = [{name: one.updates for name, one in each.updates.items()} for each in (info, after)]
    assert counts["informed"] == counts["plain"]


@pytest.mark.parametrize("updates", [Plain(), Informed(), Informed(adapt=5)])
@pytest.mark.parametrize("first", [True, False])
def test_advice_names_settings_that_there_are(updates, first):
    """Of the sampler where it is the initial sample's, of the updates later."""
    remedy = updates.schedule(first).remedy
    of_updates = re.findall(r"(\w+)=", remedy)
    of_sampler = set(re.findall(r"\w+", re.sub(r"\w+\(.*\)", "", remedy))) - {"or"}
    assert all(hasattr(updates, name) for name in of_updates)
    assert of_sampler <= set(seqgp.SequentialSampler.__init__.__annotations__)
    assert "draws" in of_sampler
    assert ("thin" in of_sampler) == first  # a later step has one sweep a draw
    assert bool(of_updates) == (not first)
