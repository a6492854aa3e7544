"""A chain starts where the data have a density, or says that there is no such place."""

import jax
import jax.numpy as jnp
import numpyro.distributions as dist
import pytest

import seqgp
from sequences import KNOWN, compilations, sampler, snapshots

FIRST = snapshots([4], times=[3.0])[0]


def _own(function):
    return seqgp.Model(kernel=KNOWN.kernel, likelihood=seqgp.likelihoods.Likelihood(function))


@pytest.mark.parametrize(
    ("model", "what"),
    [
        (_own(lambda f, context: dist.Normal(jnp.sqrt(-1.0 - f**2), 1.0)), "NaN or -inf"),
        (_own(lambda f, context: dist.Uniform(f - 1e-3, f + 1e-3)), "NaN or -inf"),
    ],
    ids=["NaN", "-inf"],
)
def test_no_density_at_the_start(model, what):
    """Found by looking at draws from the prior, before the sampling itself is compiled."""
    before = compilations()
    far = seqgp.Snapshot(3.0, FIRST.x, FIRST.y + 1000.0)
    with pytest.raises(
        seqgp.SamplerError, match=rf"likelihood returned {what} at the start of step t = 3\.0.*check the"
    ):
        sampler(model).init(jax.random.key(0), far)
    assert all(key[0].__name__ != "_advance" for key in compilations() - before)
