"""Maps of many times from a few particles: as good as from all, and filters that go on are those run anew."""

import jax
import numpy as np
import numpyro.distributions as dist

import seqgp
from seqgp.evaluate.few_particles import with_few_particles
from seqgp.evaluate.marginals import marginal_moments
from seqgp.evaluate.replay import made_ready
from station_streams import known_model, places, readings, snapshots

DRAWS = 4000
X = places()[:5] + 0.05


def states():
    """Of steps with particles that are rejuvenated now and then, from a wide prior on."""
    of = seqgp.OnlineSampler(known_model(dist.LogNormal(0.0, 2.0)), particles=64, draws=DRAWS)
    found, state = [], None
    for i, one in enumerate(snapshots(readings(days=8))):
        key = jax.random.key(i)
        state, _ = of.init(key, one) if state is None else of.step(key, state, one)
        found.append(state._replace(live=None))
    return of.model, found


def moments(model, state):
    mean, variance = marginal_moments(model, state, X, state.t)
    return mean.mean(axis=0), np.sqrt(variance.mean(axis=0) + mean.var(axis=0))


def test_a_few_particles_have_the_moments_of_all():
    model, all_of_them = states()
    few = with_few_particles(all_of_them, 32, 400)
    assert len({state.evaluated_at for state in all_of_them}) > 1
    ready, before = None, None
    for whole, part in zip(all_of_them, few):
        assert len(part.particles.z) == 32
        assert part.draws == len(part.latent) == len(part.z) == 400
        np.testing.assert_array_equal(
            np.asarray(part.z)[:, list(range(whole.particles.z.shape[1]))], part.particles.z[part.particle]
        )
        if before is not None and before.evaluated_at == part.evaluated_at:
            np.testing.assert_array_equal(before.particles.z, part.particles.z)
        before, ready = part, made_ready(model, part, ready)
        (mean, sd), (exact_mean, exact_sd) = moments(model, ready), moments(model, whole)
        np.testing.assert_allclose(mean, exact_mean, atol=0.1 * exact_sd.max())
        np.testing.assert_allclose(sd, exact_sd, rtol=0.1)
        # Filters that went on, or began from a timeline that was known, are those that are run anew.
        np.testing.assert_allclose(moments(model, part), (mean, sd), rtol=1e-10)


def test_states_of_few_particles_stay_as_they_are():
    _, found = states()
    for whole, same in zip(found[-2:], with_few_particles(found[-2:], 64, 100)):
        np.testing.assert_array_equal(same.particles.z, whole.particles.z)
        np.testing.assert_array_equal(same.latent, whole.thinned(100).latent)
