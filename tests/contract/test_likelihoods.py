"""Every ready-made likelihood keeps the same promises: density, missing data, draws, curvature, words, errors."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from experiments.calibrated_models import LIKELIHOODS
from scipy import stats
from scipy.special import expit

import seqgp
import small
from kept import through_store, through_toml
from seqgp import likelihoods
from seqgp.fields.sites import Observe
from seqgp.likelihoods.base import fill_missing
from seqgp.mcmc.exploration import is_differentiable
from seqgp.mcmc.fisher import quadratic_of
from seqgp.mcmc.observed import observed_from
from seqgp.samplers.full.stacked import stacked_problem
from seqgp.samplers.validation import check_snapshot

F = np.array([0.3, -0.5, 1.2, 0.1])
TRIALS, EXPOSURE = np.array([3.0, 5.0, 4.0, 6.0]), np.array([1.0, 2.0, 3.0, 4.0])
COUNTS, SHARES, POSITIVE, REAL = [0.0, 3, 2, 1], [0.2, 0.5, 0.9, 0.4], [0.4, 0.9, 2.5, 1.1], [0.1, 0.0, 1.0, 2.0]


def ordered(y):
    cuts = np.array([-np.inf, -1.0, 0.5, np.inf])
    k = y.astype(int)
    return np.log(expit(cuts[k + 1] - F) - expit(cuts[k] - F))


def censored(y):
    return np.where(y <= 0.1, stats.norm(F, 0.4).logcdf(0.1), stats.norm(F, 0.4).logpdf(y))


def negative_binomial(y):
    mean = np.exp(F) * EXPOSURE
    return stats.nbinom(2.0, 2.0 / (2.0 + mean)).logpmf(y)


ERRORS = np.array([0.5, 1.0, 2.0, 0.7])
NOW = 3.0  # the time of the data
FADING = 0.4 * np.exp(-0.2 * (NOW - 1.0))
CASES = {
    "Gaussian": (likelihoods.Gaussian(0.4), None, REAL, stats.norm(F, 0.4).logpdf),
    "errors": (likelihoods.Gaussian(0.4, "se"), {"se": ERRORS}, REAL, stats.norm(F, 0.4 * ERRORS).logpdf),
    "squares": (
        likelihoods.Gaussian(0.4, "se", combine="squares"), {"se": ERRORS}, REAL,
        stats.norm(F, np.hypot(0.4, ERRORS)).logpdf,
    ),
    "trend": (likelihoods.Gaussian(0.4, trend=-0.2, since=1.0), None, REAL, stats.norm(F, FADING).logpdf),
    "errors and trend": (
        likelihoods.Gaussian(0.4, "se", trend=-0.2, since=1.0), {"se": ERRORS}, REAL,
        stats.norm(F, FADING * ERRORS).logpdf,
    ),
    "LogGaussianCox": (
        likelihoods.LogGaussianCox([(0.0, 4.0)], 4), {"exposure": EXPOSURE}, COUNTS,
        stats.poisson(np.exp(F) * EXPOSURE).logpmf,
    ),
    "StudentT": (likelihoods.StudentT(0.4, df=5.0), None, REAL, stats.t(5, F, 0.4).logpdf),
    "Bernoulli": (likelihoods.Bernoulli(), None, [0.0, 1, 1, 0], stats.bernoulli(expit(F)).logpmf),
    "probit": (likelihoods.Bernoulli(link="probit"), None, [0.0, 1, 1, 0], stats.bernoulli(stats.norm.cdf(F)).logpmf),
    "Binomial": (likelihoods.Binomial(), {"trials": TRIALS}, COUNTS, stats.binom(TRIALS.astype(int), expit(F)).logpmf),
    "Poisson": (likelihoods.Poisson(), None, COUNTS, stats.poisson(np.exp(F)).logpmf),
    "exposed": (likelihoods.Poisson("area"), {"area": EXPOSURE}, COUNTS, stats.poisson(np.exp(F) * EXPOSURE).logpmf),
    "NegativeBinomial": (likelihoods.NegativeBinomial(2.0, "area"), {"area": EXPOSURE}, COUNTS, negative_binomial),
    "LogNormal": (likelihoods.LogNormal(0.4), None, POSITIVE, stats.lognorm(0.4, scale=np.exp(F)).logpdf),
    "Exponential": (likelihoods.Exponential(), None, POSITIVE, stats.expon(scale=np.exp(F)).logpdf),
    "Gamma": (likelihoods.Gamma(2.5), None, POSITIVE, stats.gamma(2.5, scale=np.exp(F) / 2.5).logpdf),
    "Beta": (likelihoods.Beta(8.0), None, SHARES, stats.beta(8 * expit(F), 8 * expit(-F)).logpdf),
    "Ordinal": (likelihoods.Ordinal([-1.0, 0.5]), None, [0.0, 2, 1, 1], ordered),
    "Censored": (likelihoods.Censored(0.4, limit=0.1), None, [0.1, 0.7, 1.0, 0.1], censored),
}  # fmt: skip


@pytest.fixture(autouse=True)
def standard_promotion():
    with jax.numpy_dtype_promotion("standard"), jax.numpy_rank_promotion("allow"):  # NumPyro's own
        yield


def model(likelihood):
    return small.model(
        time=seqgp.kernels.Matern12(1.0), space=seqgp.kernels.Matern12(1.0), scale=1.0, mean=0.0, likelihood=likelihood
    )


def parameters(likelihood):
    return {name: jnp.asarray(slot) for name, slot in likelihood.priors.items()}


def snapshot(name, missing=()):
    y = np.array(CASES[name][2], dtype=float)
    y[list(missing)] = np.nan
    return seqgp.Snapshot(NOW, np.arange(4.0)[:, None], y, context=CASES[name][1])


def context_of(name):
    """What the likelihood sees at the time of the data."""
    return CASES[name][0].context_at(NOW, CASES[name][1])


@pytest.mark.parametrize("name", CASES)
def test_the_log_density_is_that_of_the_family_and_missing_data_drop_out(name):
    likelihood, _, _, theirs = CASES[name]
    for missing in ((), (1,)):
        data = snapshot(name, missing)
        check_snapshot(model(likelihood), data)
        filled, gone = fill_missing(data.y)
        found = likelihood.log_prob(jnp.asarray(F), filled, gone, context_of(name), parameters(likelihood))
        expected = theirs(np.array(CASES[name][2], dtype=float))[~gone].sum()
        np.testing.assert_allclose(found, expected, rtol=1e-9)


@pytest.mark.parametrize("name", CASES)
def test_draws_are_of_the_family(name):
    """A mean of 20,000 draws within five standard errors of the distribution's, where it has one."""
    likelihood, context = CASES[name][0], context_of(name)
    distribution = likelihood.distribution(jnp.asarray(F), context, parameters(likelihood))
    drawn = np.asarray(distribution.sample(jax.random.key(0), (20_000,)), dtype=float)
    assert drawn.shape == (20_000, 4)
    likelihood.check_data(drawn[0], context)
    if name != "Censored":  # whose mean is that of what is censored
        error = np.sqrt(np.asarray(distribution.variance) / len(drawn))
        assert np.abs((drawn.mean(0) - np.asarray(distribution.mean)) / error).max() < 5
    else:
        assert drawn.min() == 0.1


