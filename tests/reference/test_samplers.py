"""The full and the collapsed sampler draw from the same posterior, which quadrature knows."""

import jax
import numpy as np
import pytest

import seqgp
import small
from seqgp.reference import CollapsedSampler, FullSampler, predictive_log_score, quadrature, quadrature_moments
from seqgp.reference.quadrature import Quadrature


def snapshots(steps=2, n=8, seed=0):
    """Of changing size, with a missing value."""
    rng = np.random.default_rng(seed)
    found = []
    for i in range(steps):
        x = rng.uniform(size=(n - i, 1))
        y = 0.3 + np.sin(4 * x[:, 0] + i) + 0.3 * rng.normal(size=n - i)
        y[1] = np.nan
        found.append(seqgp.Snapshot(t=0.5 * i, x=x, y=y))
    return found


def model(**changes):
    return small.model(**({"scale": 1.0, "mean": 0.0} | changes))


def scores(state, info, means, sds):
    """z-scores of posterior means, by the Monte Carlo error of the draws."""
    z = np.asarray(state.z)
    errors = np.array([z[:, i].std() / info.ess[name] ** 0.5 for i, name in enumerate(info.ess) if name != "latent"])
    return (z.mean(0) - means) / errors, z.std(0) / sds


@pytest.fixture(scope="module")
def exact():
    return quadrature(model(), snapshots(), spacing=0.9)


@pytest.mark.parametrize("updates", ["collapsed", "plain", "informed"])
def test_samplers_against_quadrature(exact, updates):
    if updates == "collapsed":
        sampler = CollapsedSampler(model(), draws=4000)
    elif updates == "plain":
        sampler = FullSampler(model(), draws=8000, warmup=300, updates="plain", thin=3)
    else:
        sampler = FullSampler(model(), draws=4000, updates="informed")
    state, info = sampler.sample(jax.random.key(0), snapshots())
    assert info.max_rhat < 1.02
    z, ratio = scores(state, info, exact.mean, exact.sd)
    assert np.abs(z).max() < 4
    assert np.abs(ratio - 1).max() < 0.1
    mean, sd = quadrature_moments(model(), snapshots(), exact)
    latent = np.concatenate([np.asarray(part) for part in state.latent], axis=1)
    assert [part.shape for part in state.latent] == [(len(state.z), 8), (len(state.z), 7)]
    assert np.abs((latent.mean(0) - mean) / sd).max() < 4.5 / info.ess["latent"] ** 0.5
    np.testing.assert_allclose(latent.std(0) / sd, 1, atol=0.1)


def test_quadrature_does_not_depend_on_its_grid(exact):
    finer = quadrature(model(), snapshots(), spacing=0.7)
    np.testing.assert_allclose(finer.mean, exact.mean, atol=2e-3)
    np.testing.assert_allclose(finer.sd, exact.sd, rtol=2e-3)
    assert finer.log_evidence == pytest.approx(exact.log_evidence, abs=1e-3)


def test_an_expectation_is_one_program_whatever_the_number_of_nodes():
    """``Σ w sin(z)³``, which takes several operations: each compiled on its own would be several programs."""
    z = np.linspace(-1, 1, 600).reshape(-1, 2)  # 300 nodes: a batch, and a part of one
    nodes, compiled = Quadrature(("a", "b"), z, np.linspace(0, 1, 300), 0.0), []

    def listen(event, duration, **_):
        if event.endswith("backend_compile_duration"):
            compiled.append(event)

    jax.monitoring.register_event_duration_secs_listener(listen)
    found = nodes.expect(lambda z: jax.numpy.sin(z) ** 3)
    jax.monitoring.unregister_event_duration_listener(listen)
    np.testing.assert_allclose(found, nodes.weights @ np.sin(z) ** 3, rtol=1e-12)
    assert len(compiled) == 1


def test_the_next_snapshot_is_predicted_by_the_ratio_of_evidences():
    """``p(y_2 | y_1) = p(y_1, y_2) / p(y_1)``: a mean over the posterior of the parameters."""
    first, both = snapshots()[:1], snapshots()
    known = model(likelihood=seqgp.likelihoods.Gaussian(0.3))
    state, _ = CollapsedSampler(known, draws=4000, chains=2).sample(jax.random.key(1), first)
    found = predictive_log_score(known, first, both[1], state.z)
    truth = quadrature(known, both).log_evidence - quadrature(known, first).log_evidence
    assert found == pytest.approx(truth, abs=0.1)


def test_poisson_data_and_a_likelihood_of_the_whole_latent():
    rng = np.random.default_rng(0)
    x = [rng.uniform(size=(n, 1)) for n in (5, 4)]
    counts = [seqgp.Snapshot(t=i, x=x[i], y=rng.poisson(2.0, size=len(x[i]))) for i in range(2)]
    state, info = FullSampler(model(likelihood=seqgp.likelihoods.Poisson()), draws=200, warmup=100).sample(
        jax.random.key(0), counts
    )
    assert state.latent[1].shape == (200, 4)
    assert np.isfinite(info.min_ess)

    import jax.numpy as jnp
    import numpyro.distributions as dist

    total = seqgp.likelihoods.Likelihood(lambda f, context: dist.Normal(jnp.sum(f)[None], 0.1))
    sums = [seqgp.Snapshot(t=i, x=x[i], y=np.array([2.0 + i])) for i in range(2)]
    state, _ = FullSampler(model(likelihood=total), draws=200, warmup=200).sample(jax.random.key(0), sums)
    np.testing.assert_allclose(np.asarray(state.latent[1]).sum(1).mean(), 3.0, atol=0.1)


def test_errors_name_what_is_wrong():
    with pytest.raises(seqgp.ModelError, match=r"CollapsedSampler integrates the latent out.*Poisson"):
        CollapsedSampler(model(likelihood=seqgp.likelihoods.Poisson()))
    with pytest.raises(seqgp.SamplerError, match="not divisible"):
        FullSampler(model(), draws=10, chains=3)
    sampler = FullSampler(model(), draws=10)
    with pytest.raises(seqgp.DataError, match="empty"):
        sampler.sample(jax.random.key(0), [])
    with pytest.raises(seqgp.DataError, match=r"t = 0\.0 is not after the last t = 0\.5"):
        sampler.sample(jax.random.key(0), snapshots()[::-1])
    many = model(mean=seqgp.ScaledSigmoid(0, 1))
    with pytest.raises(seqgp.ModelError, match="one to three"):
        quadrature(many, snapshots())
