"""Chains: where they start, that they sample the target, and what they count."""

import jax
import numpy as np

import seqgp
import small
from seqgp.mcmc.chains import Recipe, advance, rebase, start
from seqgp.mcmc.exploration import StepExploration
from seqgp.mcmc.plan import Budget, plan_of
from seqgp.mcmc.sample import merge, sample, tune
from sequences import KNOWN, MEAN, NOISE

Y = np.array([0.8, 1.1, -0.2])
UPDATES = seqgp.Informed()
RECIPE = Recipe(KNOWN, UPDATES)
PROBLEM = small.target(Y, KNOWN, mean=np.zeros(0), covariance=np.zeros((0, 0))).problem
PLAN = plan_of(Budget(400, 2, 20, 1), UPDATES, first=False)
WINDOWS = np.broadcast_to(small.WINDOW, (2, PLAN.warmup + PLAN.draws, 1, 3))
NO_Z = np.zeros((2, 0))


def tuning():
    return UPDATES.tune(StepExploration(KNOWN, PROBLEM, small.WINDOW)).tuning


def test_pieces_one_after_the_other_are_one_chain_each():
    tuned = tuning()
    chains = start(jax.random.key(0), RECIPE, PROBLEM, PLAN, tuned, NO_Z, WINDOWS[:, 0])
    assert len(chains.positions) == 2
    done = []
    after, draws, counts = advance(jax.random.key(1), chains, tuned, WINDOWS[:, : 4 * PLAN.piece], done.append)
    assert draws.sites.shape == (2, 4 * PLAN.piece, 3)
    assert sum(done) == 2 * 4 * PLAN.piece
    assert counts["latent"].updates == 2 * 4 * PLAN.piece
    for chain, position in enumerate(after.positions):
        np.testing.assert_array_equal(draws.sites[chain, -1], position.sites)
    again = rebase(after, tuned, WINDOWS[:, 0])
    for one, two in zip(again.positions, after.positions):
        np.testing.assert_allclose(one.sites, two.sites)


def test_the_draws_are_those_of_the_exact_posterior():
    """Gaussian data at known parameters: independent draws; |z| < 5 for three means, a false alarm in 10⁶."""
    found = tune(RECIPE, PROBLEM, small.WINDOW)
    sampled = sample(jax.random.key(2), found, PROBLEM, PLAN, NO_Z, WINDOWS, 0.5, None)
    target = small.target(Y, KNOWN, mean=np.zeros(0), covariance=np.zeros((0, 0)))
    z = np.zeros(0)
    conditional = target.conditional(z)
    prior = np.asarray(target.root(conditional).apply(np.eye(3)))
    prior, offset = prior @ prior.T, np.asarray(target.offset(conditional))
    gain = prior @ np.linalg.inv(prior + NOISE**2 * np.eye(3))
    mean, covariance = offset + gain @ (Y - MEAN - offset), prior - gain @ prior
    draws = merge(np.asarray(sampled.draws.sites))
    assert np.abs((draws.mean(0) - mean) / np.sqrt(np.diag(covariance) / len(draws))).max() < 5
    assert sampled.updates == "informed"