@pytest.mark.parametrize("name", CASES)
def test_the_curvature_is_finite_and_positive(name):
    likelihood = CASES[name][0]
    observed = observed_from(model(likelihood), snapshot(name, (2,)), Observe(), 4)
    values = parameters(likelihood) | {"mean": jnp.zeros(())}
    factor, slope = quadratic_of(likelihood, (observed,), jnp.asarray(F)[None], values)
    assert np.isfinite(factor).all()
    assert np.isfinite(slope).all()
    assert (np.asarray(factor)[[0, 1, 3]] > 0).all()
    assert factor[2] == 0


@pytest.mark.parametrize("name", CASES)
def test_samplers_can_differentiate_it(name):
    """With the context traced, as they see it."""
    of = model(CASES[name][0])
    assert is_differentiable(of, stacked_problem(of, [snapshot(name, (2,))])[0])


@pytest.mark.parametrize("name", CASES)
def test_there_and_back_as_toml_and_in_a_store(name, tmp_path):
    likelihood, context = CASES[name][:2]
    one = model(likelihood)
    for again in (through_toml(one, tmp_path, covariates=context or ()), through_store(one, tmp_path)):
        assert again.fingerprint() == one.fingerprint()
        arguments = (
            jnp.asarray(F),
            np.array(CASES[name][2]),
            np.zeros(4, bool),
            context_of(name),
            parameters(likelihood),
        )
        assert again.likelihood.log_prob(*arguments) == likelihood.log_prob(*arguments)


def test_every_family_is_here_and_is_calibrated():
    """By ``make models``, with each sampler that takes it."""
    assert {type(case[0]).__name__ for case in CASES.values()} == set(
        likelihoods.catalogue.classes(likelihoods.Likelihood)
    )
    assert {type(piece.model.likelihood).__name__ for piece in LIKELIHOODS.values()} == set(
        likelihoods.catalogue.classes(likelihoods.Likelihood)
    )


