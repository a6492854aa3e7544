"""A ready-made model is remembered in words; one with code of its own is not."""

import json

import numpyro.distributions as dist
import pytest

import seqgp
from seqgp.io.specification import ModelSpec, specify

PRIOR = seqgp.ScaledSigmoid(0.1, 2.0)
TIME = seqgp.Matern32(lengthscale=PRIOR)
SPACE = seqgp.Matern52(PRIOR)
KERNELS = {
    "RationalQuadratic": seqgp.RationalQuadratic(1.0, alpha=dist.Gamma(2.0, 1.0)),
    "Product": seqgp.Product([seqgp.Matern52(1.0), seqgp.Matern12(PRIOR), seqgp.Periodic(1.0, 24.0)]),
    "lengthscales": seqgp.Matern52([1.0, PRIOR]),
    "sum": seqgp.Matern32(PRIOR) + seqgp.Periodic(PRIOR, 24.0) * seqgp.Matern52(3.0) + seqgp.Constant(PRIOR),
    "nugget": seqgp.SquaredExponential(PRIOR) + seqgp.WhiteNoise(PRIOR),
    "linear": seqgp.LinearKernel([PRIOR, 1.0], centre=[0.5, 1.0]) * seqgp.Constant(2.0),
    "rotated": seqgp.Rotated(seqgp.Matern32([PRIOR, 1.0]), angle=PRIOR),
    "globe": seqgp.GreatCircle(seqgp.Matern12(PRIOR), radius=1737.0),
    "outputs": seqgp.Coregionalised(2, 1, seqgp.Matern32(PRIOR), own=PRIOR),
    "weighted": seqgp.Coregionalised(3, 2, weights=[PRIOR] * 6, own=0.3),
}
LIKELIHOODS = {
    "Gaussian": seqgp.Gaussian(PRIOR),
    "errors": seqgp.Gaussian(PRIOR, errors="se"),
    "squares": seqgp.Gaussian(PRIOR, errors="se", combine="squares", trend=seqgp.ScaledSigmoid(-1, 1), since=10.0),
    "trend": seqgp.Gaussian(PRIOR, trend=0.1),
    "StudentT": seqgp.StudentT(noise=dist.HalfNormal(0.5), df=dist.Uniform(2.0, 9.0)),
    "Poisson": seqgp.Poisson(),
    "exposed": seqgp.Poisson("area"),
    "Bernoulli": seqgp.Bernoulli(),
    "probit": seqgp.Bernoulli(link="probit"),
    "Binomial": seqgp.Binomial(),
    "trials": seqgp.Binomial(12),
    "NegativeBinomial": seqgp.NegativeBinomial(PRIOR, exposure="area"),
    "LogNormal": seqgp.LogNormal(PRIOR),
    "Gamma": seqgp.Gamma(PRIOR),
    "Beta": seqgp.Beta(PRIOR),
    "Ordinal": seqgp.Ordinal([-1.0, 0.5, 2.0]),
    "cutpoints": seqgp.Ordinal([-1.0, seqgp.ScaledSigmoid(-1, 1), dist.LogNormal(1.0, 0.05)]),
    "Censored": seqgp.Censored(PRIOR, limit="limit"),
    "limit": seqgp.Censored(PRIOR, limit=0.1),
    "LogGaussianCox": seqgp.LogGaussianCox([(0.0, 1.0), (-1.0, 2.0)], (3, 4)),
}
MEANS = {
    "prior": dist.Normal(0.0, 3.0),
    "whole numbers": dist.Normal(0, 2),
    "covariates": seqgp.Linear(["elevation", "wind"], weights=[PRIOR, 0.5], intercept=PRIOR),
    "season": seqgp.Linear(["elevation", seqgp.harmonics(365.25, 2)], weights=PRIOR),
}
MODELS = (
    {name: seqgp.Model(seqgp.Separable(TIME, space, 2.0), seqgp.Poisson()) for name, space in KERNELS.items()}
    | {name: seqgp.Model(seqgp.Separable(TIME, SPACE), of, jitter=[1e-8, 1e-6]) for name, of in LIKELIHOODS.items()}
    | {name: seqgp.Model(seqgp.Separable(TIME, SPACE), seqgp.Gamma(2.0), mean=of) for name, of in MEANS.items()}
    | {
        "terms": seqgp.Model(
            seqgp.Separable(TIME, SPACE, PRIOR) + seqgp.Separable(seqgp.Matern12(50.0), seqgp.WhiteNoise(1.0), 0.5),
            seqgp.Gaussian(0.1),
        ),
        "cycle": seqgp.Model(seqgp.Separable(KERNELS["sum"], SPACE), seqgp.Gaussian(0.1)),
    }
)


@pytest.mark.parametrize("name", MODELS)
def test_there_and_back(name):
    """By way of JSON, as a manifest keeps it; and once more from what the schema says of it."""
    model = MODELS[name]
    words = specify(model)
    assert words is not None
    spec = ModelSpec.model_validate(json.loads(json.dumps(words)))
    assert spec.build().fingerprint() == model.fingerprint()
    again = ModelSpec.model_validate(spec.model_dump(mode="json"))
    assert again.build().fingerprint() == model.fingerprint()


def test_different_models_have_different_words():
    texts = [json.dumps(specify(model), sort_keys=True) for model in MODELS.values()]
    assert len(set(texts)) == len(texts)


def test_own_code_has_no_words():
    kernel = seqgp.Separable(TIME, seqgp.SquaredExponential(1.0))
    assert specify(seqgp.Model(kernel, seqgp.Likelihood(lambda f, context: dist.Normal(f, 1.0)))) is None
    assert specify(seqgp.Model(seqgp.Separable(TIME, lambda a, b: (a * b).sum()), seqgp.Bernoulli())) is None
    through = seqgp.ScaledSigmoid(0, 1).through(lambda v: 2 * v)
    assert specify(seqgp.Model(kernel, seqgp.Gaussian(through))) is None
    own = seqgp.Linear([seqgp.Feature(lambda t, x: x[:, 0], "east")], weights=1.0)
    assert specify(seqgp.Model(kernel, seqgp.Bernoulli(), mean=own)) is None
