"""Likelihoods against scipy, with missing data and data of another shape."""

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest
from scipy import stats

import seqgp
from seqgp.likelihoods.base import check_distribution, fill_missing

F = np.array([0.3, -0.5, 1.2, 0.1])
MISSING = np.array([False, True, False, False])


def log_prob(likelihood, y, context=None, **parameters):
    filled, missing = fill_missing(np.asarray(y, dtype=float))
    values = {name: jnp.asarray(value) for name, value in parameters.items()}
    data = jnp.asarray(filled), jnp.asarray(missing)
    with jax.numpy_dtype_promotion("standard"):  # NumPyro's Bernoulli promotes
        return float(likelihood.log_prob(jnp.asarray(F), *data, context, values))


@pytest.mark.parametrize(
    ("likelihood", "parameters", "context", "y", "theirs"),
    [
        (seqgp.likelihoods.Gaussian(0.4), {"noise": 0.4}, None, [0.1, 0, 1, 2], stats.norm(F, 0.4).logpdf),
        (seqgp.likelihoods.StudentT(0.4), {"noise": 0.4, "df": 4.0}, None, [0.1, 0, 1, 2], stats.t(4, F, 0.4).logpdf),
        (seqgp.likelihoods.Poisson(), {}, None, [0.0, 3, 2, 1], stats.poisson(np.exp(F)).logpmf),
        (
            seqgp.likelihoods.Poisson(),
            {},
            {"exposure": np.array([1.0, 2, 3, 4])},
            [0.0, 3, 2, 1],
            stats.poisson(np.exp(F) * [1, 2, 3, 4]).logpmf,
        ),
        (seqgp.likelihoods.Bernoulli(), {}, None, [0.0, 1, 1, 0], stats.bernoulli(1 / (1 + np.exp(-F))).logpmf),
    ],
    ids=["Gaussian", "StudentT", "Poisson", "Poisson with exposure", "Bernoulli"],
)
def test_ready_made(likelihood, parameters, context, y, theirs):
    y = np.asarray(y, dtype=float)
    np.testing.assert_allclose(log_prob(likelihood, y, context, **parameters), theirs(y).sum(), rtol=1e-10)
    gone = np.where(MISSING, np.nan, y)
    expected = theirs(y)[~MISSING].sum()
    np.testing.assert_allclose(log_prob(likelihood, gone, context, **parameters), expected, rtol=1e-10)


def test_noise_is_a_standard_deviation():
    assert seqgp.likelihoods.Gaussian(0.3).distribution(jnp.asarray(F), None, {"noise": jnp.asarray(0.3)}).scale == 0.3


def test_all_missing_says_nothing():
    assert log_prob(seqgp.likelihoods.Gaussian(0.4), np.full(4, np.nan), noise=0.4) == 0.0


def test_data_of_another_shape_than_the_latent():
    """A likelihood that sees all of the latent at once: sums over neighbours."""
    pairs = seqgp.likelihoods.Likelihood(lambda f, context, noise: dist.Normal(f[:-1] + f[1:], noise), noise=0.4)
    y = np.array([0.0, 0.5, 1.0])
    expected = stats.norm(F[:-1] + F[1:], 0.4).logpdf(y).sum()
    np.testing.assert_allclose(log_prob(pairs, y, noise=0.4), expected, rtol=1e-10)


def test_a_joint_distribution():
    joint = seqgp.likelihoods.Likelihood(lambda f, context: dist.MultivariateNormal(f, jnp.eye(4) + 0.5))
    y = np.array([0.0, 0.5, 1.0, -1.0])
    expected = stats.multivariate_normal(F, np.eye(4) + 0.5).logpdf(y)
    np.testing.assert_allclose(log_prob(joint, y), expected, rtol=1e-10)


