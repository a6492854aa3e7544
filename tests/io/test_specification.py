"""A ready-made model is remembered in words; one with code of its own is not."""

import numpyro.distributions as dist
import pytest

import seqgp
from seqgp.io.specification import ModelSpec, specify

TIME = seqgp.Matern32(lengthscale=dist.Gamma(2.0, 1.0))
MODELS = [
    seqgp.Model(seqgp.Separable(TIME, seqgp.RationalQuadratic(1.0, alpha=dist.LogNormal(0.0, 1.0))), seqgp.Poisson()),
    seqgp.Model(
        seqgp.Separable(TIME, seqgp.Product([seqgp.Matern52(1.0), seqgp.Matern12(seqgp.ScaledSigmoid(0, 1))]), 2.0),
        seqgp.StudentT(noise=dist.HalfNormal(0.5), df=dist.Uniform(2.0, 9.0)),
        mean=dist.Normal(0.0, 3.0),
        jitter=[1e-8, 1e-6],
    ),
    seqgp.Model(seqgp.Separable(TIME, seqgp.Matern52([1.0, seqgp.ScaledSigmoid(0.1, 2)])), seqgp.Bernoulli()),
]


@pytest.mark.parametrize("model", MODELS)
def test_there_and_back(model):
    words = specify(model)
    assert words is not None
    assert ModelSpec.model_validate(words).build().fingerprint() == model.fingerprint()


def test_own_code_has_no_words():
    kernel = seqgp.Separable(TIME, seqgp.SquaredExponential(1.0))
    assert specify(seqgp.Model(kernel, seqgp.Likelihood(lambda f, context: dist.Normal(f, 1.0)))) is None
    assert specify(seqgp.Model(seqgp.Separable(TIME, lambda a, b: (a * b).sum()), seqgp.Bernoulli())) is None
    through = seqgp.ScaledSigmoid(0, 1).through(lambda v: 2 * v)
    assert specify(seqgp.Model(kernel, seqgp.Gaussian(through))) is None
