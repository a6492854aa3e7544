"""Likelihoods that see all of the latent: against closed forms where they are linear, else against quadrature."""

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest
from scipy.special import logsumexp

import seqgp
from seqgp.samplers.online.quadratics import LinearisedSnapshot
from solver_streams import SEEN, linear_data, linear_model
from streams import sampled

TIMES = np.array([0.0, 0.5, 1.2])


def covariance_in_time(times, lengthscale):
    distance = 3**0.5 * jnp.abs(times[:, None] - times[None, :]) / lengthscale
    return (1 + distance) * jnp.exp(-distance)


def test_linear_data_end_at_the_exact_posterior():
    """Two parameters by quadrature, everything else integrated out."""
    model, data = linear_model(), linear_data()
    times, x = jnp.asarray([one.t for one in data]), data[0].x
    y = np.concatenate([one.y for one in data])
    there = ~np.isnan(y)
    observe = jnp.kron(jnp.eye(len(data)), jnp.asarray(SEEN))[there]

    def posterior(z):
        parameters = model.parameters(jnp.concatenate([z, jnp.zeros(1)]))
        space = jnp.exp(-jnp.abs(x - x.T) / 0.5)
        time = covariance_in_time(times, parameters["time.lengthscale"])
        prior = jnp.kron(time, parameters["scale"] ** 2 * space) + 1.0
        root = jnp.linalg.cholesky(observe @ prior @ observe.T + 0.09 * jnp.eye(there.sum()))
        gain = jax.scipy.linalg.solve_triangular(root, observe @ prior, lower=True)
        white = jax.scipy.linalg.solve_triangular(root, y[there], lower=True)
        log_evidence = -0.5 * white @ white - jnp.log(jnp.diag(root)).sum() - 0.5 * there.sum() * jnp.log(2 * jnp.pi)
        return log_evidence, (gain.T @ white)[-4:], jnp.diag(prior - gain.T @ gain)[-4:]

    centre, covariance = model.prior_of_z()
    line = 1.5 * np.linspace(-4, 4, 41)
    grid = np.stack([part.ravel() for part in np.meshgrid(centre[0] + line, centre[1] + line)], axis=1)
    evidence, mean, variance = (np.asarray(part) for part in jax.lax.map(posterior, jnp.asarray(grid)))
    prior = -0.5 * ((grid - centre[:2]) ** 2 / np.diag(covariance)[:2]).sum(axis=1)
    log_mass = prior - logsumexp(prior) + evidence
    share = np.exp(log_mass - logsumexp(log_mass))
    f = share @ mean
    sd = np.sqrt(share @ (variance + mean**2) - f**2)
    z_mean = share @ grid
    z_sd = np.sqrt(share @ (grid - z_mean) ** 2)

    state, info = sampled(seqgp.OnlineSampler(model, particles=128, draws=4000), data)
    weights = state.particles.weights()
    assert info.log_evidence == pytest.approx(logsumexp(log_mass), abs=0.2)
    assert np.abs((weights @ state.particles.z - z_mean) / z_sd).max() < 0.15
    assert np.abs((np.asarray(state.latent).mean(axis=0) - f) / sd).max() < 0.1
    assert np.asarray(state.latent).std(axis=0) / sd == pytest.approx(np.ones(4), abs=0.1)
    assert info.extras["linearisation_ess_fraction"] > 0.99


def curved(f, context, noise):
    return dist.Normal(jnp.exp(f), noise)


def curved_quadrature(y, model):
    """Evidence, moments of ``f`` at the last time and of the noise's ``z``: a curved likelihood at one site."""
    line = np.linspace(-4.5, 4.5, 121)
    path = np.stack(np.meshgrid(line, line, line, indexing="ij"), axis=-1)
    covariance = np.asarray(covariance_in_time(jnp.asarray(TIMES), 1.0)) + 1e-8 * np.eye(3)
    log_prior = -0.5 * np.einsum("...i,ij,...j->...", path, np.linalg.inv(covariance), path)
    log_prior -= 0.5 * np.log(np.linalg.det(2 * np.pi * covariance)) - 3 * np.log(line[1] - line[0])
    squares = ((y - np.exp(path)) ** 2).sum(axis=-1)
    nodes = np.linspace(-4, 4, 33)
    (centre,), ((variance,),) = model.prior_of_z()
    masses, firsts, seconds = [], [], []
    for node in nodes:
        noise = float(model.parameters(jnp.asarray([centre + node * variance**0.5]))["noise"])
        mass = np.exp(log_prior - 0.5 * squares / noise**2 - 3 * np.log(noise) - 1.5 * np.log(2 * np.pi))
        last = mass.sum(axis=(0, 1))
        masses.append(last.sum())
        firsts.append(last @ line)
        seconds.append(last @ line**2)
    weight = np.exp(-0.5 * nodes**2) / np.exp(-0.5 * nodes**2).sum()
    total = weight @ masses
    share = weight * masses / total
    mean, z = weight @ firsts / total, centre + nodes * variance**0.5
    return np.log(total), mean, np.sqrt(weight @ seconds / total - mean**2), share @ z