@pytest.mark.parametrize(
    ("distribution", "y", "error", "message"),
    [
        (3.0, F, seqgp.ModelError, "returned float, expected a NumPyro distribution"),
        (dist.Normal(0.0, 1.0), F, seqgp.ModelError, r"shape \(\), but y has shape \(4,\)"),
        (
            dist.MultivariateNormal(jnp.zeros(4), jnp.eye(4)),
            np.where(MISSING, np.nan, F),
            seqgp.DataError,
            "joint over elements .* leave them out of y",
        ),
    ],
)
def test_what_a_likelihood_returns_is_checked(distribution, y, error, message):
    with pytest.raises(error, match=message):
        check_distribution(distribution, y)


def test_bad_likelihoods_are_named():
    with pytest.raises(seqgp.ModelError, match="expected a function, got str"):
        seqgp.likelihoods.Likelihood("normal")
    with pytest.raises(seqgp.ModelError, match=r"noise = -1\.0 is not positive"):
        seqgp.likelihoods.Gaussian(-1.0)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: seqgp.likelihoods.Gaussian([0.1, 0.2]), "Gaussian: noise takes one number or prior, not a list of 2"),
        (lambda: seqgp.likelihoods.StudentT([0.1, 0.2]), "StudentT: noise takes one number or prior, not a list of 2"),
        (
            lambda: seqgp.likelihoods.Gaussian(0.1, errors=3),
            "Gaussian: errors = 3: expected the name of an entry of the context",
        ),
        (lambda: seqgp.likelihoods.Gaussian(0.1, trend=0.1, since="a"), "Gaussian: since = a is not one finite number"),
        (lambda: seqgp.likelihoods.Binomial(trials=None), "Binomial: trials = None: expected a number, or the name"),
        (
            lambda: seqgp.likelihoods.Poisson(exposure=[1.0, 2.0]),
            r"Poisson: exposure = \[1.0, 2.0\]: expected a number, or the name",
        ),
        (lambda: seqgp.likelihoods.Censored(0.1, limit=None), "Censored: limit = None: expected a number, or the name"),
        (
            lambda: seqgp.likelihoods.Ordinal([0.5, seqgp.ScaledSigmoid(0, 1)]),
            r"Ordinal: cutpoints must be increasing numbers: \[0\] reaches 0.5, and \[1\] begins at .*e-06; take",
        ),
        (lambda: seqgp.likelihoods.Ordinal([1.0, 1.0]), "Ordinal: cutpoints must be increasing"),
        (lambda: seqgp.likelihoods.Ordinal(cutpoints="ab"), "Ordinal: cutpoints: expected a number"),
    ],
)
def test_arguments_that_no_likelihood_takes_are_named(make, message):
    with pytest.raises(seqgp.ModelError, match=f"^{message}"):
        make()


@pytest.mark.parametrize(
    ("likelihood", "context", "message"),
    [
        (
            seqgp.likelihoods.Poisson(),
            {"exposure": np.array([1.0, -1.0])},
            "Poisson: exposure 'exposure' must be positive numbers",
        ),
        (
            seqgp.likelihoods.Poisson(),
            {"exposure": np.ones((2, 1))},
            r"Poisson: exposure 'exposure' has shape \(2, 1\)",
        ),
        (seqgp.likelihoods.Binomial(2.5), None, "Binomial: trials must be whole numbers, got 2.5"),
        (
            seqgp.likelihoods.Binomial("n"),
            {"n": np.array([2.0, 3.7])},
            "Binomial: trials must be whole numbers, got 3.7",
        ),
        (
            seqgp.likelihoods.Gaussian(0.1, errors="se"),
            {"se": np.array(["a", "b"])},
            "Gaussian: errors 'se' is not an array of num",
        ),
    ],
)
def test_amounts_that_make_no_sense_are_named(likelihood, context, message):
    with pytest.raises(seqgp.DataError, match=f"^{message}"):
        likelihood.check_data(np.array([1.0, 2.0]), context)


