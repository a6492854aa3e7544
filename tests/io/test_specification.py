"""A ready-made model is remembered in words; one with code of its own is not."""

import json

import numpyro.distributions as dist
import pytest

import seqgp
from seqgp.io.specification import ModelSpec, specify

PRIOR = seqgp.ScaledSigmoid(0.1, 2.0)
TIME = seqgp.kernels.Matern32(lengthscale=PRIOR)
SPACE = seqgp.kernels.Matern52(PRIOR)
KERNELS = {
    "RationalQuadratic": seqgp.kernels.RationalQuadratic(1.0, alpha=dist.Gamma(2.0, 1.0)),
    "Product": seqgp.kernels.PerColumn(
        [seqgp.kernels.Matern52(1.0), seqgp.kernels.Matern12(PRIOR), seqgp.kernels.Periodic(1.0, 24.0)]
    ),
    "lengthscales": seqgp.kernels.Matern52([1.0, PRIOR]),
    "sum": seqgp.kernels.Matern32(PRIOR)
    + seqgp.kernels.Periodic(PRIOR, 24.0) * seqgp.kernels.Matern52(3.0)
    + seqgp.kernels.Constant(scale=PRIOR),
    "nugget": seqgp.kernels.SquaredExponential(PRIOR) + seqgp.kernels.WhiteNoise(PRIOR),
    "linear": seqgp.kernels.DotProduct([PRIOR, 1.0], centre=[0.5, 1.0]) * seqgp.kernels.Constant(scale=2.0),
    "rotated": seqgp.kernels.Rotated(seqgp.kernels.Matern32([PRIOR, 1.0]), angle=PRIOR),
    "globe": seqgp.kernels.GreatCircle(seqgp.kernels.Matern12(PRIOR), radius=1737.0),
    "outputs": seqgp.kernels.Coregionalised(2, 1, seqgp.kernels.Matern32(PRIOR), own=PRIOR),
    "weighted": seqgp.kernels.Coregionalised(3, 2, weights=[PRIOR] * 6, own=0.3),
}
LIKELIHOODS = {
    "Gaussian": seqgp.likelihoods.Gaussian(PRIOR),
    "errors": seqgp.likelihoods.Gaussian(PRIOR, errors="se"),
    "squares": seqgp.likelihoods.Gaussian(
        PRIOR, errors="se", combine="squares", trend=seqgp.ScaledSigmoid(-1, 1), since=10.0
    ),
    "trend": seqgp.likelihoods.Gaussian(PRIOR, trend=0.1),
    "season": seqgp.likelihoods.Gaussian(
        seqgp.means.Modulated(PRIOR, seqgp.means.harmonics(365.25), 0.2), "se", trend=0.1
    ),
    "stations": seqgp.likelihoods.Gaussian(PRIOR, by="station"),
    "like stations": seqgp.likelihoods.Gaussian(PRIOR, "se", by="station", concentration=20.0),
    "StudentT": seqgp.likelihoods.StudentT(noise=dist.HalfNormal(0.5), df=dist.Uniform(2.0, 9.0)),
    "Poisson": seqgp.likelihoods.Poisson(),
    "exposed": seqgp.likelihoods.Poisson("area"),
    "Bernoulli": seqgp.likelihoods.Bernoulli(),
    "probit": seqgp.likelihoods.Bernoulli(link="probit"),
    "Binomial": seqgp.likelihoods.Binomial(),
    "trials": seqgp.likelihoods.Binomial(12),
    "NegativeBinomial": seqgp.likelihoods.NegativeBinomial(PRIOR, exposure="area"),
    "LogNormal": seqgp.likelihoods.LogNormal(PRIOR),
    "Gamma": seqgp.likelihoods.Gamma(PRIOR),
    "Beta": seqgp.likelihoods.Beta(PRIOR),
    "Ordinal": seqgp.likelihoods.Ordinal([-1.0, 0.5, 2.0]),
    "cutpoints": seqgp.likelihoods.Ordinal([-1.0, seqgp.ScaledSigmoid(-1, 1), dist.LogNormal(1.0, 0.05)]),
    "Censored": seqgp.likelihoods.Censored(PRIOR, limit="limit"),
    "limit": seqgp.likelihoods.Censored(PRIOR, limit=0.1),
    "LogGaussianCox": seqgp.likelihoods.LogGaussianCox([(0.0, 1.0), (-1.0, 2.0)], (3, 4)),
}
MEANS = {
    "prior": dist.Normal(0.0, 3.0),
    "whole numbers": dist.Normal(0, 2),
    "covariates": seqgp.means.Linear(["elevation", "wind"], weights=[PRIOR, 0.5], intercept=PRIOR),
    "season": seqgp.means.Linear(["elevation", seqgp.means.harmonics(365.25, 2)], weights=PRIOR),
}
MODELS = (
    {
        name: seqgp.Model(seqgp.Separable(TIME, space, 2.0), seqgp.likelihoods.Poisson())
        for name, space in KERNELS.items()
    }
    | {name: seqgp.Model(seqgp.Separable(TIME, SPACE), of, jitter=[1e-8, 1e-6]) for name, of in LIKELIHOODS.items()}
    | {
        name: seqgp.Model(seqgp.Separable(TIME, SPACE), seqgp.likelihoods.Gamma(2.0), mean=of)
        for name, of in MEANS.items()
    }
    | {
        "terms": seqgp.Model(
            seqgp.Separable(TIME, SPACE, PRIOR)
            + seqgp.Separable(seqgp.kernels.Matern12(50.0), seqgp.kernels.WhiteNoise(1.0), 0.5),
            seqgp.likelihoods.Gaussian(0.1),
        ),
        "delayed": seqgp.Model(
            seqgp.Delayed(seqgp.Separable(TIME, SPACE, PRIOR), slowness=[PRIOR, 0.1])
            + seqgp.Separable(seqgp.kernels.Matern12(50.0), seqgp.kernels.WhiteNoise(1.0), 0.5),
            seqgp.likelihoods.Gaussian(0.1),
        ),
        "seasonal": seqgp.Model(
            seqgp.Separable(
                TIME, SPACE, seqgp.means.Modulated(2.0, seqgp.means.harmonics(7.0, 2, "week"), dist.Normal(0, 1))
            )
            + seqgp.Separable(TIME, SPACE, seqgp.means.Modulated(PRIOR, seqgp.means.harmonics(365.25), [PRIOR, 0.1])),
            seqgp.likelihoods.Gaussian(0.1),
        ),
        "delayed sum": seqgp.Model(
            seqgp.Delayed(seqgp.Separable(TIME, SPACE) + seqgp.Separable(TIME, SPACE, PRIOR), slowness=[PRIOR, PRIOR]),
            seqgp.likelihoods.Gaussian(0.1),
        ),
        "cycle": seqgp.Model(seqgp.Separable(KERNELS["sum"], SPACE), seqgp.likelihoods.Gaussian(0.1)),
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
    kernel = seqgp.Separable(TIME, seqgp.kernels.SquaredExponential(1.0))
    assert specify(seqgp.Model(kernel, seqgp.likelihoods.Likelihood(lambda f, context: dist.Normal(f, 1.0)))) is None
    assert (
        specify(seqgp.Model(seqgp.Separable(TIME, lambda a, b: (a * b).sum()), seqgp.likelihoods.Bernoulli())) is None
    )
    through = seqgp.ScaledSigmoid(0, 1).through(lambda v: 2 * v)
    assert specify(seqgp.Model(kernel, seqgp.likelihoods.Gaussian(through))) is None
    own = seqgp.means.Linear([seqgp.means.Feature(lambda t, x: x[:, 0], "east")], weights=1.0)
    assert specify(seqgp.Model(kernel, seqgp.likelihoods.Bernoulli(), mean=own)) is None
