"""Bad input gets an error by name, with the remedy, before anything is compiled."""

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest

import seqgp
import small
from sequences import KNOWN, compilations, sampler, snapshots

FIRST, SECOND = snapshots([4, 4], times=[3.0, 3.5])


@pytest.fixture(scope="module")
def state():
    return sampler(KNOWN).init(jax.random.key(0), FIRST)[0]


@pytest.fixture(autouse=True)
def nothing_is_compiled(state):
    before = compilations()
    yield
    assert compilations() == before


def own(function, **priors):
    return seqgp.Model(kernel=KNOWN.kernel, likelihood=seqgp.likelihoods.Likelihood(function, **priors))


def test_single_precision():
    with (
        jax.enable_x64(False),
        pytest.raises(seqgp.SamplerError, match=r"seqgp\.enable_x64\(\)"),
    ):
        sampler(KNOWN)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"tau": 0}, "tau = 0 is not a whole number >= 1"),
        ({"tau": 1.5}, r"tau = 1\.5 is not a whole number >= 1"),
        ({"draws": 0}, "draws = 0 is not a whole number >= 1"),
        ({"draws": -3}, "draws = -3 is not a whole number >= 1"),
        ({"chains": 0}, "chains = 0 is not a whole number >= 1"),
        ({"draws": 10, "chains": 3}, "draws = 10 is not divisible by chains = 3"),
        ({"warmup": -1}, "warmup = -1 is not a whole number >= 0"),
        ({"thin": 0}, "thin = 0 is not a whole number >= 1"),
        ({"updates": "fast"}, "updates = 'fast': expected .*'plain'"),
        ({"model": "gp"}, r"expected a seqgp\.Model, got str"),
    ],
)
def test_settings(settings, message):
    with pytest.raises(seqgp.SamplerError, match=message):
        sampler(**({"model": KNOWN} | settings))


def test_a_representation_that_is_none():
    with pytest.raises(seqgp.SamplerError, match=r"latent = 'sparse': expected 'auto', seqgp\.Dense\(\)"):
        sampler(KNOWN, latent="sparse").init(jax.random.key(0), FIRST)


def test_something_else_than_a_snapshot():
    with pytest.raises(seqgp.DataError, match=r"expected a seqgp\.Snapshot\(t, x, y\), got tuple"):
        sampler(KNOWN).init(jax.random.key(0), (0.0, FIRST.x, FIRST.y))


def test_a_dimension_that_does_not_fit_the_lengthscales():
    model = seqgp.Model(
        kernel=seqgp.Separable(time=seqgp.kernels.Matern12(1.0), space=seqgp.kernels.SquaredExponential([1.0, 2.0])),
        likelihood=seqgp.likelihoods.Gaussian(0.5),
    )
    with pytest.raises(seqgp.ModelError, match="2 lengthscales, but x has 1 columns: give one lengthscale, or one per"):
        sampler(model).init(jax.random.key(0), FIRST)


def test_data_that_do_not_fit_the_inputs():
    with pytest.raises(seqgp.DataError, match=r"y has shape \(3,\), expected \(4,\), one value a row of x"):
        sampler(KNOWN).init(jax.random.key(0), seqgp.Snapshot(0.0, FIRST.x, FIRST.y[:3]))


@pytest.mark.parametrize("t", [3.0, 2.0])
def test_a_time_that_is_not_after_the_last(state, t):
    with pytest.raises(seqgp.DataError, match=rf"t = {t} is not after the last t = 3\.0"):
        sampler(KNOWN).step(jax.random.key(1), state, SECOND._replace(t=t))


def test_another_dimension_than_before(state):
    wide = seqgp.Snapshot(4.0, np.zeros((4, 2)), SECOND.y)
    with pytest.raises(seqgp.DataError, match="x has 2 columns, but the last one had 1"):
        sampler(KNOWN).step(jax.random.key(1), state, wide)


def test_other_inputs_than_those_of_the_grid(state):
    shared = seqgp.Grid().resolve(KNOWN.kernel, FIRST.x)
    with pytest.raises(seqgp.DataError, match=r"is not the x of the first snapshot .* latent=seqgp\.Dense\(\)"):
        sampler(KNOWN, latent=seqgp.Grid()).step(jax.random.key(1), state._replace(representation=shared), SECOND)


def test_a_state_of_another_model(state):
    with pytest.raises(seqgp.SamplerError, match="the state is of another model; use the model that it was sampled"):
        sampler(small.MODEL).step(jax.random.key(1), state, SECOND)


def test_a_state_of_another_sampler(state):
    with pytest.raises(seqgp.SamplerError, match="carries a window of 1 times, but tau = 2"):
        sampler(KNOWN, tau=2).step(jax.random.key(1), state, SECOND)
    with pytest.raises(seqgp.SamplerError, match="the state has 40 draws, but the sampler draws = 20"):
        sampler(KNOWN, draws=20).step(jax.random.key(1), state, SECOND)
    with pytest.raises(seqgp.SamplerError, match="expected the state of a previous step, got tuple"):
        sampler(KNOWN).step(jax.random.key(1), (state, None), SECOND)


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (lambda f, context: f, "likelihood returned .*, expected a NumPyro distribution"),
        (lambda f, context: None, "likelihood returned NoneType, expected a NumPyro distribution"),
        (lambda f, context: dist.Normal(f[:2], 1.0), r"distribution of shape \(2,\), but y has shape \(4,\)"),
        (lambda f, context: dist.Normal(f + context["trend"], 1.0), r"likelihood failed on the snapshot at t = 3\.0"),
        (lambda f: dist.Normal(f, 1.0), r"likelihood failed on the snapshot at t = 3\.0: TypeError"),
        (lambda f, context: dist.Normal(f, 1.0) if f[0] > 0 else None, r"likelihood failed .* at t = 3\.0"),
    ],
    ids=["array", "nothing", "shape", "context", "signature", "control flow"],
)
def test_likelihoods(function, message):
    with pytest.raises(seqgp.ModelError, match=message):
        sampler(own(function)).init(jax.random.key(0), FIRST)


def test_missing_data_of_a_joint_distribution():
    model = own(lambda f, context: dist.MultivariateNormal(f, jnp.eye(4)))
    y = np.where(np.arange(4) == 1, np.nan, FIRST.y)
    with pytest.raises(seqgp.DataError, match=r"y has missing values, but .* leave them out of y instead"):
        sampler(model).init(jax.random.key(0), seqgp.Snapshot(3.0, FIRST.x, y))