def test_likelihoods_have_different_fingerprints():
    prints = [model(case[0]).fingerprint()["likelihood"] for case in CASES.values()]
    prints += [model(likelihoods.Gaussian(0.5)).fingerprint()["likelihood"]]
    assert len(set(prints)) == len(prints)


@pytest.mark.parametrize("name", [name for name in CASES if CASES[name][1]])
def test_what_the_context_lacks_is_named(name):
    likelihood, context, y, _ = CASES[name]
    (key,) = context
    for given, message in [
        (None, f"'{key}' is missing from the context, which has nothing"),
        ({"other": ERRORS}, f"'{key}' is missing from the context, which has other"),
        ({key: -ERRORS}, f"'{key}' must be positive numbers, got -0.5"),
        ({key: ERRORS[:3]}, rf"'{key}' has shape \(3,\), expected \(4,\)"),
    ]:
        data = seqgp.Snapshot(NOW, np.arange(4.0)[:, None], y, context=given)
        with pytest.raises(seqgp.DataError, match=message):
            check_snapshot(model(likelihood), data)


COUNTED = {name: CASES[name] for name in ("Poisson", "exposed", "NegativeBinomial", "Binomial", "LogGaussianCox")}


@pytest.mark.parametrize("name", COUNTED)
def test_counts_are_whole_and_not_negative(name):
    likelihood, context, *_ = COUNTED[name]
    for bad, message in ((-1.0, "negative"), (1.5, "not whole")):
        data = seqgp.Snapshot(NOW, np.arange(4.0)[:, None], [0.0, 1.0, bad, 1.0], context=context)
        with pytest.raises(seqgp.DataError, match=message + r".*first at index 2"):
            check_snapshot(model(likelihood), data)


@pytest.mark.parametrize(
    ("likelihood", "y", "context", "message"),
    [
        (
            likelihoods.Poisson(),
            [1.0, -2, 0, 1],
            None,
            r"Poisson: 1 of 4 values of y are negative.*first at index 1: -2",
        ),
        (likelihoods.Poisson(), [1.0, 2.5, 0, 1], None, "not whole, and counts are"),
        (
            likelihoods.Poisson("area"),
            COUNTS,
            {"size": EXPOSURE},
            "exposure 'area' is missing .* which has size",
        ),
        (
            likelihoods.Poisson("area"),
            COUNTS,
            {"area": -EXPOSURE},
            "exposure 'area' must be positive numbers, got -1",
        ),
        (likelihoods.Bernoulli(), [0.0, 1, 2, 1], None, r"labels outside \{0, 1\} \(first at index 2: 2\)"),
        (likelihoods.Binomial(), [4.0, 5, 4, 6], {"trials": TRIALS}, "above their number of trials"),
        (likelihoods.Binomial(), COUNTS, None, "trials 'trials' is missing from the context, which has nothing"),
        (likelihoods.LogNormal(0.4), [1.0, 0.0, 1, 1], None, "LogNormal: 1 of 4 values of y are not positive"),
        (likelihoods.Gamma(1.0), [1.0, -1.0, 1, 1], None, "Gamma: 1 of 4 values of y are not positive"),
        (likelihoods.Beta(2.0), [0.5, 1.0, 0.2, 0.3], None, "not between 0 and 1"),
        (likelihoods.Ordinal([0.0]), [0.0, 1, 2, 0], None, "no category of 0, 1, …, 1"),
        (likelihoods.Censored(0.4, "limit"), REAL, None, "limit 'limit' is missing from the context"),
    ],
)
def test_bad_data_are_named(likelihood, y, context, message):
    data = seqgp.Snapshot(0.0, np.arange(4.0)[:, None], y, context=context)
    with pytest.raises(seqgp.DataError, match=message):
        check_snapshot(model(likelihood), data)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: likelihoods.Bernoulli(link="log"), "link = 'log': expected 'logit' or 'probit'"),
        (lambda: likelihoods.Ordinal([1.0, 0.0]), "must be increasing numbers"),
        (lambda: likelihoods.Gamma(0.0), "Gamma: shape = 0.0 is not positive"),
        (lambda: likelihoods.NegativeBinomial(-1.0), "dispersion = -1.0 is not positive"),
        (lambda: likelihoods.StudentT(0.0), "noise = 0.0 is not positive"),
    ],
)
def test_bad_likelihoods_are_named(make, message):
    with pytest.raises(seqgp.ModelError, match=message):
        make()