@pytest.mark.parametrize(
    ("likelihood", "known"),
    [
        (seqgp.likelihoods.Gaussian(0.3, errors="a"), True),
        (seqgp.likelihoods.Gaussian(0.3, errors="a", combine="squares", trend=0.1), True),
        (seqgp.likelihoods.Poisson("a"), True),
        (seqgp.likelihoods.NegativeBinomial(2.0, "a"), True),
        (seqgp.likelihoods.Binomial("a"), True),
        (seqgp.likelihoods.Censored(0.3, limit="a"), False),
    ],
)
def test_nothing_is_asked_of_an_amount_beside_a_missing_datum(likelihood, known):
    """Whatever stands there, the log density of the rest and its slope are the same."""
    y, values = np.array([1.0, np.nan, 2.0]), jnp.array([0.1, 0.2, 0.3])
    filled, missing = np.array([1.0, 1.0, 2.0]), np.isnan(y)
    found = []
    for unknown in (2.0, np.nan, *((0.0, -3.0) if known else ())):
        context = {"a": np.array([3.0, unknown, 2.0])}
        likelihood.check_data(y, context)
        seen = likelihood.context_at(1.5, context)

        def log_prob(f, seen=seen):
            return likelihood.log_prob(f, filled, missing, seen, {"noise": 0.3, "trend": 0.1, "dispersion": 2.0})

        with jax.numpy_dtype_promotion("standard"):
            found.append(np.append(log_prob(values), jax.grad(log_prob)(values)))
    np.testing.assert_array_equal(found, np.broadcast_to(found[0], (len(found), 4)))
    assert np.isfinite(found[0]).all()
    with pytest.raises(seqgp.DataError, match=r"numbers, got nan among them \(first at index 1\); where nothing"):
        likelihood.check_context(np.ones(3, bool), {"a": np.array([3.0, np.nan, 2.0])})


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: seqgp.likelihoods.Binomial(-3), "Binomial: trials = -3 is not positive and finite"),
        (lambda: seqgp.likelihoods.Poisson(0.0), "Poisson: exposure = 0.0 is not positive and finite"),
        (lambda: seqgp.likelihoods.Censored(0.1, limit=np.nan), "Censored: limit = nan is not finite"),
    ],
)
def test_numbers_that_are_no_amounts_are_named(make, message):
    with pytest.raises(seqgp.ModelError, match=f"^{message}$"):
        make()


def test_cutpoints_may_be_inferred():
    """Of the model's parameters they are a vector, and the density is that of the numbers that they have."""
    between = seqgp.likelihoods.Ordinal([-1.0, seqgp.ScaledSigmoid(-1, 1), dist.LogNormal(1.0, 0.05)])
    model = seqgp.Model(seqgp.Separable(seqgp.kernels.Matern12(1.0), seqgp.kernels.Matern12(1.0)), between)
    assert model.names == ["cutpoints[1]", "cutpoints[2]"]
    cuts = model.parameters(np.array([0.4, -0.7]))["cutpoints"]
    expected = [-1.0, -1 + 2 / (1 + np.exp(-0.4)), np.exp(1.0 - 0.05 * 0.7)]
    np.testing.assert_allclose(cuts, expected, rtol=1e-9)
    edges, y = np.array([-np.inf, *expected, np.inf]), np.array([0, 3, 1, 2])
    shares = stats.logistic.cdf(edges[y + 1] - F) - stats.logistic.cdf(edges[y] - F)
    np.testing.assert_allclose(log_prob(between, y, cutpoints=cuts), np.log(shares).sum(), rtol=1e-9)


@pytest.mark.parametrize(
    "make",
    [
        lambda: seqgp.likelihoods.Poisson(2.0),
        lambda: seqgp.likelihoods.Binomial("trials"),
        lambda: seqgp.likelihoods.NegativeBinomial(2.0, exposure="people"),
        lambda: seqgp.likelihoods.Censored(0.1, limit=0.5),
        lambda: seqgp.likelihoods.Gaussian(0.1, errors="error"),
        lambda: seqgp.means.harmonics(365.25),
    ],
)
def test_two_that_are_made_alike_share_what_is_compiled(make):
    """They compare and hash as equal, which is how compiled functions are found again."""
    one, other = make(), make()
    assert one == other
    assert jax.tree.structure(one) == jax.tree.structure(other)
    assert hash(one.function) == hash(other.function)