CURVED = np.array([1.4, 2.6, 0.7])


def curved_model(noise):
    kernel = seqgp.Separable(time=seqgp.kernels.Matern32(1.0), space=seqgp.kernels.Matern12(1.0), scale=1.0)
    return seqgp.Model(kernel=kernel, mean=0.0, likelihood=seqgp.likelihoods.Likelihood(curved, noise=noise))


def curved_data():
    return [seqgp.Snapshot(t, np.zeros((1, 1)), [value]) for t, value in zip(TIMES, CURVED)]


@pytest.mark.parametrize("high, apart", [(0.4, 0.1), (1.5, 0.3)], ids=["little noise", "much noise"])
def test_curved_data_end_near_the_exact_posterior(high, apart):
    """With noise of half the signal the posterior is far from Gaussian, and what is handed on is a Gaussian."""
    model = curved_model(seqgp.ScaledSigmoid(0, high))
    evidence, mean, sd, noise = curved_quadrature(CURVED, model)
    state, info = sampled(seqgp.OnlineSampler(model, particles=128, draws=8000), curved_data())
    f = np.asarray(state.latent)[:, 0]
    assert info.log_evidence == pytest.approx(evidence, abs=0.3)
    assert abs(f.mean() - mean) < apart * sd
    assert f.std() == pytest.approx(sd, rel=0.12)
    assert float(state.particles.weights() @ state.particles.z[:, 0]) == pytest.approx(noise, abs=0.3)


def test_without_the_correction_the_evidence_is_off(monkeypatch):
    model = curved_model(seqgp.ScaledSigmoid(0, 1.5))
    evidence = curved_quadrature(CURVED, model)[0]
    monkeypatch.setattr(LinearisedSnapshot, "log_correction", lambda self, z: np.zeros(len(z)))
    _, info = sampled(seqgp.OnlineSampler(model, particles=128, draws=20), curved_data())
    assert evidence - info.log_evidence > 0.35


def test_a_mean_that_depends_on_parameters_of_the_likelihood_follows_them():
    """A slope that is inferred: the same as the pointwise likelihood, which needs no linearisation."""

    def scaled(f, context, slope):
        return dist.Normal(slope * f, 0.2)

    found = []
    for pointwise in (False, True):
        likelihood = seqgp.likelihoods.Likelihood(scaled, pointwise=pointwise, slope=seqgp.ScaledSigmoid(0, 2))
        kernel = seqgp.Separable(time=seqgp.kernels.Matern12(2.0), space=seqgp.kernels.Matern12(1.0), scale=1.0)
        model = seqgp.Model(kernel=kernel, mean=1.0, likelihood=likelihood)
        data = [seqgp.Snapshot(t, np.zeros((1, 1)), [value]) for t, value in zip(TIMES, [0.9, 1.3, 1.1])]
        state, info = sampled(seqgp.OnlineSampler(model, particles=128, draws=2000), data)
        found.append((state.particles.weights() @ state.particles.z, info.log_evidence))
    assert found[0][0] == pytest.approx(found[1][0], abs=0.2)
    assert found[0][1] == pytest.approx(found[1][1], abs=0.15)


def test_linearisations_are_kept_with_the_data_and_a_run_goes_on_bit_for_bit(tmp_path):
    model, data = linear_model(), linear_data()
    sampler = seqgp.OnlineSampler(model, particles=32, draws=40)
    whole = seqgp.run(sampler, data, key=jax.random.key(0), store=tmp_path / "whole", forecast=False)
    seqgp.run(sampler, data[:3], key=jax.random.key(0), store=tmp_path / "parts", keep=1, forecast=False)
    again = seqgp.run(sampler, data, store=tmp_path / "parts", forecast=False)
    assert np.array_equal(whole.state.latent, again.state.latent)
    assert not seqgp.Store(tmp_path / "parts").check()
    past = seqgp.smooth(jax.random.key(1), sampler, again.state, [0.0, 0.7], draws=20)
    assert past.latent[1].shape == (20, 4)
    assert np.isfinite(past.latent[1]).all()
