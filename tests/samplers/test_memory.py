"""Samplers of chains refuse by name what does not fit into memory, before anything is compiled."""

import jax
import numpy as np
import pytest

import seqgp
from seqgp.mcmc import plan
from seqgp.runtime import engine

MODEL = seqgp.Model(
    seqgp.Separable(seqgp.kernels.Matern12(1.0), seqgp.kernels.Matern12(1.0), 1.0), seqgp.likelihoods.Gaussian(0.1)
)
COUNTS = seqgp.Model(MODEL.kernel, seqgp.likelihoods.Poisson())


def network(sites, times=1):
    x = np.random.default_rng(0).random((sites, 2))
    return [seqgp.Snapshot(float(t), x, np.ones(sites)) for t in range(times)]


@pytest.mark.parametrize("sites", [3000, 10_000])
@pytest.mark.parametrize("model", [MODEL, COUNTS], ids=["Gaussian", "counts"])
def test_full_and_sequential(model, sites, monkeypatch):
    monkeypatch.setattr("seqgp.runtime.memory.available_bytes", lambda: 2 * 10**9)
    monkeypatch.setattr(engine, "_compiler_options", None)  # nothing is compiled
    with pytest.raises(seqgp.SamplerError, match=rf"FullSampler: 4 chains on {sites} sites at 2 times.*OnlineSampler"):
        seqgp.FullSampler(model).sample(jax.random.key(0), network(sites, 2))
    sampler = seqgp.SequentialSampler(model, latent=seqgp.Dense())
    with pytest.raises(seqgp.SamplerError, match=rf"SequentialSampler: 4 chains on {sites} sites .* GB are .*Knots"):
        sampler.init(jax.random.key(0), network(sites)[0])


def test_predictions(monkeypatch):
    sampler = seqgp.SequentialSampler(MODEL, draws=8, warmup=2)
    state, _ = sampler.init(jax.random.key(0), network(10)[0])
    monkeypatch.setattr("seqgp.runtime.memory.available_bytes", lambda: 2 * 10**9)
    monkeypatch.setattr(engine, "_compiler_options", None)
    with pytest.raises(seqgp.SamplerError, match=r"predict: f at 10000 inputs jointly.*fewer inputs"):
        seqgp.predict(jax.random.key(1), MODEL, state, np.random.default_rng(1).random((10_000, 2)))


@pytest.mark.parametrize("times", [1, 2])
def test_the_estimate_is_about_what_the_compiler_asks_for(times, monkeypatch):
    """At least the largest program (of half the chains each on two cores), and at most six times as much."""
    needed, said = [], []
    build, check = engine._measured, plan.check_fits
    monkeypatch.setattr(engine, "_measured", lambda one: needed.append(build(one)[1]) or build(one))
    monkeypatch.setattr(plan, "check_fits", lambda n, *rest: said.append(n) or check(n, *rest))
    engine.forget()
    seqgp.FullSampler(MODEL, draws=8, chains=4, warmup=2).sample(jax.random.key(0), network(150 // times, times))
    assert max(needed) < said[0] < 6 * max(needed)
