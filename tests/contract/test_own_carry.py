"""A carry of a user's own: whatever keeps the protocol is accepted, and nothing else in the library knows of it."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import seqgp
from seqgp.mcmc.carried import Carried
from seqgp.samplers.sequential.carry import moments_of_z
from sequences import KNOWN, MEAN, sampler, snapshots

DATA = snapshots([3, 3], times=[0.0, 0.4])


class Forgetful(eqx.Module):
    """Carries the parameters, and nothing of the latent: every snapshot is the first one."""

    @property
    def name(self):
        return "forgetful"

    def summarise(self, model, state):
        return Carried(*moments_of_z(model, state), window_moments=None)

    def report(self, model, state):
        return {"forgotten": state.window.f.shape[1]}, ["the past is forgotten"]

    def window_draws(self, model, state):
        return jnp.zeros_like(state.window.f)

    def size(self, tau, sites):
        return sites

    def prior_at(self, window_moments, conditional, z):
        return conditional

    def offset(self, window_moments, window, prior, z, mean):
        return prior.mean(window)

    def root(self, window_moments, prior):
        return prior.root

    def slide(self, window, sites, mean):
        return jnp.concatenate([window, sites[:, None, :]], axis=1)


def test_a_carry_of_ones_own():
    """The draws have the mean of data whose past was zero; |z| < 5 for three numbers: a false alarm in 10⁶."""
    sequential = sampler(KNOWN, carry=Forgetful(), draws=2000, chains=2, updates=seqgp.Plain(sweeps=(20, 0, 1)))
    state, _ = sequential.init(jax.random.key(0), DATA[0])
    after, info = sequential.step(jax.random.key(1), state, DATA[1])
    assert info.settings["carry"] == "forgetful"
    assert info.extras["forgotten"] == 1
    assert "the past is forgotten" in info.warnings
    prior = _conditional_covariance(DATA[0], DATA[1])
    gain = prior @ np.linalg.inv(prior + float(KNOWN.likelihood.priors["noise"]) ** 2 * np.eye(3))
    mean, covariance = gain @ (DATA[1].y - MEAN), prior - gain @ prior
    scores = (np.asarray(after.latent).mean(0) - MEAN - mean) / np.sqrt(np.diag(covariance) / after.draws)
    assert np.abs(scores).max() < 5


def _conditional_covariance(before, now):
    stacked = np.concatenate([before.x, now.x])
    times = np.repeat([before.t, now.t], [len(before.x), len(now.x)])
    kernel, parameters = KNOWN.kernel, KNOWN.parameters(jnp.zeros(0))
    time = np.exp(-np.abs(times[:, None] - times[None]) / float(parameters["time.lengthscale"]))
    square = ((stacked[:, None] - stacked[None]) ** 2).sum(-1)
    space = np.exp(-0.5 * square / float(parameters["space.lengthscale"]) ** 2)
    full = float(kernel.scale) ** 2 * time * space
    cross = full[3:, :3]
    return full[3:, 3:] - cross @ np.linalg.solve(full[:3, :3] + 1e-8 * np.eye(3), cross.T)


def test_what_lacks_a_method_is_refused_with_its_name():
    with pytest.raises(seqgp.SamplerError, match=r"carry = .*as an object of your own it lacks .*summarise.*slide"):
        sampler(KNOWN, carry=object())
    with pytest.raises(seqgp.SamplerError, match=r"carry = .*expected one of 'joint'"):
        sampler(KNOWN, carry=Forgetful)
