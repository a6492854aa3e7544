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


def test_a_likelihood_that_sees_all_gets_the_sequential_one_and_it_is_said_why():
    choice = best_sampler(model(likelihood=seqgp.Likelihood(lambda f, context: dist.Normal(f.sum(), 1.0))))
    assert isinstance(choice.sampler, seqgp.SequentialSampler)
    assert "sees all of the latent at once" in choice.why


def test_a_model_runs_by_itself():
    run = seqgp.run(model(), snapshots()[:3])
    assert "online sampler" in run.why
    assert run.infos[-1].settings["sampler"] == "online"
    again = seqgp.run(seqgp.OnlineSampler(model()), snapshots()[:3], key=jax.random.key(0))
    assert np.array_equal(run.state.latent, again.state.latent)
