"""What a likelihood says of itself: for Gaussian data the quadratic is exact, and sums take the place of the data."""

import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

import seqgp
from seqgp.samplers.validation import check_snapshot

RNG = np.random.default_rng(0)
Y, MISSING = RNG.normal(size=7), np.arange(7) == 3
PARAMETERS = {"noise": jnp.asarray(0.7)}
GAUSSIAN = seqgp.likelihoods.Gaussian(0.7)


def log_prob(f):
    return float(GAUSSIAN.log_prob(jnp.asarray(f), jnp.asarray(Y), jnp.asarray(MISSING), None, PARAMETERS))


def test_the_approximation_is_the_log_likelihood_up_to_a_constant():
    precision, weighted = GAUSSIAN.exact_quadratic(jnp.asarray(Y), jnp.asarray(MISSING), None)
    scale = jnp.exp(GAUSSIAN.log_precision(PARAMETERS))
    a, b = RNG.normal(size=(2, 7))

    def quadratic(f):
        return float(scale * (-0.5 * precision @ f**2 + weighted @ f))

    np.testing.assert_allclose(log_prob(a) - log_prob(b), quadratic(a) - quadratic(b), rtol=1e-12)


def test_sums_take_the_place_of_data_seen_through_weights():
    weights, sites, mean = RNG.normal(size=(7, 4)), RNG.normal(size=4), 0.3
    sums = GAUSSIAN.sums(weights, Y, MISSING, None)
    np.testing.assert_allclose(
        sums.log_likelihood(sites, mean, PARAMETERS), log_prob(weights @ sites + mean), rtol=1e-12
    )


ERRORS = RNG.uniform(0.5, 2.0, 7)
SCATTERED = {
    "times": (seqgp.likelihoods.Gaussian(0.7, "se"), 0.7 * ERRORS),
    "squares": (seqgp.likelihoods.Gaussian(0.7, "se", combine="squares"), np.hypot(0.7, ERRORS)),
    "trend": (seqgp.likelihoods.Gaussian(0.7, trend=-0.4, since=1.0), 0.7 * np.exp(-0.4 * 2.0)),
    "both": (seqgp.likelihoods.Gaussian(0.7, "se", trend=-0.4, since=1.0), 0.7 * np.exp(-0.8) * ERRORS),
}


@pytest.mark.parametrize("name", SCATTERED)
def test_known_errors_and_a_trend_say_what_the_standard_deviation_is(name):
    """By the formula; on planes, as sums and as a quadratic approximation it is the same log density."""
    likelihood, sd = SCATTERED[name]
    context = likelihood.context_at(3.0, {"se": ERRORS})
    values = {key: jnp.asarray(slot) for key, slot in likelihood.priors.items()}
    np.testing.assert_allclose(likelihood.noise(context, values), sd, rtol=1e-12)

    def density(f):
        return stats.norm(f, sd).logpdf(Y)[~MISSING].sum()

    data = (jnp.asarray(Y), jnp.asarray(MISSING), context)
    f, columns = RNG.normal(size=7), RNG.normal(size=(7, 3))
    u, v = RNG.normal(size=(2, 3))
    np.testing.assert_allclose(likelihood.log_prob(jnp.asarray(f), *data, values), density(f), rtol=1e-10)
    plane = likelihood.on_planes(jnp.asarray(f), jnp.asarray(columns), *data, values)(jnp.asarray(u), jnp.asarray(v))
    np.testing.assert_allclose(plane(0.3, -0.8), density(f + columns @ (0.3 * u - 0.8 * v)), rtol=1e-10)
    sums = likelihood.sums(columns, Y, MISSING, context)
    assert (sums is not None) == likelihood.quadratic == (name == "times")
    if sums is not None:
        np.testing.assert_allclose(sums.log_likelihood(u, 0.3, values), density(columns @ u + 0.3), rtol=1e-10)
        precision, weighted = likelihood.exact_quadratic(*data)
        scale = np.exp(likelihood.log_precision(values))
        quadratic = scale * (-0.5 * precision @ (f**2 - (2 * f) ** 2) + weighted @ (f - 2 * f))
        np.testing.assert_allclose(quadratic, density(f) - density(2 * f), rtol=1e-10)


@pytest.mark.parametrize(
    ("context", "message"),
    [
        (None, "errors 'se' is missing from the context, which has nothing; give context="),
        ({"sd": ERRORS}, "errors 'se' is missing from the context, which has sd"),
        ({"se": ERRORS[:3]}, r"errors 'se' has shape \(3,\), expected \(7,\)"),
        ({"se": -ERRORS}, "errors 'se' must be positive numbers, got -"),
        ({"se": np.where(np.arange(7) == 2, np.nan, ERRORS)}, "must be positive numbers, got nan"),
    ],
)
def test_errors_that_are_not_there_are_named(context, message):
    model = seqgp.Model(seqgp.Separable(seqgp.kernels.Matern12(1.0), seqgp.kernels.Matern12(1.0)), SCATTERED["both"][0])
    with pytest.raises(seqgp.DataError, match=message):
        check_snapshot(model, seqgp.Snapshot(0.0, np.arange(7.0)[:, None], Y, context=context))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"combine": "sum"}, "combine = 'sum': expected 'times' or 'squares'"),
        ({"since": np.inf}, "since = inf is not one finite number"),
        ({"noise": 0.0}, "noise = 0.0 is not positive"),
    ],
)
def test_bad_settings_are_named(changes, message):
    with pytest.raises(seqgp.ModelError, match=message):
        seqgp.likelihoods.Gaussian(**({"noise": 0.5, "errors": "se"} | changes))


def test_other_data_have_neither_noise_nor_an_exact_approximation():
    poisson = seqgp.likelihoods.Poisson()
    assert not poisson.conjugate
    assert not poisson.quadratic
    assert poisson.exact_quadratic(jnp.asarray(Y), jnp.asarray(MISSING), None) is None
    assert poisson.sums(np.eye(7), Y, MISSING, None) is None
    with pytest.raises(seqgp.ModelError, match="Poisson: the data are not Gaussian"):
        poisson.noise(None, {})
