"""The best sampler that a model allows."""

import jax
import numpy as np
import numpyro.distributions as dist

import seqgp
from seqgp.evaluate.choose import best_sampler
from streams import model, snapshots


def test_a_linear_system_gets_the_online_sampler():
    choice = best_sampler(model(), draws=50)
    assert isinstance(choice.sampler, seqgp.OnlineSampler)
    assert choice.sampler.draws == 50


def joint(f, context):
    return dist.MultivariateNormal(f[:1], np.eye(1))


def test_a_likelihood_that_sees_all_gets_the_online_sampler_where_its_data_fall_apart():
    snapshot = seqgp.Snapshot(0.0, np.zeros((3, 1)), [1.0])
    summed = model(likelihood=seqgp.likelihoods.Likelihood(lambda f, context: dist.Normal(f.sum()[None], 1.0)))
    assert isinstance(best_sampler(summed, snapshot).sampler, seqgp.OnlineSampler)
    assert isinstance(best_sampler(summed).sampler, seqgp.SequentialSampler)
    choice = best_sampler(model(likelihood=seqgp.likelihoods.Likelihood(joint)), snapshot)
    assert isinstance(choice.sampler, seqgp.SequentialSampler)
    assert "joint over the elements" in choice.why


def test_a_model_of_many_parameters_gets_the_online_sampler():
    snapshot = seqgp.Snapshot(0.0, np.zeros((3, 1)), [1.0, 2.0, 0.5])
    function = lambda f, context, weights: dist.Normal(f + weights.sum(), 1.0)  # noqa: E731
    weights = [dist.LogNormal(0.0, 1.0)] * 80
    likelihood = seqgp.likelihoods.Likelihood(function, pointwise=True, weights=weights)
    assert isinstance(best_sampler(model(likelihood=likelihood), snapshot).sampler, seqgp.OnlineSampler)


def test_a_model_runs_by_itself():
    run = seqgp.run(model(), snapshots()[:3])
    assert "online sampler" in run.why
    assert run.infos[-1].settings["sampler"] == "online"
    again = seqgp.run(seqgp.OnlineSampler(model()), snapshots()[:3], key=jax.random.key(0))
    assert np.array_equal(run.state.latent, again.state.latent)
